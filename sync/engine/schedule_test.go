package engine

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
	"outlierd/outlier/simulator"
	"outlierd/sync/runs"
	"outlierd/sync/state/statetest"
)

// schedules is how many schedules of kills the tests of this file play.
var schedules = flag.Int("schedules", 0, "how many schedules of kills, outages and edits to play; 0 plays a few by chance")

// firstSchedule is the first of them, so that many can be played in pieces.
var firstSchedule = flag.Int("first-schedule", 0, "the seed of the first schedule to play")

// A life is that of a daemon whose process is killed before transactions. All that came before one is durable, and
// nothing of it is, so this is a kill at any statement.
type life struct {
	*workshop
	dice     *rand.Rand
	received []string     // requests that the service has received, and not refused for their number
	fails    func() error // why a request fails; nil if it does not
	left     int          // transactions that the process still begins
	kill     func()       // ends the process
}

func newLife(w *workshop, seed uint64) *life {
	w.bare = true
	l := &life{workshop: w, dice: rand.New(rand.NewPCG(seed, 7)), kill: func() {}, fails: func() error { return nil }}
	w.begin = func() {
		if l.left--; l.left == 0 {
			l.kill()
		}
	}
	return l
}

// RoundTrip implements [http.RoundTripper]: it is the network.
func (l *life) RoundTrip(r *http.Request) (*http.Response, error) {
	failed := l.fails()
	if failed != nil && l.dice.IntN(2) == 0 {
		return nil, failed
	}
	answer, err := l.service.Transport().RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusTooManyRequests { // else it is sent again without a kill
		l.received = append(l.received, r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery)
	}
	if failed != nil {
		return nil, failed // the service has processed the request, and the answer is lost
	}
	return answer, err
}

// live runs the schedule until a time, or until the process is killed before its n-th transaction, if n is not 0.
func (l *life) live(until time.Time, n int) (killed bool) {
	l.Helper()
	return l.killAt(n, func() {
		timed, stop := context.WithDeadline(l.ctx, until)
		defer stop()
		l.serveUntil(timed)
	})
}

// liveAsked is live, while a person orders runs of the jobs, waits for them or cancels them. Each order that was
// accepted is told how its run ended.
func (l *life) liveAsked(until time.Time, n int, jobs ...string) (killed bool) {
	l.Helper()
	return l.killAt(n, func() {
		timed, stop := context.WithDeadline(l.ctx, until)
		defer stop()
		e, closeAll := l.open()
		defer closeAll()
		dice, over := rand.New(rand.NewPCG(l.dice.Uint64(), 8)), make(chan struct{})
		var ordered []*OrderedRun
		go func() {
			defer close(over)
			for sleep(timed, time.Duration(dice.IntN(15*60))*time.Second) == nil {
				if dice.IntN(8) == 0 { // the machine sleeps
					_ = e.Between(timed, func(context.Context) error {
						time.Sleep(time.Duration(dice.IntN(90)) * time.Minute)
						return nil
					})
				}
				spec := l.config.Job(jobs[dice.IntN(len(jobs))])
				o, err := e.Order(timed, Order{Spec: spec, Trigger: Manual, Afresh: dice.IntN(3) == 0})
				if err != nil {
					continue
				}
				ordered = append(ordered, o)
				switch _ = sleep(timed, time.Duration(dice.IntN(40))*time.Second); dice.IntN(3) {
				case 0:
					_ = e.Cancel(timed, o.Run()) // it may have ended
				case 1:
					select {
					case <-o.Done():
					case <-timed.Done():
					}
				}
			}
		}()
		e.Serve(timed)
		<-over
		for _, o := range ordered {
			select {
			case <-o.Done():
			default:
				l.Errorf("who ordered run %s waits for ever", o.Run())
			}
		}
	})
}

// killAt lets a process work until it is killed before its n-th transaction, if n is not 0.
func (l *life) killAt(n int, process func()) (killed bool) {
	l.Helper()
	before := l.ctx
	ctx, cancel := context.WithCancelCause(before)
	defer func() { cancel(nil); l.ctx = before }()
	image := filepath.Join(l.dir, "image")
	hangUp := func(error) {} // on the service: the process may be killed before it says that it sends a request
	l.ctx, l.left, l.kill = ctx, n, func() {
		killed = true
		hangUp(errKilled)
		if err := os.CopyFS(image, os.DirFS(l.data())); err != nil {
			l.Fatal(err)
		}
		cancel(errKilled)
	}
	l.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
		if killed {
			return nil, errKilled
		}
		call, cancel := context.WithCancelCause(r.Context())
		hangUp = cancel
		return l.RoundTrip(r.WithContext(call))
	})
	process()
	l.kill = func() {}
	if killed {
		if err := errors.Join(os.RemoveAll(l.data()), os.Rename(image, l.data())); err != nil {
			l.Fatal(err)
		}
	}
	return killed
}

// TestAKillChangesNothingThatFollows: wherever a process is killed, the next one makes the calls that the first one
// would have made, in the same order. Only the call in flight is made again.
func TestAKillChangesNothingThatFollows(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	const file = `
version: 1
service: {url: "sim://", limit: 60/min, paging: page}
jobs:
  first: {every: 6h, reuse_for: 1m, search: {query: [home espresso], pages: 2}, enrich: {details: {top: 4}, comments: {top: 2}}}
  second: {schedule: ["0 5 * * *", "0 */6 * * *"], quiet: [03:00-06:00], reuse_for: 1m, search: {query: [moka pot], pages: 3}, enrich: {transcript: {top: 3}}}
  third: {after: first, reuse_for: 1m, search: {query: [latte art], pages: 2}, enrich: {channel_videos: {top: 2}}}
`
	for _, seed := range seedsToPlay(t, *schedules, 2, 1000) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			var alone []string
			play := func(killed bool) {
				synctest.Test(t, func(t *testing.T) {
					l := newLife(newWorkshop(t, file), seed)
					l.inspect(func(e *Engine) { l.see(e, "first", "second", "third") })
					time.Sleep(6*time.Hour - time.Minute)
					kills, until := 0, time.Now().Add(time.Hour)
					for killed && kills < 5 && l.live(until, 1+l.dice.IntN(60)) {
						kills++
					}
					l.live(until, 0)
					if !killed {
						alone = l.received
						return
					}
					got, want := slices.Compact(slices.Clone(l.received)), slices.Compact(slices.Clone(alone))
					if more := len(l.received) - len(alone); !slices.Equal(got, want) || more > kills {
						t.Errorf("%d kills and %d calls more; the calls are\n%s\nwant\n%s", kills, more,
							strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
				})
			}
			if play(false); len(alone) < 15 {
				t.Fatalf("%d calls without a kill:\n%s", len(alone), strings.Join(alone, "\n"))
			}
			play(true)
		})
	}
}

// TestNoScheduleBreaksAPromise: over random kills, outages, failing answers, pauses of the process and of the machine,
// jumps of the machine's clock, edits of the file, and orders of a person, caps hold, each scan is started once, the
// ledger adds up, and no due time has two runs or none. A schedule lasts an hour in which jobs are due often, so that
// most transactions that a kill can hit are those of runs, and then until all runs have ended.
func TestNoScheduleBreaksAPromise(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	const file = `
version: 1
service: {url: "sim://", limit: 60/min, paging: page}
budget: {per_month: 400, per_day: DAY}
jobs:
  pages: {every: EVERY, reuse_for: 1m, search: {query: [home espresso, moka pot], pages: 2}, enrich: {details: {top: 3, refresh_after: 30m}}, budget: {per_run: CAP}}
  deep: {schedule: ["0 * * * *", "30 7 * * *"], quiet: [QUIET], scan: {query: [latte art], mode: fast, read: {pages: 2}}, enrich: {details: {top: 3}}}
  child: {after: pages, catch_up: all, reuse_for: 1m, search: {query: [cold brew]}}
`
	edits := []string{
		"DAY", "140", "EVERY", "20m", "CAP", "9", "QUIET", "04:30-06:30",
		"DAY", "140", "EVERY", "30m", "CAP", "3", "QUIET", "sun",
		"DAY", "66", "EVERY", "20m", "CAP", "20", "QUIET", "08:00-09:30",
	}
	jumps := []time.Duration{0, 0, time.Minute, -time.Minute, 3 * time.Hour, -3 * time.Hour, 2 * day, -2 * day, 31 * day, -31 * day}
	for _, seed := range seedsToPlay(t, *schedules, 4, 10_000) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			edit := func(n int) string { return strings.NewReplacer(edits[8*n : 8*n+8]...).Replace(file) }
			w := &workshop{T: t, dir: t.TempDir(), ctx: t.Context(), asks: seed%2 == 1}
			l := newLife(w, seed)
			truth := time.Date(2000, 3, 6, 3, 0, 0, 0, time.UTC).Add(time.Duration(l.dice.IntN(6*60)) * time.Minute)
			var ahead time.Duration // of the machine's clock, which only jumps if the service is asked for its time
			w.renew(simulator.Options{Clock: func() time.Time { return time.Now().Add(-ahead) }})
			during := func(process func()) {
				synctest.Test(t, func(t *testing.T) {
					l.T, l.ctx = t, t.Context()
					time.Sleep(time.Until(truth.Add(ahead)))
					process()
					truth = time.Now().Add(-ahead)
				})
			}
			fails := func() error {
				if l.dice.IntN(12) > 0 {
					return nil
				}
				return errors.New("connection reset")
			}
			l.use(edit(0))
			during(func() { l.inspect(func(e *Engine) { l.see(e, "pages", "deep", "child") }) })
			for end := truth.Add(time.Hour); truth.Before(end); {
				if l.asks {
					ahead = jumps[l.dice.IntN(len(jumps))]
				}
				during(func() {
					l.fails = fails
					until, kill := time.Now().Add(time.Duration(1+l.dice.IntN(40))*time.Minute), l.dice.IntN(150)
					if l.dice.IntN(2) == 0 {
						l.live(until, kill)
					} else {
						l.liveAsked(until, kill, "pages", "deep", "child")
					}
					time.Sleep([]time.Duration{0, 0, time.Minute, 30 * time.Minute}[l.dice.IntN(4)])
				})
				if l.dice.IntN(3) == 0 {
					l.use(edit(l.dice.IntN(len(edits) / 8)))
				}
			}
			ahead, l.fails = 0, func() error { return nil }
			l.use(strings.NewReplacer(edits[:8]...).Replace(strings.Replace(file, "EVERY", "8h", 1)))
			during(func() {
				l.live(time.Now().Add(20*time.Minute), 0)
				end := time.Now().Add(6 * time.Hour) // beyond quiet hours, and scans that hang for 90 minutes
				for l.isUnfinished() && time.Now().Before(end) {
					l.live(time.Now().Add(20*time.Minute), 0)
				}
				l.check()
			})
		})
	}
}

// isUnfinished reports whether a run can be continued, or a due time has no run yet.
func (l *life) isUnfinished() (open bool) {
	l.Helper()
	l.inspect(func(e *Engine) {
		left, err := e.Store.Schedule.Dues()
		if err != nil {
			l.Fatal(err)
		}
		open = len(left) > 0
		for _, name := range []string{"pages", "deep", "child"} {
			unfinished, err := e.Store.Runs.Unfinished(name)
			if err != nil {
				l.Fatal(err)
			}
			open = open || len(unfinished) > 0
		}
	})
	return open
}

// check compares the state with the service's books.
func (l *life) check() {
	l.Helper()
	if spent := l.spent(); spent > 140 {
		l.Errorf("%d credits were spent on one day of the service, and the cap is 140", spent)
	}
	l.inspect(func(e *Engine) {
		statetest.CheckBooks(l, e.Store)
		rows, err := e.Store.Runs.List(runs.Filter{}, 0)
		if err != nil {
			l.Fatal(err)
		}
		deep := 0
		for i := range rows {
			switch run := &rows[i]; {
			case run.Status == runs.Running:
				l.Errorf("%s for %s is running, and no process is", run.Job, run.Due)
			case run.Status == runs.Failed && run.Error == "":
				l.Errorf("%s for %s failed and does not say why", run.Job, run.Due)
			case run.Job == "deep":
				deep++
			}
		}
		if starts := len(l.started()); starts > deep {
			l.Errorf("%d scans were started by %d runs", starts, deep)
		}
		left, err := e.Store.Schedule.Dues()
		if err != nil {
			l.Fatal(err)
		}
		for _, d := range left {
			quiet := l.config.Job(d.Job).AfterQuiet(time.Now(), time.UTC).After(time.Now()) // in which a late run does not begin
			if time.Since(d.At) > 2*time.Hour && !quiet {                                   // a scan of the run before it takes less
				l.Errorf("%s, due at %s, has no run and waits", d.Job, d.At)
			}
		}
	})
}
