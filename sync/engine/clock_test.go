package engine

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/state"
)

const cappedFile = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 2, per_day: 2}
jobs:
  one: {search: {query: [home espresso]}, reuse_for: 1m}
`

// slow is a service whose clock stands behind this machine's, as when this one was set
// forward.
type slow struct {
	http.RoundTripper
	by time.Duration
}

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Header.Set("Date", time.Now().Add(-s.by).UTC().Format(http.TimeFormat))
	}
	return answer, err
}

// TestClockThatJumpsForwardMintsNoFreshBudget: neither a day nor a month later by this
// machine's clock is anything bought, as long as the service's day is the same.
func TestClockThatJumpsForwardMintsNoFreshBudget(t *testing.T) {
	bubble(t, cappedFile, func(w *workshop) {
		w.mustRun(state.OK)
		for _, jump := range []time.Duration{25 * time.Hour, 40 * 24 * time.Hour} {
			time.Sleep(jump)
			w.wire = slow{w.service.Transport(), time.Since(time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC))}
			row := w.mustRun(state.PausedBudget)
			if row.Credits != 0 {
				t.Errorf("%s ahead of the service, %d credits were spent", jump, row.Credits)
			}
		}
		if spent := w.service.Books().Total.Spent(); spent != 2 {
			t.Errorf("the service was paid %d credits, want the 2 of the cap", spent)
		}
	})
}

// TestClockThatWasWrongOnceDoesNotStayInTheWay: what was booked ahead by a clock that was
// set forward does not keep the next process from the day that it is.
func TestClockThatWasWrongOnceDoesNotStayInTheWay(t *testing.T) {
	data := t.TempDir()
	bubble(t, cappedFile, func(w *workshop) {
		w.config.Data = data
		time.Sleep(40 * 24 * time.Hour) // this machine's clock stands in February
		w.wire = undated{w.service.Transport()}
		w.mustRun(state.OK)
	})
	bubble(t, cappedFile, func(w *workshop) { // and was set right: all clocks begin in January
		w.config.Data = data
		if row := w.mustRun(state.OK); row.Credits != 2 {
			t.Errorf("%d credits were spent, want a page of January's budget", row.Credits)
		}
	})
}

// undated is a service that does not tell the time.
type undated struct{ http.RoundTripper }

func (u undated) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := u.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Header.Del("Date")
	}
	return answer, err
}

func TestTimeIsAskedOnlyWhenItDecides(t *testing.T) {
	bubble(t, cappedFile, func(w *workshop) {
		w.mustRun(state.OK)
		asked := func() int { return w.service.Books().Operations[outlier.OpDetails].Calls }
		time.Sleep(time.Hour)
		w.mustRun(state.PausedBudget)
		if got := asked(); got != 0 {
			t.Errorf("%d questions for the time within a day, want none", got)
		}
		time.Sleep(40 * 24 * time.Hour)
		w.mustRun(state.OK)
		if got := asked(); got != 1 {
			t.Errorf("%d questions for the time when the cycle has turned, want one", got)
		}
	})
}

// TestClockAloneOpensNoFreshBudget: where the service tells no time, a person has to say that
// the clock is right, for that day. While a process lives it counts the time itself.
func TestClockAloneOpensNoFreshBudget(t *testing.T) {
	bubble(t, cappedFile, func(w *workshop) {
		w.wire = undated{w.service.Transport()}
		w.mustRun(state.OK)
		time.Sleep(40 * day)
		row, _ := w.run()
		if row.Status != state.PausedBudget || row.Credits != 0 || !strings.Contains(row.Error, "budget resume") {
			t.Errorf("run %+v; want one that waits for a person's word", row)
		}
		w.resume()
		if row := w.mustRun(state.OK); row.Credits != 2 {
			t.Errorf("%d credits after a person's word, want 2", row.Credits)
		}
		w.inspect(func(e *Engine) {
			if left, err := e.refusals(); err != nil || len(left) != 0 {
				t.Errorf("%v still stands in the way (%v)", left, err)
			}
		})
		time.Sleep(day)
		if row, _ := w.run(); row.Status != state.PausedBudget {
			t.Errorf("the run of another day ended as %s; want it to wait for a word of that day", row.Status)
		}
	})
}

// resume is `outlierd budget resume`.
func (w *workshop) resume() {
	w.Helper()
	key, err := outlier.NewKey(testKey)
	if err != nil {
		w.Fatal(err)
	}
	options := state.Options{Service: w.config.Service.URL, Location: w.config.Timezone, Renews: w.config.Budget.Renews}
	if lifted, err := state.Lift(w.ctx, filepath.Join(w.data(), "state"), options, key.Fingerprint()); err != nil || len(lifted) != 1 {
		w.Errorf("lifted %v, error %v; want one latch", lifted, err)
	}
}

// TestOneWrongDateMintsNoFreshBudget: it is not believed before another answer agrees.
func TestOneWrongDateMintsNoFreshBudget(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		ends state.Status
	}{
		"by day and cycle": {cappedFile, state.PausedBudget},
		"by day":           {strings.Replace(cappedFile, "per_month: 2", "per_month: 20", 1), state.PausedBudget},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, strings.Replace(test.file, "[home espresso]", "[home espresso], pages: 3", 1), func(w *workshop) {
				answers := 0
				w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
					answer, err := w.service.Transport().RoundTrip(r)
					if answers++; answers == 1 {
						answer.Header.Set("Date", time.Now().Add(40*day).UTC().Format(http.TimeFormat))
					}
					return answer, err
				})
				if row := w.mustRun(test.ends); row.Credits != 2 {
					t.Errorf("%d credits were spent, want the 2 of the cap", row.Credits)
				}
			})
		})
	}
}

// TestClockThatJumpsADayMintsNoFreshDay where the month has room.
func TestClockThatJumpsADayMintsNoFreshDay(t *testing.T) {
	bubble(t, strings.Replace(cappedFile, "per_month: 2", "per_month: 20", 1), func(w *workshop) {
		w.mustRun(state.OK)
		time.Sleep(25 * time.Hour)
		w.wire = slow{w.service.Transport(), 25 * time.Hour}
		if row := w.mustRun(state.PausedBudget); row.Credits != 0 {
			t.Errorf("%d credits were spent on a day that the service had not begun", row.Credits)
		}
	})
}

// TestCapOfAJobTurnsByTheServicesClock, too, where no other cap goes by the cycle.
func TestCapOfAJobTurnsByTheServicesClock(t *testing.T) {
	file := strings.NewReplacer("budget: {per_month: 2, per_day: 2}\n", "", "reuse_for: 1m}", "reuse_for: 1m, budget: {per_month: 2}}").Replace(cappedFile)
	bubble(t, file, func(w *workshop) {
		w.mustRun(state.OK)
		time.Sleep(40 * day)
		w.wire = slow{w.service.Transport(), 40 * day}
		if row := w.mustRun(state.PausedBudget); row.Credits != 0 {
			t.Errorf("%d credits were spent in a cycle that the service had not begun", row.Credits)
		}
	})
}

// TestTimeIsToldBeforeAnythingIsBoughtAndAtOnce: the question has no share of the quota to
// wait for, as looks at scans have.
func TestTimeIsToldBeforeAnythingIsBoughtAndAtOnce(t *testing.T) {
	for _, limit := range []string{"10/min", "10/10m"} {
		file := strings.NewReplacer("10/min", limit, "per_month: 2, per_day: 2", "per_month: 20, per_day: 20").Replace(cappedFile)
		bare(t, file, func(w *workshop) {
			w.mustRun(state.OK)
			time.Sleep(45 * day)
			w.wire = slow{w.service.Transport(), 40 * day}
			began := time.Now()
			if w.mustRun(state.OK); time.Since(began) > time.Minute {
				t.Errorf("%s: the limiter is idle, and the page took %s", limit, time.Since(began))
			}
		})
	}
}

// TestPageThatWasSetAsideNeedsNoClock: it counts for the day on which its scan was started.
func TestPageThatWasSetAsideNeedsNoClock(t *testing.T) {
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 200, per_day: 100}
jobs:
  dig: {scan: {query: [home espresso], read: {pages: 2}}}
`
	bare(t, file, func(w *workshop) {
		w.wire = undated{w.service.Transport()}
		w.inspect(func(e *Engine) {
			ctx, cancel := contextFor(w, 2*time.Minute)
			defer cancel()
			if row, _ := e.Run(ctx, &w.config.Jobs[0], Manual, time.Time{}); row.Credits != 50 {
				t.Fatalf("%d credits before the process ended, want those of the scan", row.Credits)
			}
		})
		time.Sleep(30 * time.Hour)
		if row := w.mustRun(state.OK); row.Pages != 2 {
			t.Errorf("%d pages were read, want 2", row.Pages)
		}
	})
}
