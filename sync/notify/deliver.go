package notify

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

// Deliverer sends the events of the outbox, to each target in the order in which they were written.
// After a failure a target is retried in a minute, then in two, and so on up to six hours. The other
// targets are not delayed.
//
// An event is sent at least once. It is sent twice if the process is killed after the target has
// accepted it and before that is recorded.
type Deliverer struct {
	Store   *store.Store
	Ledger  *ledger.Ledger // its time determines which events are old
	Targets []job.Target
	Sender  *Sender
	Log     *slog.Logger
	Health  *Health // of the targets; one for all deliverers of a process, so that a reload logs nothing twice

	mu    sync.Mutex
	taken map[int64]bool // events that were accepted, but could not be recorded yet
}

// Health records which targets fail. A line is logged when a target begins to fail, and one when it
// works again, at most once in [warnEvery] for each target, because a target may fail now and then.
type Health struct {
	mu  sync.Mutex
	ill map[string]*illness // by target
}

type illness struct {
	failed int       // consecutive attempts
	warned bool      // the failure was logged
	last   time.Time // when a failure was logged last
}

const warnEvery = time.Hour

// How often the deliverer polls for new events, and how long an attempt may still take when it stops.
const (
	lookEvery = 5 * time.Second
	grace     = 2 * time.Second
)

// Run delivers until ctx ends.
func (d *Deliverer) Run(ctx context.Context) {
	var all sync.WaitGroup
	for i := range d.Targets {
		if t := &d.Targets[i]; !t.Off {
			all.Go(func() { d.serveTarget(ctx, t) })
		}
	}
	all.Go(func() {
		for {
			d.expireEvents()
			if !sleepUntilDone(ctx, time.Hour) {
				return
			}
		}
	})
	all.Wait()
}

// serveTarget delivers to one target until ctx ends.
func (d *Deliverer) serveTarget(ctx context.Context, t *job.Target) {
	for {
		next := d.sendWaiting(ctx, t)
		wait := lookEvery
		if until := time.Until(next); until > wait {
			wait = until // other events of this target would fail, too
		}
		if !sleepUntilDone(ctx, wait) {
			return
		}
	}
}

// Flush attempts once to send every event that is due, for a process that is about to end. Events
// that fail are left for the next process, until they are old.
func (d *Deliverer) Flush(ctx context.Context) {
	var all sync.WaitGroup
	for i := range d.Targets {
		if t := &d.Targets[i]; !t.Off {
			all.Go(func() { d.sendWaiting(ctx, t) })
		}
	}
	all.Wait()
	d.expireEvents()
}

// doubtful is the number of failed attempts, about an hour, after which the event itself may be the
// reason.
const doubtful = 6

// sendWaiting sends the waiting events of a target until none is left or the target itself fails. It
// returns when the target may be tried again; zero for now.
//
// After an event that has failed often, one more is tried. Some targets fail on the content of one
// event, which must not delay the others until it is dropped.
func (d *Deliverer) sendWaiting(ctx context.Context, t *job.Target) (alone time.Time) {
	for ctx.Err() == nil {
		var w *waiting
		now := time.Now()
		err := d.Store.View(func(tx *store.Tx) (err error) {
			w, err = nextFor(tx, t.Name, now)
			return err
		})
		if err != nil {
			d.Log.Error("outbox not read", "target", t.Name, "err", err)
			return now.Add(time.Minute)
		}
		if w == nil || w.next.After(now) {
			return alone
		}
		rest := d.attemptEvent(ctx, t, w)
		if !rest.IsZero() && (w.tries < doubtful || !alone.IsZero()) {
			return cmp.Or(alone, rest)
		}
		alone = rest
	}
	return alone
}

// attemptEvent sends one event and records the result. It returns when the target may be tried again;
// zero if the next event may follow.
func (d *Deliverer) attemptEvent(ctx context.Context, t *job.Target, w *waiting) time.Time {
	var err error
	to := w.leftRecipients(t)
	if lacks := t.Kind == job.TargetMail && len(to.Mail.To) == 0; !lacks && !d.isTaken(w.id) {
		err = d.sendEvent(ctx, to, w.event)
	}
	if err != nil && ctx.Err() != nil {
		return time.Time{} // stopped, which says nothing about the target
	}
	if err == nil {
		d.setTaken(w.id, true)
		if err := d.Store.Update(func(tx *store.Tx) error { return settleEvent(tx, w.id) }); err != nil {
			d.Log.Error("delivery not recorded", "target", t.Name, "event", w.event.ID, "err", err)
			return time.Now().Add(time.Minute)
		}
		d.setTaken(w.id, false)
		d.logRecovery(t)
		return time.Time{}
	}
	wait := backoff(w.tries)
	refused, isRefusal := errors.AsType[*RefusedError](err)
	if isRefusal {
		wait = max(wait, refused.After)
	}
	until := time.Now().Add(wait)
	d.logFailure(t, w, err, until)
	part, inPart := errors.AsType[*PartError](err)
	if err := d.Store.Update(func(tx *store.Tx) error {
		if inPart {
			if err := leaveRecipients(tx, w.id, part.Left); err != nil {
				return err
			}
		}
		return postponeEvent(tx, w.id, until)
	}); err != nil {
		d.Log.Error("failed delivery not recorded", "target", t.Name, "event", w.event.ID, "err", err)
		return until
	}
	if inPart || isRefusal && !refused.isBusy() {
		return time.Time{} // the target refused this event, and may accept others
	}
	return until
}

// sendEvent is [Sender.Send]. An attempt may still finish shortly after ctx ends, because the target may
// already have accepted the event.
func (d *Deliverer) sendEvent(ctx context.Context, t *job.Target, e Event) error {
	going, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		sleepUntilDone(going, grace)
		cancel()
	})
	defer stop()
	return d.Sender.Send(going, t, e)
}

func (d *Deliverer) isTaken(id int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.taken[id]
}

func (d *Deliverer) setTaken(id int64, taken bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.taken == nil {
		d.taken = map[int64]bool{}
	}
	if delete(d.taken, id); taken {
		d.taken[id] = true
	}
}

// logFailure logs that a target fails, unless that was logged within the hour.
func (d *Deliverer) logFailure(t *job.Target, w *waiting, err error, until time.Time) {
	h := d.Health
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ill == nil {
		h.ill = map[string]*illness{}
	}
	of, known := h.ill[t.Name]
	if !known {
		of = &illness{}
		h.ill[t.Name] = of
	}
	of.failed++
	if now := time.Now(); !of.warned && (of.last.IsZero() || now.Sub(of.last) >= warnEvery) {
		of.warned, of.last = true, now
		d.Log.Warn("notification failed", "target", t.Name, "event", string(w.event.Kind), "retry_at", until,
			"err", err)
	}
}

// logRecovery logs that a target works again, if its failure was logged.
func (d *Deliverer) logRecovery(t *job.Target) {
	h := d.Health
	h.mu.Lock()
	defer h.mu.Unlock()
	of := h.ill[t.Name]
	if of == nil {
		return
	}
	if of.warned {
		d.Log.Info("notifications delivered again", "target", t.Name, "attempts_failed", of.failed)
	}
	of.failed, of.warned = 0, false
}

func (d *Deliverer) expireEvents() {
	var lost int64
	certain, known, err := d.Ledger.CertainTime()
	if err == nil && known {
		err = d.Store.Update(func(tx *store.Tx) (err error) {
			lost, err = expireBefore(tx, certain)
			return err
		})
	}
	switch {
	case err != nil:
		d.Log.Error("outbox not cleaned", "err", err)
	case lost > 0:
		d.Log.Error("notifications dropped", "events", lost, "err", "no target accepted them within 7 days")
	}
}

// backoff returns how long to wait after a failure, given the number of failures before it.
func backoff(tries int) time.Duration {
	return min(time.Minute<<min(tries, 16), maxBackoff)
}

// sleepUntilDone sleeps for d, and reports false if ctx ended before.
func sleepUntilDone(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
