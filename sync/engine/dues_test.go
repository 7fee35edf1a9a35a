package engine

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/internal/testenv"
	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// histories is how many histories TestEveryDueTimeIsAccountedFor plays.
var histories = flag.Int("histories", 0, "how many histories of outages, kills and restarts to play; 0 plays one by chance")

// duesFile has a job for each rule of catch_up, two of them with quiet hours, and a chain of jobs that come after one
// of them.
const duesFile = `
version: 1
service: {url: "sim://", limit: 20/min, paging: page}
jobs:
  latest: {every: 3h, reuse_for: 1m, search: {query: [home espresso], pages: 2}, enrich: {details: {top: 12, refresh_after: 1h}, comments: {top: 5}}}
  all: {every: 5h, quiet: ["01:00-05:00"], catch_up: all, reuse_for: 1m, search: {query: [moka pot], pages: 2}, enrich: {details: {top: 6, refresh_after: 1h}}}
  none: {schedule: ["20 */4 * * *", "50 9 * * *"], quiet: [22:00-04:50], catch_up: none, reuse_for: 1m, search: {query: [latte art]}, enrich: {details: {top: 3}}}
  child: {after: latest, catch_up: all, reuse_for: 1m, search: {query: [cold brew], pages: 2}, enrich: {details: {top: 4}}}
  grandchild: {after: child, catch_up: all, reuse_for: 1m, search: {query: [pour over]}}
`

// TestNextProcessRetriesFailedStart: a process tries a due time again after a minute, and the next one at
// once, also if the clock was ahead at the last try.
func TestNextProcessRetriesFailedStart(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"a minute": time.Minute, "by a clock that was ahead": 400 * day} {
		t.Run(name, func(t *testing.T) {
			bare(t, duesFile, func(w *workshop) {
				time.Sleep(6 * time.Hour) // after the quiet hours
				last := w.config.Job("all").Last(time.Now().Add(-day), time.Now(), time.UTC)
				due := runs.Due{Job: "all", At: last, Trigger: string(CatchUp)}
				w.inspect(func(e *Engine) {
					w.see(e, "all")
					err := e.Store.DB.Update(func(tx *store.Tx) error { return runs.NoteDues(tx, []runs.Due{due}) })
					if due.NotBefore = time.Now().Add(wait); err == nil {
						err = e.Store.Schedule.Delay(due)
					}
					if err != nil {
						t.Fatal(err)
					}
				})
				isOfDue := func(r runs.Run) bool { return r.Job == due.Job && r.Due.Equal(due.At) }
				if rows := w.serve(30 * time.Second); !slices.ContainsFunc(rows, isOfDue) {
					t.Errorf("the due time %s has no run, but there are %+v", due.At, rows)
				}
			})
		})
	}
}

// prompt is the maximum delay of a run that waits only for pages of other runs and for pauses after
// failed calls.
const prompt = 15 * time.Minute

// span is a period of time.
type span struct{ from, to time.Time }

// A history has random times at which the network is unreachable and at which the process is up. In the
// end everything works.
type history struct {
	*workshop
	dice    *rand.Rand
	outages []span
	ill     []span // in which all free calls fail
	ups     []span
	dues    map[string]time.Time // of each run, as first stored
}

func (h *history) some(d time.Duration) time.Duration { return time.Duration(h.dice.Int64N(int64(d))) }

// RoundTrip implements [http.RoundTripper]: it is the network.
func (h *history) RoundTrip(r *http.Request) (*http.Response, error) {
	now := time.Now()
	within := func(s span) bool { return !now.Before(s.from) && now.Before(s.to) }
	switch {
	case slices.ContainsFunc(h.outages, within):
		return nil, errors.New("no route to host")
	case slices.ContainsFunc(h.ill, within) && !strings.HasPrefix(r.URL.Path, "/search/"):
		connect(r)
		return page(http.StatusBadGateway, "text/html", "<html>no</html>"), nil
	}
	return h.service.Transport().RoundTrip(r)
}

// live runs the schedule until the given time, or until the process is killed at one of its calls.
func (h *history) live(until time.Time) {
	ctx, cancel := context.WithCancelCause(h.ctx)
	defer cancel(nil)
	timed, stop := context.WithDeadline(ctx, until)
	defer stop()
	last, killed := h.dice.IntN(60), false // the call at which the process is killed, unless the time ends first
	image := filepath.Join(h.dir, "image")
	kill := func() (*http.Response, error) {
		if err := os.CopyFS(image, os.DirFS(h.data())); err != nil {
			h.Fatal(err)
		}
		killed = true
		cancel(errKilled)
		return nil, errKilled
	}
	answered := h.dice.IntN(2) == 0
	h.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
		if last--; killed || last != 0 {
			return h.RoundTrip(r)
		}
		if !answered {
			return kill()
		}
		_, _ = h.RoundTrip(r) // the service has processed the request, and the answer is lost
		return kill()
	})
	from := time.Now()
	h.serveUntil(timed)
	h.ups = append(h.ups, span{from, time.Now()})
	if killed {
		if err := errors.Join(os.RemoveAll(h.data()), os.Rename(image, h.data())); err != nil {
			h.Fatal(err)
		}
	}
	h.wire = h
	for _, run := range h.runs() {
		if due, known := h.dues[run.ID]; known && !due.Equal(run.Due) {
			h.Errorf("run %s of %s was due %s and is due %s", run.ID, run.Job, due, run.Due)
		}
		h.dues[run.ID] = run.Due
	}
}

func (h *history) runs() (rows []runs.Run) {
	h.inspect(func(e *Engine) {
		var err error
		if rows, err = e.Store.Runs.List(runs.Filter{}, 0); err != nil {
			h.Fatal(err)
		}
	})
	slices.Reverse(rows)
	return rows
}

// play runs some random days, and then some hours in which everything works.
func (h *history) play(days int) {
	h.inspect(func(e *Engine) { h.see(e, "latest", "all", "none", "child", "grandchild") })
	begin := time.Now()
	end := begin.Add(time.Duration(days) * day)
	for at := begin; at.Before(end); {
		at = at.Add(h.some(10 * time.Hour))
		s := span{at, at.Add(h.some([]time.Duration{time.Minute, 30 * time.Minute, 7 * time.Hour}[h.dice.IntN(3)]))}
		if at = s.to; h.dice.IntN(3) == 0 {
			h.ill = append(h.ill, s)
		} else {
			h.outages = append(h.outages, s)
		}
	}
	for time.Now().Before(end) {
		h.live(time.Now().Add(h.some(8 * time.Hour)))
		time.Sleep(h.some([]time.Duration{time.Second, 20 * time.Minute, 9 * time.Hour}[h.dice.IntN(3)]))
	}
	h.outages, h.ill = nil, nil
	from := time.Now()
	h.serve(atEnd)
	h.ups = append(h.ups, span{from, time.Now()})
}

// up returns the period around a time in which the process was up; zero if it was not.
func (h *history) up(at time.Time) span {
	for _, s := range h.ups {
		if !at.Before(s.from) && at.Before(s.to) {
			return s
		}
	}
	return span{}
}

// check compares every due time with the records.
func (h *history) check() {
	rows, end := h.runs(), time.Now()
	record := map[string]runs.Run{}
	for _, run := range rows {
		key := fmt.Sprint(run.Job, run.Due.UnixMicro())
		if _, twice := record[key]; twice {
			h.Errorf("%s has two runs for %s", run.Job, run.Due)
		}
		record[key] = run
		if spec := h.config.Job(run.Job); !spec.AfterQuiet(run.Started, time.UTC).Equal(run.Started) && run.Trigger != string(After) {
			h.Errorf("%s for %s began at %s, in quiet hours", run.Job, run.Due, run.Started)
		}
		h.saysWhy(&run)
	}
	at := func(name string, due time.Time) (runs.Run, bool) {
		run, ok := record[fmt.Sprint(name, due.UnixMicro())]
		return run, ok
	}
	for i := range h.config.Jobs {
		spec := &h.config.Jobs[i]
		if spec.After != "" {
			h.checkFollows(spec, rows, at)
			continue
		}
		for due := spec.Next(h.ups[0].from, time.UTC); due.Before(end.Add(-prompt)); due = spec.Next(due, time.UTC) {
			run, performed := at(spec.Name, due)
			if late := h.late(spec, due); !performed && !late || performed && !late && run.Started.Sub(due) > prompt {
				h.Errorf("%s has no run in time for %s, although the process was up: %+v", spec.Name, due, run)
			}
			if !performed && spec.CatchUp == job.CatchUpAll {
				h.Errorf("%s has no run for %s, and catches up on all", spec.Name, due)
			}
		}
		for _, s := range h.ups {
			h.checkCaughtUp(spec, s, at)
		}
	}
}

// atEnd is how long the process is up at the end of a history: longer than from any due time to the next one, at which
// an interrupted run is continued.
const atEnd = 13 * time.Hour

// saysWhy checks that a run has searched, or that its record has a reason.
func (h *history) saysWhy(run *runs.Run) {
	switch run.Status {
	case runs.OK, runs.Partial, runs.OKEmpty:
		if run.Pages == 0 {
			h.Errorf("%s for %s is %s without a page", run.Job, run.Due, run.Status)
		}
	case runs.Failed:
		if run.Error == "" {
			h.Errorf("%s for %s failed and does not say why", run.Job, run.Due)
		}
	case runs.Running:
		h.Errorf("%s for %s is running, and no process is", run.Job, run.Due)
	case runs.Interrupted:
		h.inspect(func(e *Engine) {
			open, err := e.Store.Runs.Unfinished(run.Job)
			if err != nil {
				h.Fatal(err)
			}
			left := slices.ContainsFunc(open, func(u runs.Run) bool { return u.ID == run.ID })
			if left && run.Started.Before(time.Now().Add(-atEnd)) {
				h.Errorf("%s for %s is still interrupted", run.Job, run.Due)
			}
		})
	}
}

// late reports whether the process was not up long enough after a due time.
func (h *history) late(spec *job.Spec, due time.Time) bool {
	s := h.up(due)
	return s.to.Sub(due) < prompt
}

// checkCaughtUp checks that the last due time missed before a start has a run, if the process was up long
// enough.
func (h *history) checkCaughtUp(spec *job.Spec, s span, at func(string, time.Time) (runs.Run, bool)) {
	var last time.Time
	from := spec.AfterQuiet(s.from, time.UTC)
	for due := spec.Next(h.ups[0].from, time.UTC); !due.After(from); due = spec.Next(due, time.UTC) {
		last = due
	}
	next := spec.Next(from, time.UTC)
	if last.IsZero() || s.to.Sub(from) < prompt || next.Sub(from) < prompt {
		return
	}
	// An unfinished run of the job is resumed first, and takes less than a minute.
	if spec.CatchUp == job.CatchUpNone && from.Sub(last) > missedAfter-time.Minute {
		return
	}
	if _, performed := at(spec.Name, last); !performed {
		h.Errorf("%s has no run for %s, which had passed last when the process started at %s", spec.Name, last, s.from)
	}
}

// checkFollows checks that a job has exactly one run for each run of its parent that searched.
func (h *history) checkFollows(spec *job.Spec, rows []runs.Run, at func(string, time.Time) (runs.Run, bool)) {
	for _, run := range rows {
		_, followed := at(spec.Name, run.Due)
		parent, _ := at(spec.After, run.Due)
		switch {
		case run.Job == spec.After && run.Status.EndedWell() && !followed:
			h.Errorf("%s has no run after that of %s for %s", spec.Name, run.Job, run.Due)
		case run.Job == spec.Name && parent.Pages == 0:
			h.Errorf("%s has a run for %s, at which its parent found nothing: %+v", spec.Name, run.Due, parent)
		}
	}
}

// TestEveryDueTimeIsAccountedFor: over outages, kills and restarts, each due time has exactly one run
// that searched, or a record with the reason why not; and each run that searched is followed once by the
// job after it.
func TestEveryDueTimeIsAccountedFor(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	days := 1
	if *histories > 0 {
		days = 2
	}
	for _, seed := range seedsToPlay(t, *histories, 1, 200) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorkshop(t, duesFile)
				w.bare = true
				h := &history{workshop: w, dice: rand.New(rand.NewPCG(seed, 1)), dues: map[string]time.Time{}}
				w.wire = h
				h.play(days)
				h.check()
			})
		})
	}
}

// A stopper calls stop when that many runs have started, as a log says.
type stopper struct {
	runs int
	stop func()
}

// Write implements [io.Writer].
func (s *stopper) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("run started")) {
		s.runs--
	}
	if s.runs == 0 {
		s.stop()
	}
	return len(line), nil
}

// TestBacklogRunsInDueOrder: a job that wants every due time has missed two weeks of minutes. A turn reads
// and notes one of them, and each gets its run in its order.
func TestBacklogRunsInDueOrder(t *testing.T) {
	t.Parallel()
	bare(t, "version: 1\nservice: {url: \"sim://\"}\njobs:\n"+
		"  all: {every: 1m, catch_up: all, channels: {id: {file: nothing.txt}}}\n", func(w *workshop) {
		if err := os.WriteFile(filepath.Join(w.dir, "nothing.txt"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		last := time.Now().Add(-20_000 * time.Minute).Truncate(time.Minute)
		w.inspect(func(e *Engine) {
			if err := e.Store.Schedule.SetNoted("all", last); err != nil {
				t.Fatal(err)
			}
		})
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		w.log = slog.New(slog.NewTextHandler(&stopper{runs: 30, stop: cancel}, nil))
		rows := w.serveUntil(ctx)
		if len(rows) < 30 {
			t.Errorf("%d runs began, want 30", len(rows))
		}
		for _, r := range rows {
			if last = last.Add(time.Minute); !r.Due.Equal(last) {
				t.Fatalf("run of %s, want one of %s", r.Due, last)
			}
		}
		w.inspect(func(e *Engine) {
			if noted, err := e.Store.Schedule.Dues(); len(noted) > 1 || err != nil {
				t.Errorf("%d due times are noted (%v), want the next one", len(noted), err)
			}
		})
	})
}
