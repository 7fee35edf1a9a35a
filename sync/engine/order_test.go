package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/outlier/simulator"
	"outlierd/sinks"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/load"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// busyFile has a scheduled job that takes many pages and then makes calls about its hits.
const busyFile = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  long:
    every: 1h
    for_each: {topic: [home espresso, chess, minecraft]}
    search: {query: "${topic}", pages: 9}
    enrich: {details: {top: 20}}
  short: {search: {query: [latte art], pages: 1}, enrich: {transcript: {top: 2}}}
  other: {search: {query: [moka pot], pages: 2}, enrich: {transcript: {top: 15}}}
`

// keeping runs the schedule until the test returns or calls stop.
func (w *workshop) keeping(test func(e *Engine, stop func())) {
	w.Helper()
	e, closeAll := w.open()
	defer closeAll()
	w.serving(e, func(stop func()) { test(e, stop) })
}

// serving is keeping with an engine that is open.
func (w *workshop) serving(e *Engine, test func(stop func())) {
	w.Helper()
	if _, err := e.Agenda(time.Now()); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		e.Serve(ctx)
	}()
	stop := func() {
		cancel()
		<-over
	}
	defer stop()
	time.Sleep(time.Millisecond)
	test(stop)
}

// order orders a run of a job by hand, and waits until it has started.
func (w *workshop) order(e *Engine, o Order) *OrderedRun {
	w.Helper()
	o.Trigger = Manual
	ordered, err := e.Order(w.ctx, o)
	if err != nil {
		w.Fatal(err)
	}
	return ordered
}

// ends waits for the end of an ordered run.
func (w *workshop) ends(o *OrderedRun, want runs.Status) *runs.Run {
	w.Helper()
	row, err := o.Result()
	if err != nil || row.Status != want {
		w.Errorf("the ordered run ended as %+v with error %v, want status %s", row, err, want)
	}
	return row
}

// cancel cancels an ordered run, without waiting until it has stopped.
func cancel(e *Engine, o *OrderedRun) {
	go func() { _ = e.Cancel(context.Background(), o.Run()) }() // fails if the run has already ended
}

// once returns the job of a one-off search.
func (w *workshop) once(query string, pages int) *job.Spec {
	w.Helper()
	spec, err := w.config.Once(job.OneOff{Keys: job.Keys{"search.query": {query}, "search.pages": {strconv.Itoa(pages)}}})
	if err != nil {
		w.Fatal(err)
	}
	return spec
}

// last returns the last recorded run of a job.
func (w *workshop) last(e *Engine, name string) runs.Run {
	w.Helper()
	rows, err := e.Store.Runs.List(runs.Filter{Job: name}, 1)
	if err != nil || len(rows) == 0 {
		w.Fatalf("runs of job %s: %v, %v", name, rows, err)
	}
	return rows[0]
}

// sent records when calls are sent, and delays each of them.
type sent struct {
	mu    sync.Mutex
	calls []string
	times []time.Time
}

func (s *sent) over(wire http.RoundTripper, latency time.Duration) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		s.mu.Lock()
		s.calls, s.times = append(s.calls, r.URL.Path+"?"+r.URL.RawQuery), append(s.times, time.Now())
		s.mu.Unlock()
		time.Sleep(latency)
		return wire.RoundTrip(r)
	})
}

// soFar returns the calls that were sent, and when.
func (s *sent) soFar() (calls []string, times []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls), slices.Clone(s.times)
}

// TestIdleScheduleServesOrder immediately.
func TestIdleScheduleServesOrder(t *testing.T) {
	t.Parallel()
	single(t, scheduledFile, func(w *workshop) {
		w.keeping(func(e *Engine, stop func()) {
			time.Sleep(10 * time.Minute)
			asked := time.Now()
			o := w.order(e, Order{Spec: w.config.Job("by-hand")})
			row := w.ends(o, runs.OK)
			if row.ID != o.Run() || row.Pages != 1 || row.Trigger != string(Manual) || o.Joined() {
				t.Errorf("the run ended as %+v", row)
			}
			if took := time.Since(asked); took > time.Second {
				t.Errorf("it took %s", took)
			}
			if p, err := e.ProgressOf(o.Run()); err != nil || p.Run != row.ID || p.Spend.Charged != 2 {
				t.Errorf("progress %+v, %v", p, err)
			}
			if n := w.count("select count(*) from outliers"); n == 0 {
				t.Error("the run's rows are not published")
			}
			stop()
			if _, err := e.Order(w.ctx, Order{Spec: w.config.Job("by-hand")}); !errors.Is(err, ErrNotServing) {
				t.Errorf("an order after the schedule has stopped returned %v", err)
			}
			if err := e.Between(w.ctx, func(context.Context) error { return nil }); !errors.Is(err, ErrNotServing) {
				t.Errorf("a call after the schedule has stopped returned %v", err)
			}
		})
	})
}

// TestOrderTakesTheNextSlot for its page, whatever the schedule does, and for its data calls after the pages of the
// schedule. The scheduled run has the same results and price as without the order.
func TestOrderTakesTheNextSlot(t *testing.T) {
	t.Parallel()
	const latency = 2 * time.Second
	what := func(w *workshop, e *Engine) string {
		row := w.last(e, "long")
		steps, err := e.Store.Steps.OfRun(row.ID)
		if err != nil || row.Waited.Duration < time.Minute {
			w.Fatal(row.Waited, err)
		}
		all := []any{row.Status, row.Pages, row.Hits, row.Credits, row.Requests, row.Missing, row.Failures, row.Rows}
		for _, step := range steps {
			all = append(all, step.Stop, step.Seen, step.Pages)
		}
		return fmt.Sprintln(all...)
	}
	var alone string
	bare(t, busyFile, func(w *workshop) {
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(time.Hour + 20*time.Minute)
			alone = what(w, e)
		})
	})
	for _, after := range []time.Duration{
		time.Second,                   // in its first call
		25 * time.Second,              // while a page waits for a slot
		2*time.Minute + 1*time.Second, // in a later call
		4 * time.Minute,               // while a data call waits for a slot
	} {
		bare(t, busyFile, func(w *workshop) {
			var seen sent
			w.wire = seen.over(w.wire, latency)
			w.keeping(func(e *Engine, _ func()) {
				time.Sleep(time.Hour + after)
				asked := time.Now()
				earlier, _ := seen.soFar()
				before := len(earlier)
				o := w.order(e, Order{Spec: w.config.Job("short")})
				row := w.ends(o, runs.OK)
				if row.Pages != 1 || row.Requests != 3 || row.Credits != 2 {
					t.Errorf("after %s: %+v", after, row)
				}
				calls, times := seen.soFar()
				mine := calls[before:]
				own := slices.IndexFunc(mine, func(call string) bool { return strings.Contains(call, "transcript") })
				page := func(call string) bool { return strings.HasPrefix(call, "/search/") }
				if own < 1 || !strings.Contains(mine[0], "latte") || !strings.Contains(mine[own+1], "transcript") ||
					slices.ContainsFunc(mine[:own], func(call string) bool { return !page(call) }) {
					t.Errorf("after %s the calls were %q", after, mine)
				}
				for i := range mine {
					free := asked
					if i > 0 {
						free = times[before+i-1].Add(latency)
					}
					if at := before + i - 10; at >= 0 && times[at].Add(latency+time.Minute).After(free) {
						free = times[at].Add(latency + time.Minute)
					}
					if late := times[before+i].Sub(free); late > latency+time.Second {
						t.Errorf("after %s call %d from then on left %s after there was a slot", after, i, late)
					}
				}
				time.Sleep(20 * time.Minute)
				if got := what(w, e); got != alone {
					t.Errorf("after %s the scheduled run ended as\n%s\nand alone as\n%s", after, got, alone)
				}
			})
		})
	}
}

// TestDuePagesPrecedeManualDataCalls: a search is due each minute beside a manual run of many free calls.
func TestDuePagesPrecedeManualDataCalls(t *testing.T) {
	t.Parallel()
	var ids []string
	for i := range 250 {
		ids = append(ids, fmt.Sprintf("video-%05d", i+1))
	}
	bare(t, `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  watch: {every: 1m, reuse_for: 1m, search: {query: [moka pot]}}
  many: {videos: {id: [`+strings.Join(ids, ", ")+`]}}
`, func(w *workshop) {
		w.keeping(func(e *Engine, _ func()) {
			w.order(e, Order{Spec: w.config.Job("many")})
			time.Sleep(15*time.Minute + 30*time.Second)
			searched, err := e.Store.Runs.List(runs.Filter{Job: "watch"}, 0)
			if err != nil || len(searched) != 15 {
				t.Errorf("in 15 minutes there were %d runs of a job that is due each minute (%v)", len(searched), err)
			}
			for _, row := range searched {
				if took := row.Ended.Sub(row.Due); took > 10*time.Second || row.Status != runs.OK {
					t.Errorf("a run ended %s after it was due, as %s", took, row.Status)
				}
			}
			if calls := w.calls(outlier.OpDetails); calls < 100 {
				t.Errorf("in 15 minutes %d free calls were made", calls)
			}
		})
	})
}

// TestOrderPublishesSameRowsAsRun without a schedule.
func TestOrderPublishesSameRowsAsRun(t *testing.T) {
	t.Parallel()
	tables := []string{"select video_id, z_score from outliers order by all", "select video_id from transcripts order by all"}
	rows := func(serve bool) (all [][]string) {
		bubble(t, busyFile, func(w *workshop) {
			w.single = true
			if serve {
				w.keeping(func(e *Engine, _ func()) { w.ends(w.order(e, Order{Spec: w.config.Job("other")}), runs.OK) })
			} else {
				w.withSinks(func(e *Engine) {
					if _, err := e.Run(w.ctx, w.config.Job("other"), Manual, time.Time{}); err != nil {
						t.Error(err)
					}
				})
			}
			for _, query := range tables {
				all = append(all, w.rows(query))
			}
		})
		return all
	}
	alone := rows(false)
	if diff := cmp.Diff(alone, rows(true)); diff != "" || len(alone[0]) == 0 || len(alone[1]) == 0 {
		t.Errorf("what a run brings beside the schedule (-alone +beside):\n%s", diff)
	}
}

// TestOrderEndsDuringLongWait at once, like a run without a daemon, and the schedule continues to wait.
func TestOrderEndsDuringLongWait(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		w.wire = blocking(w.service.Transport(), "/video/")
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(time.Hour + 5*time.Minute)
			if row := w.last(e, "long"); row.Status != runs.PausedQuota {
				t.Fatalf("the scheduled run is %+v, want it to wait for the rate limit", row)
			}
			asked := time.Now()
			row, err := w.order(e, Order{Spec: w.config.Job("short")}).Result()
			long, ok := errors.AsType[*pace.LongWaitError](err)
			if !ok || row.Status != runs.PausedQuota || time.Since(asked) > time.Second {
				t.Fatalf("the order ended as %+v with %v", row, err)
			}
			joined := w.order(e, Order{Spec: w.config.Job("long")})
			if row, err := joined.Result(); !joined.Joined() || !errors.As(err, &long) || row.Status != runs.PausedQuota {
				t.Errorf("joining a waiting run returned %+v, %v", row, err)
			}
			if row := w.last(e, "long"); row.Status != runs.PausedQuota || row.ID != joined.Run() {
				t.Errorf("the scheduled run is %+v, want it to wait on", row)
			}
			time.Sleep(time.Until(long.Until) + 10*time.Minute)
			if row := w.last(e, "long"); row.Status != runs.OK || row.Pages != 27 {
				t.Errorf("the scheduled run ended as %+v", row)
			}
			again := w.order(e, Order{Spec: w.config.Job("short")})
			if w.ends(again, runs.OK); again.Run() != row.ID {
				t.Errorf("run %s, want run %s to go on", again.Run(), row.ID)
			}
		})
	})
}

// TestOrderReportsErrorDuringOutage while the schedule waits for the service. The first answer ends that
// wait.
func TestOrderReportsErrorDuringOutage(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		away := true
		healthy := w.service.Transport()
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			if away && !strings.HasPrefix(r.URL.Path, "/search/") {
				connect(r)
				return page(http.StatusBadGateway, "text/html", "<html>bad gateway</html>"), nil
			}
			return healthy.RoundTrip(r)
		})
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(time.Hour + 10*time.Minute)
			paused := func() (until time.Time) {
				err := e.Between(w.ctx, func(context.Context) error {
					until = e.turns.schedule.Load().worker.pausedUntil
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				return until
			}
			until := paused()
			if time.Until(until) < 3*time.Minute {
				t.Fatalf("the queue is paused for another %s", time.Until(until))
			}
			row := w.ends(w.order(e, Order{Spec: w.config.Job("other")}), runs.Partial)
			if time.Now().After(until) || !strings.Contains(row.Error, "calls failed in a row") {
				t.Errorf("%s after the queue was paused the order ended with %q", time.Since(until), row.Error)
			}
			away = false
			w.ends(w.order(e, Order{Spec: w.config.Job("short")}), runs.OK)
			if until := paused(); until.After(time.Now()) {
				t.Errorf("the queue is paused until %s, although the service answers", until)
			}
		})
	})
}

// TestOrderWaitsForNoRetry of a scheduled call that failed.
func TestOrderWaitsForNoRetry(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		for range plan.Attempts - 1 {
			w.service.FailNext(outlier.OpSearch, simulator.ServerError)
		}
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(time.Hour + 2*time.Second) // the third attempt is due after five
			asked := time.Now()
			w.ends(w.order(e, Order{Spec: w.config.Job("short")}), runs.OK)
			if took := time.Since(asked); took > time.Second {
				t.Errorf("the order took %s", took)
			}
			time.Sleep(20 * time.Minute)
			if row := w.last(e, "long"); row.Status != runs.OK || row.Pages != 27 || w.calls(outlier.OpSearch) != 27+1+plan.Attempts-1 {
				t.Errorf("%d searches, and the scheduled run ended as %+v", w.calls(outlier.OpSearch), row)
			}
		})
	})
}

// TestStopEndsOrders like other runs; they can be continued.
func TestStopEndsOrders(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		var before *runs.Run
		w.wire = (&sent{}).over(w.wire, time.Second)
		w.keeping(func(e *Engine, stop func()) {
			o := w.order(e, Order{Spec: w.config.Job("other")})
			time.Sleep(1500 * time.Millisecond) // in page two
			stop()
			var err error
			if before, err = o.Result(); !errors.Is(err, context.Canceled) || before.Status != runs.Interrupted || before.Pages != 1 {
				t.Errorf("the order ended as %+v with %v", before, err)
			}
			cancel(e, o) // too late
		})
		w.keeping(func(e *Engine, stop func()) {
			o := w.order(e, Order{Spec: w.config.Job("other")})
			if row := w.ends(o, runs.OK); row.ID != before.ID || row.Pages != 2 || row.Credits != 4 || w.spent() != 4 {
				t.Errorf("run %s ended as %+v", before.ID, row)
			}
		})
	})
}

// TestOrdersAreContinuedAfterARestart, of jobs and of one-off requests, unless they were cancelled.
func TestOrdersAreContinuedAfterARestart(t *testing.T) {
	t.Parallel()
	file := strings.Replace(busyFile, "jobs:", "budget: {per_month: 10, reserve: 8}\njobs:", 1)
	bare(t, file, func(w *workshop) {
		w.wire = (&sent{}).over(w.wire, time.Second)
		var ordered []*OrderedRun
		w.keeping(func(e *Engine, stop func()) {
			o := w.order(e, Order{Spec: w.config.Job("short")})
			cancel(e, o)
			if _, err := o.Result(); !isA[*CancelledError](err) {
				t.Errorf("the run was not cancelled: %v", err)
			}
			for _, spec := range []*job.Spec{w.config.Job("other"), w.once("latte art", 1)} {
				ordered = append(ordered, w.order(e, Order{Spec: spec, Afresh: true, UseReserve: true}))
			}
			time.Sleep(500 * time.Millisecond)
			stop()
		})
		w.keeping(func(e *Engine, stop func()) {
			time.Sleep(5 * time.Minute)
			for _, o := range ordered {
				row, err := e.Store.Runs.Get(o.Run())
				if err != nil || row.Status != runs.OK || row.Pages == 0 {
					t.Errorf("the run of job %s ended as %+v, %v", row.Job, row, err)
				}
			}
			if row := w.last(e, "short"); row.Status != runs.Interrupted {
				t.Errorf("the run that was cancelled is %+v", row)
			}
			if left, err := e.Store.Runs.Ordered(); err != nil || len(left) > 0 {
				t.Errorf("left are %v, %v", left, err)
			}
		})
		if w.spent() != 6 {
			t.Errorf("%d credits, want 6, which touches the reserve", w.spent())
		}
	})
}

// TestStopRefusesUnstartedOrders, with the reason of the stop.
func TestStopRefusesUnstartedOrders(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		w.wire = (&sent{}).over(w.wire, 5*time.Second)
		w.keeping(func(e *Engine, stop func()) {
			time.Sleep(time.Hour + time.Second) // in page one
			errs := make(chan error)
			go func() {
				_, err := e.Order(w.ctx, Order{Spec: w.config.Job("short"), Trigger: Manual})
				errs <- err
			}()
			go func() { errs <- e.Between(w.ctx, func(context.Context) error { return nil }) }()
			time.Sleep(time.Second)
			go stop()
			for range 2 {
				if err := <-errs; !errors.Is(err, context.Canceled) {
					t.Errorf("the order that had not started ended with %v", err)
				}
			}
		})
	})
}

// TestCancelledRunCanBeContinued, wherever it was cancelled, and nothing is bought twice.
func TestCancelledRunCanBeContinued(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{
		"in page one":           500 * time.Millisecond,
		"in page two":           1500 * time.Millisecond,
		"in a data call":        4500 * time.Millisecond,
		"while a call may wait": 30 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			bare(t, busyFile, func(w *workshop) {
				w.wire = (&sent{}).over(w.wire, time.Second)
				w.keeping(func(e *Engine, _ func()) {
					o := w.order(e, Order{Spec: w.config.Job("other")})
					time.Sleep(after)
					asked := time.Now()
					cancel(e, o)
					row, err := o.Result()
					if !isA[*CancelledError](err) || row.Status != runs.Interrupted || row.ID != o.Run() {
						t.Errorf("the run ended as %+v with %v", row, err)
					}
					if took := time.Since(asked); took > time.Second {
						t.Errorf("it was cancelled after %s", took)
					}
					if on, err := e.Store.Runs.Get(row.ID); err != nil || on.Status != runs.Interrupted || !strings.Contains(on.Error, "cancelled") {
						t.Errorf("on record is %+v, %v", on, err)
					}
					if err := e.Cancel(w.ctx, row.ID); err == nil {
						t.Error("it was cancelled twice")
					}
					again := w.order(e, Order{Spec: w.config.Job("other")})
					if row := w.ends(again, runs.OK); row.ID != o.Run() || row.Pages != 2 || w.spent() != 4 || w.calls(outlier.OpTranscript) != 15 {
						t.Errorf("%d credits and %d transcripts; the run ended as %+v",
							w.spent(), w.calls(outlier.OpTranscript), row)
					}
				})
			})
		})
	}
}

// TestScheduledRunCanBeCancelled, and is continued at its next due time.
func TestScheduledRunCanBeCancelled(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(time.Hour + time.Minute)
			id := w.last(e, "long").ID
			if err := e.Cancel(w.ctx, id); err != nil {
				t.Error(err)
			}
			time.Sleep(30 * time.Minute)
			if row := w.last(e, "long"); row.Status != runs.Interrupted || row.Pages >= 27 {
				t.Errorf("the run is %+v", row)
			}
			time.Sleep(time.Hour)
			if row, err := e.Store.Runs.Get(id); err != nil || row.Status.Open() || row.Pages != 27 {
				t.Errorf("the run is %+v, %v", row, err)
			}
		})
	})
}

// TestOrdersAreServedInTheirOrder: first their pages, then their data calls.
func TestOrdersAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		var seen sent
		w.wire = seen.over(w.wire, time.Second)
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(time.Hour + 2500*time.Millisecond)
			first := w.order(e, Order{Spec: w.config.Job("other")})
			second := w.order(e, Order{Spec: w.config.Job("short")})
			w.ends(first, runs.OK)
			w.ends(second, runs.OK)
			calls, _ := seen.soFar()
			before := slices.IndexFunc(calls, func(c string) bool { return strings.Contains(c, "moka") })
			var order []string
			for _, call := range calls[before:] {
				for _, part := range []string{"moka", "latte", "transcript"} {
					if strings.Contains(call, part) && (len(order) == 0 || order[len(order)-1] != part) {
						order = append(order, part)
					}
				}
			}
			if diff := cmp.Diff([]string{"moka", "latte", "transcript"}, order); diff != "" {
				t.Errorf("the calls went otherwise (-want +got):\n%s", diff)
			}
			if a, b := w.last(e, "other"), w.last(e, "short"); a.Pages != 2 || b.Pages != 1 || !a.Ended.Before(b.Ended) {
				t.Errorf("the runs ended as %+v and %+v", a, b)
			}
		})
	})
}

// TestOrderJoinsAnUnfinishedRun and makes it urgent.
func TestOrderJoinsAnUnfinishedRun(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		var seen sent
		w.wire = seen.over(w.wire, time.Second)
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(time.Hour + time.Minute)
			w.order(e, Order{Spec: w.config.Job("other")})
			one, two := w.order(e, Order{Spec: w.config.Job("long")}), w.order(e, Order{Spec: w.config.Job("long")})
			if !one.Joined() || !two.Joined() || one.Run() != two.Run() {
				t.Errorf("the orders made runs %s (joined: %t) and %s (%t)",
					one.Run(), one.Joined(), two.Run(), two.Joined())
			}
			a, b := w.ends(one, runs.OK), w.ends(two, runs.OK)
			if a.ID != b.ID || a.Trigger != string(Scheduled) || a.Pages != 27 || a.Due.IsZero() {
				t.Errorf("the run ended as %+v", a)
			}
			if o := w.last(e, "other"); !o.Ended.Before(a.Ended) {
				t.Errorf("the run that was asked for first ended at %s, after the other at %s", o.Ended, a.Ended)
			}
		})
	})
}

// TestOverriddenOrderKeepsScheduledRun: the job's own run is running meanwhile and continues unchanged.
func TestOverriddenOrderKeepsScheduledRun(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(time.Hour + time.Minute)
			spec, err := w.config.Job("long").With(job.Overrides{Pages: 2, Again: true})
			if err != nil {
				t.Fatal(err)
			}
			o := w.order(e, Order{Spec: &spec})
			if row := w.ends(o, runs.OK); o.Joined() || row.Pages != 6 || row.Credits != 12 || !row.Overridden {
				t.Errorf("the ordered run ended as %+v", row)
			}
			time.Sleep(20 * time.Minute)
			rows, err := e.Store.Runs.List(runs.Filter{Job: "long"}, 0)
			if err != nil || len(rows) != 2 || rows[1].Status != runs.OK || rows[1].Pages != 27 || rows[1].Ended.Before(rows[0].Ended) {
				t.Errorf("runs %+v, %v", rows, err)
			}
		})
	})
}

// TestNewRunWaitsForSupersededPages: an ordered run starts when the run that it supersedes has its pages,
// like a scheduled run.
func TestNewRunWaitsForSupersededPages(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(time.Hour + time.Minute)
			hasty, cancel := context.WithTimeout(w.ctx, 10*time.Second)
			defer cancel()
			o := Order{Spec: w.config.Job("long"), Trigger: Manual, Afresh: true}
			if _, err := e.Order(hasty, o); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("an order that was taken back returned %v", err)
			}
			ordered := w.order(e, o)
			rows, err := e.Store.Runs.List(runs.Filter{Job: "long"}, 0)
			if err != nil || len(rows) != 2 || rows[0].ID != ordered.Run() || rows[1].Status != runs.Partial || rows[1].Pages != 27 {
				t.Errorf("runs %+v, %v", rows, err)
			}
			if row := w.ends(ordered, runs.OK); row.Pages != 27 || row.Credits != 0 || w.spent() != 54 {
				t.Errorf("%d credits; the run ended as %+v; want the pages to come from the journal", w.spent(), row)
			}
		})
	})
}

// TestOrderOfRemovedJobIsRefused, immediately and without a call, while it waits for the pace or for another
// run. One-off orders and changed jobs are started.
func TestOrderOfRemovedJobIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit  func(file string) string
		order func(w *workshop) Order
		says  string
	}{
		"waits for the pages of another run": {
			edit:  func(file string) string { return strings.Replace(file, "  long:", "  other-long:", 1) },
			order: func(w *workshop) Order { return Order{Spec: w.config.Job("long"), Afresh: true} },
			says:  "job long was removed when the job file was reloaded; its run was not started, and nothing was spent",
		},
		"came while the file was read": {
			edit:  func(file string) string { return strings.Replace(file, "  short: {", "  brief: {was: short, ", 1) },
			order: func(w *workshop) Order { return Order{Spec: w.config.Job("short")} },
			says:  "job short is brief since the job file was reloaded",
		},
		"has changed": {
			edit:  func(file string) string { return strings.Replace(file, "latte art", "cold brew", 1) },
			order: func(w *workshop) Order { return Order{Spec: w.config.Job("short")} },
		},
		"is no job": {
			edit:  func(file string) string { return strings.Replace(file, "  short:", "  brief:", 1) },
			order: func(w *workshop) Order { return Order{Spec: w.once("cold brew", 1)} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			bare(t, busyFile, func(w *workshop) {
				w.keeping(func(e *Engine, _ func()) {
					time.Sleep(time.Hour + time.Minute)
					asked := c.order(w)
					asked.Trigger = Manual
					if asked.Afresh { // it exists before the reload
						go func() {
							time.Sleep(5 * time.Second)
							if err := w.reload(w.ctx, e, c.edit(busyFile)); err != nil {
								t.Error(err)
							}
						}()
					} else if err := w.reload(w.ctx, e, c.edit(busyFile)); err != nil {
						t.Fatal(err)
					}
					begun := time.Now()
					o, err := e.Order(w.ctx, asked)
					gone, refused := errors.AsType[*JobGoneError](err)
					switch {
					case c.says == "" && err != nil:
						t.Error(err)
					case c.says == "":
						w.ends(o, runs.OK)
					case !refused || !strings.Contains(gone.Error(), c.says) || time.Since(begun) > 30*time.Second:
						t.Errorf("after %s the order ended with %v, want %s", time.Since(begun), err, c.says)
					}
				})
			})
		})
	}
}

// TestOrderOptionsApplyToOneRun: only the run of the order may use the reserve.
func TestOrderOptionsApplyToOneRun(t *testing.T) {
	t.Parallel()
	file := strings.Replace(scheduledFile, "jobs:", "budget: {per_month: 6, reserve: 4}\njobs:", 1)
	bare(t, file, func(w *workshop) {
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(time.Hour + time.Minute)
			if row := w.last(e, "hourly"); row.Credits != 2 {
				t.Fatalf("the scheduled run is %+v", row)
			}
			if row := w.ends(w.order(e, Order{Spec: w.config.Job("by-hand")}), runs.PausedBudget); row.Credits != 0 {
				t.Errorf("without the reserve: %+v", row)
			}
			if row := w.ends(w.order(e, Order{Spec: w.config.Job("by-hand"), UseReserve: true}), runs.OK); row.Credits != 2 {
				t.Errorf("with the reserve: %+v", row)
			}
			time.Sleep(7 * time.Hour)
			if row := w.last(e, "hourly"); row.Status != runs.PausedBudget || w.spent() != 4 {
				t.Errorf("%d credits; the scheduled run is %+v", w.spent(), row)
			}
		})
	})
}

// TestOneOffOrdersRunIndependently, even two of one kind.
func TestOneOffOrdersRunIndependently(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(time.Hour + time.Minute)
			one := w.order(e, Order{Spec: w.once("latte art", 3), Afresh: true})
			two := w.order(e, Order{Spec: w.once("moka pot", 3), Afresh: true})
			if row, err := e.Store.Runs.Get(one.Run()); err != nil || row.Status != runs.Running {
				t.Errorf("once the second has begun, the first is %+v, %v", row, err)
			}
			a, b := w.ends(one, runs.OK), w.ends(two, runs.OK)
			if a.ID == b.ID || a.Pages != 3 || b.Pages != 3 || two.Joined() {
				t.Errorf("the runs ended as %+v and %+v", a, b)
			}
			if row := w.last(e, "long"); row.Status != runs.Running {
				t.Errorf("the scheduled run is %+v", row)
			}
		})
	})
}

// TestOrdersShareOneRest: the second order joins the first, and nothing is left for the third.
func TestOrdersShareOneRest(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		w.keeping(func(e *Engine, _ func()) {
			spec := w.config.Job("short")
			of := w.ends(w.order(e, Order{Spec: spec}), runs.OK)
			rest := facts.RestSpec(w.config, of)
			before := w.spent()
			one, two := w.order(e, Order{Spec: rest}), w.order(e, Order{Spec: rest})
			if one.Run() != two.Run() || one.Joined() || !two.Joined() {
				t.Errorf("runs %s and %s", one.Run(), two.Run())
			}
			if row := w.ends(one, runs.OK); row.Credits == 0 || row.Credits != w.spent()-before {
				t.Errorf("%d credits were spent; the run ended as %+v", w.spent()-before, row)
			}
			_, err := e.Order(w.ctx, Order{Spec: rest, Trigger: Manual})
			if err == nil || !strings.Contains(err.Error(), "left nothing to buy") {
				t.Errorf("what was bought already is refused as %v", err)
			}
		})
	})
}

// TestBetweenWaitsForCurrentCall, and calls its function right after it.
func TestBetweenWaitsForCurrentCall(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		var mu sync.Mutex
		underWay := false
		wire := w.wire
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			underWay = true
			mu.Unlock()
			time.Sleep(3 * time.Second)
			answer, err := wire.RoundTrip(r)
			mu.Lock()
			underWay = false
			mu.Unlock()
			return answer, err
		})
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(time.Hour)
			for range 50 {
				time.Sleep(1700 * time.Millisecond)
				asked := time.Now()
				err := e.Between(w.ctx, func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					if underWay {
						t.Error("a call is under way")
					}
					return http.ErrNoLocation
				})
				if took := time.Since(asked); err != http.ErrNoLocation || took > 3*time.Second {
					t.Errorf("it took %s and returned %v", took, err)
				}
			}
			gone, cancel := context.WithCancel(w.ctx)
			cancel()
			if err := e.Between(gone, func(context.Context) error { panic("called") }); !errors.Is(err, context.Canceled) {
				t.Errorf("what was taken back returned %v", err)
			}
		})
	})
}

// TestReadingPublishesNothing, also while a follow-up waits for the run before it, and neither does a change.
func TestReadingPublishesNothing(t *testing.T) {
	t.Parallel()
	bare(t, `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  parent: {every: 20m, search: {query: [moka pot]}}
  child: {after: parent, scan: {query: [espresso machine repair], mode: fast}}
`, func(w *workshop) {
		w.renew(anHour)
		e, stop := w.open()
		defer stop()
		sink := &fakeCopy{name: "parquet"}
		e.Line = w.line(sink)
		w.serving(e, func(func()) {
			time.Sleep(50 * time.Minute)
			if waiting, err := e.Store.Schedule.Dues(); len(waiting) != 1 || err != nil {
				t.Fatalf("%d follow-ups wait (%v), want one", len(waiting), err)
			}
			_, before := sink.reads()
			for range 120 {
				time.Sleep(time.Second)
				seen, err := e.Store.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				_, err = e.Reading(seen, e.Config).Agenda(time.Now())
				changed := e.Between(w.ctx, func(context.Context) error { return nil })
				if err := errors.Join(err, seen.Close(), changed); err != nil {
					t.Fatal(err)
				}
			}
			if _, after := sink.reads(); after > before+2 {
				t.Errorf("120 readings in two minutes caused %d publications", after-before)
			}
		})
	})
}

// TestReadingWaitsForNoCall: twenty readers read the agenda and the status while a call is in flight.
func TestReadingWaitsForNoCall(t *testing.T) {
	t.Parallel()
	bare(t, strings.Replace(jobsFile, "search:", "every: 10m\n    search:", 1), func(w *workshop) {
		flying := make(chan struct{}, 1)
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			select {
			case flying <- struct{}{}:
				time.Sleep(50 * time.Second)
			default:
			}
			return w.service.Transport().RoundTrip(r)
		})
		e, stop := w.open()
		defer stop()
		w.serving(e, func(func()) {
			<-flying
			began := time.Now()
			var readers sync.WaitGroup
			for range 20 {
				readers.Go(func() {
					seen, err := e.Store.Snapshot()
					if err != nil {
						t.Error(err)
						return
					}
					_, err = forecasts(e.Reading(seen, e.Config)).Status()
					if err := errors.Join(err, seen.Close()); err != nil {
						t.Error(err)
					}
				})
			}
			readers.Wait()
			if took := time.Since(began); took > time.Second {
				t.Errorf("twenty readers waited %s", took)
			}
			flying <- struct{}{}
		})
	})
}

// TestClientsMayFollowARunningOrder, and cancel it.
func TestClientsMayFollowARunningOrder(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(20 * time.Minute)
			o := w.order(e, Order{Spec: w.config.Job("other")})
			var watching sync.WaitGroup
			for range 3 {
				watching.Go(func() {
					for done := 0; ; {
						select {
						case <-o.Done():
							return
						case <-time.After(700 * time.Millisecond):
						}
						p, err := e.ProgressOf(o.Run())
						if err != nil || p.Job != "other" || p.Run != o.Run() || p.Done < done {
							t.Errorf("progress %+v, %v", p, err)
						}
						done = p.Done
					}
				})
			}
			time.Sleep(30 * time.Second)
			cancel(e, o)
			cancel(e, o)
			watching.Wait()
			if p, err := e.ProgressOf(o.Run()); err != nil || p.Done == 0 || p.Queued == 0 || p.Spend.Charged != 4 {
				t.Errorf("progress at the end %+v, %v", p, err)
			}
		})
	})
}

// TestOrderFailsAsARunAlone with a refused key, and the next one tries again.
func TestOrderFailsAsARunAlone(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		w.keeping(func(e *Engine, _ func()) {
			key := e.Client.Key
			wrong, err := outlier.NewKey("another-key")
			if err != nil {
				t.Fatal(err)
			}
			_ = e.Between(w.ctx, func(context.Context) error { e.Client.Key = wrong; return nil })
			row, err := w.order(e, Order{Spec: w.config.Job("short")}).Result()
			if judge(err).kind != outlier.Unauthorized || row.Status != runs.Failed {
				t.Errorf("the run ended as %+v with %v", row, err)
			}
			_ = e.Between(w.ctx, func(context.Context) error { e.Client.Key = key; return nil })
			w.ends(w.order(e, Order{Spec: w.config.Job("short")}), runs.OK)
			if block, err := e.Store.Blocks.Get(ledger.BlockKey, key.Fingerprint()); block != nil || err != nil {
				t.Errorf("block %+v, %v", block, err)
			}
		})
	})
}

// TestOrderNeedsWorkingSink: it is refused while its results could not be published, and accepted as soon as
// one sink works.
func TestOrderNeedsWorkingSink(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		e, closeAll := w.open()
		defer closeAll()
		e.Line = w.line(&fakeCopy{name: "parquet", broken: between(0, 15*time.Minute)})
		w.serving(e, func(func()) {
			time.Sleep(14 * time.Minute)
			_, err := e.Order(w.ctx, Order{Spec: w.config.Job("short"), Trigger: Manual})
			if !isA[*load.SinksDownError](err) || !errors.Is(err, errBroken) || w.spent() > 0 {
				t.Errorf("%d credits, and the order returned %v", w.spent(), err)
			}
			time.Sleep(time.Minute + time.Second) // it is not retried automatically for minutes
			w.ends(w.order(e, Order{Spec: w.config.Job("short")}), runs.OK)
		})
	})
}

// TestSinkAheadOfStateRefusesOrders, because no run starts while the state is older than a sink.
func TestSinkAheadOfStateRefusesOrders(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		e, closeAll := w.open()
		defer closeAll()
		e.Line = w.line(&fakeCopy{name: "parquet", shows: sinks.Marks{Warehouse: "other", Answers: 7}})
		w.serving(e, func(func()) {
			time.Sleep(10 * time.Minute)
			_, err := e.Order(w.ctx, Order{Spec: w.config.Job("short"), Trigger: Manual})
			if _, ahead := errors.AsType[*load.AheadError](err); !ahead || w.spent() > 0 {
				t.Errorf("%d credits, and the order returned %v", w.spent(), err)
			}
			if err := e.Between(w.ctx, func(context.Context) error { return nil }); err != nil {
				t.Errorf("a change of the state is refused: %v", err)
			}
		})
	})
}

// TestTimeRequestDelaysNoOtherWork: a run that needs the service's time waits until it can be requested, and
// other work goes on.
func TestTimeRequestDelaysNoOtherWork(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		w.asks = true
		time.Sleep(59*time.Minute + 30*time.Second)
		w.keeping(func(e *Engine, _ func()) {
			w.order(e, Order{Spec: w.config.Job("other")}) // it uses up the window
			time.Sleep(time.Second)
		})
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(29 * time.Second) // now a scheduled run is due too
			begun := time.Now()
			done := make(chan *OrderedRun)
			go func() { done <- w.order(e, Order{Spec: w.config.Job("short")}) }()
			time.Sleep(time.Second)
			asked := time.Now()
			if err := e.Between(w.ctx, func(context.Context) error { return nil }); err != nil || time.Since(asked) > 0 {
				t.Errorf("a change of the state had to wait for %s: %v", time.Since(asked), err)
			}
			ordered := <-done
			if took := time.Since(begun); took < 29*time.Second || took > 31*time.Second {
				t.Errorf("the order began after %s, want half a minute, when a slot is free", took)
			}
			w.ends(ordered, runs.OK)
			time.Sleep(10 * time.Minute)
			if row := w.last(e, "long"); row.Status != runs.OK || row.Pages != 27 || row.Due.IsZero() {
				t.Errorf("the scheduled run is %+v", row)
			}
		})
	})
}

// TestOrderedScanBlocksNoSchedule while the service scans.
func TestOrderedScanBlocksNoSchedule(t *testing.T) {
	t.Parallel()
	bare(t, scanFile+"  hourly: {every: 1h, search: {query: [home espresso]}}\n", func(w *workshop) {
		w.renew(anHour)
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(50 * time.Minute)
			o := w.order(e, Order{Spec: w.config.Job("niche")})
			time.Sleep(20 * time.Minute)
			if p, err := e.ProgressOf(o.Run()); err != nil || !p.Until.After(time.Now()) {
				t.Errorf("progress while the scan is under way: %+v, %v", p, err)
			}
			if row := w.last(e, "hourly"); row.Status != runs.OK {
				t.Errorf("the scheduled run is %+v", row)
			}
			w.ends(o, runs.OK)
		})
	})
}

// TestKeyHasOneRun: an order is repeated with its key, after a kill before one transaction in five, from a random
// one on, or with -long before any.
func TestKeyHasOneRun(t *testing.T) {
	t.Parallel()
	step := 5
	if *long {
		step = 1
	}
	key, kills := runs.NewKey("monday", "short {}"), 0
	for n, killed := 1+testenv.Random(t).IntN(step), true; killed; n += step {
		synctest.Test(t, func(t *testing.T) {
			l := newLife(newWorkshop(t, strings.Replace(busyFile, "every: 1h", "enabled: false", 1)), 1)
			l.inspect(func(*Engine) {})
			order := func(e *Engine) (id string, err error) {
				o, err := e.Order(l.ctx, Order{Spec: l.config.Job("short"), Trigger: Manual, Key: key})
				if repeated, is := errors.AsType[*RepeatedError](err); is {
					return repeated.Run.ID, nil
				}
				if err != nil {
					return "", err
				}
				_, err = o.Result()
				return o.Run(), err
			}
			first := ""
			killed = l.killAt(n, func() {
				l.keeping(func(e *Engine, _ func()) { first, _ = order(e) }) // the process may have ended
			})
			l.killAt(0, func() {
				l.keeping(func(e *Engine, _ func()) {
					time.Sleep(time.Hour) // a run that was recorded goes on by itself
					for range 2 {
						id, err := order(e)
						if err != nil || !killed && id != first {
							t.Errorf("kill before transaction %d: run %s, %v; the first order's was %s", n, id, err, first)
						}
						first = id
					}
					all, err := e.Store.Runs.List(runs.Filter{Job: "short"}, 9)
					if err != nil || len(all) != 1 || all[0].ID != first || all[0].Status != runs.OK {
						t.Errorf("kill before transaction %d: runs %+v, %v; want one, %s", n, all, err, first)
					}
					_, err = e.Order(l.ctx, Order{Spec: l.config.Job("other"), Trigger: Manual, Key: runs.NewKey("monday", "other {}")})
					if used, is := errors.AsType[*runs.KeyError](err); !is || used.Run != first {
						t.Errorf("the key for another job: %v, want a KeyError of run %s", err, first)
					}
				})
			})
		})
		if killed {
			kills++
		}
	}
	if kills < 3 {
		t.Errorf("%d processes were killed", kills)
	}
}

// TestKeyJoinsARunInProgress, and stays with it.
func TestKeyJoinsARunInProgress(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		w.keeping(func(e *Engine, _ func()) {
			first := w.order(e, Order{Spec: w.config.Job("other")})
			second := w.order(e, Order{Spec: w.config.Job("other"), Key: runs.NewKey("a", "other {}")})
			if second.Run() != first.Run() || !second.Joined() {
				t.Errorf("run %s, joined %t; want %s", second.Run(), second.Joined(), first.Run())
			}
			w.ends(second, runs.OK)
			row, err := e.Store.Runs.Keyed(runs.NewKey("a", "other {}"))
			if err != nil || row == nil || row.ID != first.Run() {
				t.Errorf("the key's run is %+v, %v; want %s", row, err, first.Run())
			}
		})
	})
}

// TestUserCapSurvivesRestart: the run goes on where the stop has left it, up to the cap of the user.
func TestUserCapSurvivesRestart(t *testing.T) {
	t.Parallel()
	const file = "version: 1\nservice: {url: \"sim://\", limit: 600/min}\njobs: {coffee: {search: {query: [home espresso], pages: 9}, " +
		"budget: {per_run: 4}}}\n"
	bare(t, file, func(w *workshop) {
		first := w.mustRun(runs.PausedBudget)
		w.use(strings.NewReplacer("per_run: 4", "per_run: 30", "600/min", "1/min").Replace(file))
		spec := *w.config.Job("coffee")
		spec.Budget.MaxCredits = new(outlier.Credits(8))
		w.keeping(func(e *Engine, _ func()) {
			if o := w.order(e, Order{Spec: &spec, Old: first}); o.Run() != first.ID {
				t.Fatalf("the order began run %s", o.Run())
			}
			time.Sleep(70 * time.Second)
		})
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(30 * time.Minute)
			if row := w.last(e, "coffee"); row.ID != first.ID || row.Status != runs.PausedBudget || row.Credits != 8 {
				t.Errorf("%+v, want it to stop at the cap of 8 credits", row)
			}
		})
	})
}

// TestStuckRunDelaysNoOrder: the run got its last page and failed at its data calls while the order waited
// for it.
func TestStuckRunDelaysNoOrder(t *testing.T) {
	t.Parallel()
	const file = "version: 1\nservice: {url: \"sim://\", limit: 600/min}\njobs: {coffee: {every: 1h, reuse_for: 1m, " +
		"search: {query: [home espresso], pages: 3}, enrich: {details: {top: 20}}}}\n"
	bare(t, file, func(w *workshop) {
		w.wire = afterPages((&sent{}).over(w.service.Transport(), 400*time.Millisecond),
			func() *http.Response { return page(http.StatusOK, "text/html", "<html>log in") })
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(time.Hour + 700*time.Millisecond)
			before := w.last(e, "coffee")
			o := w.order(e, Order{Spec: w.config.Job("coffee"), Afresh: true})
			if o.Run() == before.ID || o.Joined() {
				t.Errorf("the order was given run %s, which had begun before", o.Run())
			}
		})
	})
}

// TestWaitEndsWithTheSchedule even if the state cannot be read any more.
func TestWaitEndsWithTheSchedule(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		w.keeping(func(e *Engine, stop func()) {
			o := w.order(e, Order{Spec: w.config.Job("other")})
			err := e.Between(w.ctx, func(context.Context) error {
				w.alter(`ALTER TABLE runs RENAME COLUMN urgent TO gone`)
				return nil
			})
			stop()
			if _, ended := o.Result(); err != nil || ended == nil {
				t.Errorf("the run ended without an error (%v)", err)
			}
		})
	})
}

// TestCapAppliesToAJoinedRun: a person who joins a run in progress sets its cap, also for later processes.
func TestCapAppliesToAJoinedRun(t *testing.T) {
	t.Parallel()
	const file = "version: 1\nservice: {url: \"sim://\", limit: 1/min}\njobs: {coffee: {search: {query: [home espresso], pages: 9}}}\n"
	bare(t, file, func(w *workshop) {
		w.keeping(func(e *Engine, _ func()) {
			first := w.order(e, Order{Spec: w.config.Job("coffee")})
			time.Sleep(70 * time.Second)
			for _, most := range []outlier.Credits{6, 30} {
				spec := *w.config.Job("coffee")
				spec.Budget.MaxCredits = &most
				if o := w.order(e, Order{Spec: &spec}); !o.Joined() || o.Run() != first.Run() {
					t.Fatalf("the order with at most %d credits began run %s", most, o.Run())
				}
			}
		})
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(20 * time.Minute)
			if row := w.last(e, "coffee"); row.Status != runs.PausedBudget || row.Credits != 6 {
				t.Errorf("%+v, want it to stop at the cap of 6 credits", row)
			}
		})
	})
}
