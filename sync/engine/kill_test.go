package engine

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"outlierd/outlier"
)

// moment is the point of a call at which a process is killed.
type moment string

const (
	beforePace   moment = "before its turn"    // nothing is stored
	beforeDial   moment = "before it connects" // its price is reserved, and nothing was sent
	beforeSend   moment = "before it is sent"  // recorded as sent, and the service does not receive it
	beforeAnswer moment = "before its answer"  // the service has processed it, and the answer is lost
)

// errKilled stands for the end of a process.
var errKilled = errors.New("killed")

// kill runs the only job and ends the process at its n-th call, from 0: the next process has only what
// was on the disk at that moment. It returns false if the run ended before that call.
func (w *workshop) kill(n int, when moment) (hit bool) {
	w.Helper()
	ctx, cancel := context.WithCancelCause(w.ctx)
	defer cancel(nil)
	image, calls, well := filepath.Join(w.dir, "image"), 0, w.wire
	here := func(now moment) bool {
		if hit || calls != n || now != when {
			return false
		}
		hit = true
		if err := os.CopyFS(image, os.DirFS(w.data())); err != nil {
			w.Fatal(err)
		}
		cancel(errKilled)
		return true
	}
	w.pacer = func(p outlier.Pacer) outlier.Pacer { return turnstile{p, func() { here(beforePace) }} }
	w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
		defer func() { calls++ }()
		if here(beforeDial) {
			return nil, errKilled
		}
		if calls == n && when == beforeSend {
			connect(r)
			here(beforeSend)
			return nil, errKilled
		}
		answer, err := well.RoundTrip(r)
		if here(beforeAnswer) {
			return nil, errKilled
		}
		return answer, err
	})
	e, stop := w.open()
	_, _ = e.Run(ctx, &w.config.Jobs[0], Manual, time.Time{}) // the process has ended
	stop()
	w.wire, w.pacer = well, nil
	if hit {
		if err := errors.Join(os.RemoveAll(w.data()), os.Rename(image, w.data())); err != nil {
			w.Fatal(err)
		}
	}
	return hit
}

// turnstile is a pacer that reports every call that waits for its turn.
type turnstile struct {
	outlier.Pacer
	tell func()
}

func (p turnstile) Wait(ctx context.Context, r *outlier.Request) error {
	p.tell()
	return p.Pacer.Wait(ctx, r)
}
