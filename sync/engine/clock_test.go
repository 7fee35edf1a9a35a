package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

const cappedFile = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 2, per_day: 2}
jobs:
  one: {search: {query: [home espresso]}, reuse_for: 1m}
`

// slow is a service whose clock is behind the local one, as if the local clock had been set forward.
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

// asking runs a test in which the engine requests the time from the service, as it does in production.
func asking(t *testing.T, file string, test func(w *workshop)) {
	t.Helper()
	bare(t, file, func(w *workshop) {
		w.asks = true
		test(w)
	})
}

// TestForwardClockJumpAddsNoBudget: when the local clock jumps by a day or a month, nothing is bought as long
// as the service is still in the same day.
func TestForwardClockJumpAddsNoBudget(t *testing.T) {
	t.Parallel()
	asking(t, cappedFile, func(w *workshop) {
		w.mustRun(runs.OK)
		for _, jump := range []time.Duration{25 * time.Hour, 40 * 24 * time.Hour} {
			time.Sleep(jump)
			w.wire = slow{w.service.Transport(), time.Since(time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC))}
			row := w.mustRun(runs.PausedBudget)
			if row.Credits != 0 {
				t.Errorf("%s ahead of the service, %d credits were spent", jump, row.Credits)
			}
		}
		if spent := w.service.Books().Total.Spent(); spent != 2 {
			t.Errorf("the service was paid %d credits, want the 2 of the cap", spent)
		}
	})
}

// TestFutureSpendingCountsNow: after the clock was set forward and corrected, exactly the credits spent are
// counted.
func TestFutureSpendingCountsNow(t *testing.T) {
	t.Parallel()
	for most, ends := range map[string]runs.Status{"2": runs.PausedBudget, "4": runs.OK} {
		data := t.TempDir()
		file := strings.NewReplacer("per_month: 2", "per_month: "+most, "per_day: 2", "per_day: "+most).Replace(cappedFile)
		asking(t, file, func(w *workshop) {
			w.dir = data
			time.Sleep(40 * 24 * time.Hour) // the clocks are in February
			w.mustRun(runs.OK)
		})
		asking(t, file, func(w *workshop) { // the clock was corrected: all clocks begin in January
			w.dir = data
			if row := w.mustRun(ends); row.Credits != map[runs.Status]outlier.Credits{runs.OK: 2}[ends] {
				t.Errorf("%d credits were spent under a cap of %s, of which 2 are dated in the future",
					row.Credits, most)
			}
		})
	}
}

// undated is a service whose answers have no date.
type undated struct{ http.RoundTripper }

func (u undated) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := u.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Header.Del("Date")
	}
	return answer, err
}

// TestProcessRequestsTimeOnce before it buys, and not at all if an answer already had the time.
func TestProcessRequestsTimeOnce(t *testing.T) {
	t.Parallel()
	file := strings.NewReplacer("[home espresso]", "[home espresso], pages: 2, where: {published_at: last 90d}", "per_month: 2, per_day: 2", "per_month: 200").Replace(cappedFile)
	asking(t, file, func(w *workshop) {
		var calls []string
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			calls = append(calls, strings.TrimPrefix(r.URL.Path, "/search/"))
			return w.service.Transport().RoundTrip(r)
		})
		w.mustRun(runs.OK)
		if want := "[/video/----------- outliers outliers]"; fmt.Sprint(calls) != want {
			t.Errorf("a process called %v, want %s", calls, want)
		}
		w.withSinks(func(e *Engine) {
			calls = nil
			request, err := outlier.DataRequest(outlier.OpDetails, "dQw4w9WgXcQ")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = e.Client.Do(w.ctx, request, e.Store.Ledger.Meter(ledger.Purchase{})) // the service has no such video
			time.Sleep(time.Hour)
			if row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{}); err != nil || row.Pages != 2 {
				t.Errorf("run %+v, error %v", row, err)
			}
			if slices.Contains(calls, "/video/-----------") {
				t.Errorf("calls %v, want none for the time, which was known", calls)
			}
		})
		if n, err := w.journaled(noVideo); err != nil || n != 0 {
			t.Errorf("%d answers to the question for the time are in the journal (%v)", n, err)
		}
	})
}

// journaled counts the answers about an entity in the journal.
func (w *workshop) journaled(entity string) (n int, err error) {
	w.inspect(func(e *Engine) {
		for entry, failed := range e.Store.Journal.After(0) {
			if err = failed; err != nil {
				return
			}
			if entry.Entity == entity {
				n++
			}
		}
	})
	return n, err
}

// shifted is a service whose clock is off by a fixed time in all its answers.
type shifted struct {
	http.RoundTripper
	by time.Duration
}

func (s shifted) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Header.Set("Date", time.Now().Add(s.by).UTC().Format(http.TimeFormat))
	}
	return answer, err
}

// TestWindowsAndBookingsShareClock, even if a process buys a single page, and however far the service's clock
// is from the local one.
func TestWindowsAndBookingsShareClock(t *testing.T) {
	t.Parallel()
	file := strings.NewReplacer("[home espresso]", "[home espresso], where: {published_at: last 90d}", "per_month: 2, per_day: 2", "per_month: 200").Replace(cappedFile)
	for _, off := range []time.Duration{30 * day, -30 * day, 0} {
		asking(t, file, func(w *workshop) {
			time.Sleep(100 * day)
			w.wire = shifted{w.service.Transport(), off}
			w.mustRun(runs.OK)
			now := time.Now().Add(off)
			w.inspect(func(e *Engine) {
				steps := w.latestSteps(e)
				if want := now.AddDate(0, 0, -90).UTC().Format(time.DateOnly) + ".."; steps[0].Window != want {
					t.Errorf("the window is %s, want %s", steps[0].Window, want)
				}
				if late := now.Sub(steps[0].Began); late < 0 || late > time.Minute {
					t.Errorf("page one was asked for at %s by the service's clock, which shows %s", steps[0].Began, now)
				}
				balance, err := e.Store.Ledger.Balance(ledger.Cap{Scope: ledger.ScopeDay, Period: ledger.Day(now, time.UTC)})
				if err != nil || balance.Spent != 2 {
					t.Errorf("%d credits are booked on the service's day, want 2 (%v)", balance.Spent, err)
				}
			})
		})
	}
}

// latestSteps returns the searches of the newest run.
func (w *workshop) latestSteps(e *Engine) []runs.Step {
	w.Helper()
	rows, err := e.Store.Runs.List(runs.Filter{}, 1)
	if err != nil || len(rows) != 1 {
		w.Fatalf("runs %v, error %v", rows, err)
	}
	steps, err := e.Store.Steps.OfRun(rows[0].ID)
	if err != nil {
		w.Fatal(err)
	}
	return steps
}

// TestLocalClockAloneBuysNothing: if the service reports no time, a user must confirm the local clock for the day.
func TestLocalClockAloneBuysNothing(t *testing.T) {
	t.Parallel()
	asking(t, cappedFile, func(w *workshop) {
		w.wire = undated{w.service.Transport()}
		for range 2 {
			row, _ := w.run()
			if row.Status != runs.PausedBudget || row.Credits != 0 || !strings.Contains(row.Error, "budget resume") {
				t.Errorf("run %+v; want one that waits for a person's word", row)
			}
			w.resume()
			if row := w.mustRun(runs.OK); row.Credits != 2 {
				t.Errorf("%d credits after a person's word, want 2", row.Credits)
			}
			time.Sleep(40 * day)
		}
		if row, _ := w.run(); row.Status != runs.PausedBudget {
			t.Errorf("the run of another day ended as %s", row.Status)
		}
		w.resume()
		w.mustRun(runs.OK)
		w.inspect(func(e *Engine) {
			if left, err := forecasts(e).Refusals(); err != nil || len(left) != 0 {
				t.Errorf("%v still stands in the way (%v)", left, err)
			}
		})
		time.Sleep(day)
		if row, _ := w.run(); row.Status != runs.PausedBudget {
			t.Errorf("the run of another day ended as %s; want it to wait for a word of that day", row.Status)
		}
	})
}

// TestServicesClockAloneOpensNoBudget: the service's dates jump ahead by 40 days, and again, or back, while the local
// clock goes on: before the process begins, and while it buys. A person, or the local clock, must agree.
func TestServicesClockAloneOpensNoBudget(t *testing.T) {
	t.Parallel()
	file := strings.NewReplacer("[home espresso]", "[home espresso], pages: 3", "per_month: 2, per_day: 2", "per_month: 4, per_day: 4").Replace(cappedFile)
	asking(t, file, func(w *workshop) {
		var ahead time.Duration
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := w.service.Transport().RoundTrip(r)
			if err == nil {
				answer.Header.Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
			}
			return answer, err
		})
		w.mustRun(runs.PausedBudget) // two of three pages
		for _, ahead = range []time.Duration{-40 * day, -400 * day, 40 * day, 80 * day} {
			row, _ := w.run()
			if row.Status != runs.PausedBudget || !strings.Contains(row.Error, "only the service's is in another day") || w.spent() != 4 {
				t.Errorf("%s ahead: run %+v, %d credits; want one that waits for a person, and 4", ahead, row, w.spent())
			}
		}
		w.resume()
		ahead += day // another date than the confirmed one
		if row, _ := w.run(); row.Status != runs.PausedBudget || w.spent() != 4 {
			t.Errorf("run %+v, %d credits; want one that waits for a person, and 4", row, w.spent())
		}
		w.resume()
		if w.mustRun(runs.OK); w.spent() != 6 {
			t.Errorf("%d credits after a person's word, want 6", w.spent())
		}
		ahead = 0
		time.Sleep(95 * day)
		if w.mustRun(runs.PausedBudget); w.spent() != 10 {
			t.Errorf("%d credits once the local clock has reached a new cycle, want 10", w.spent())
		}
	})
	asking(t, file, func(w *workshop) {
		time.Sleep(2 * day)
		w.mustRun(runs.PausedBudget)
		time.Sleep(40 * day)
		answers := 0
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := w.service.Transport().RoundTrip(r)
			if answers++; err == nil && answers > 1 {
				answer.Header.Set("Date", time.Now().Add(80*day).UTC().Format(http.TimeFormat))
			}
			return answer, err
		})
		w.mustRun(runs.PausedBudget)
		if w.spent() != 8 {
			t.Errorf("%d credits in two cycles of 4, want 8: dates that jump within a run open no third", w.spent())
		}
	})
}

// resume does what `outlierd budget resume` does.
func (w *workshop) resume() {
	w.Helper()
	key, err := outlier.NewKey(testKey)
	if err != nil {
		w.Fatal(err)
	}
	w.inspect(func(e *Engine) {
		if lifted, err := e.Store.Blocks.Liftable(key.Fingerprint()); err != nil || len(lifted) != 1 {
			w.Errorf("%v can be lifted, error %v; want one block", lifted, err)
		}
		if err := e.Store.DB.Update(func(tx *store.Tx) error { return ledger.Lift(tx, key.Fingerprint()) }); err != nil {
			w.Error(err)
		}
	})
}

// TestOneWrongDateIsIgnored: one in the future, with an unused budget, and one in the past, which may
// have some budget left.
func TestOneWrongDateIsIgnored(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"by day and cycle": cappedFile,
		"by day":           strings.Replace(cappedFile, "per_month: 2", "per_month: 20", 1),
	} {
		for _, off := range []time.Duration{40 * day, -40 * day, -20 * 365 * day, time.Hour} {
			asking(t, strings.Replace(file, "[home espresso]", "[home espresso], pages: 3", 1), func(w *workshop) {
				time.Sleep(200 * day)
				answers := 0
				w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
					answer, err := w.service.Transport().RoundTrip(r)
					if answers++; answers%2 == 1 {
						answer.Header.Set("Date", time.Now().Add(off).UTC().Format(http.TimeFormat))
					}
					return answer, err
				})
				if row := w.mustRun(runs.PausedBudget); row.Credits != 2 {
					t.Errorf("%s, a date %s off: %d credits were spent, want the 2 of the cap", name, off, row.Credits)
				}
				w.inspect(func(e *Engine) {
					balance, err := e.Store.Ledger.Balance(ledger.Cap{Scope: ledger.ScopeDay, Period: ledger.Day(time.Now(), time.UTC)})
					if err != nil || balance.Spent != 2 {
						t.Errorf("%s, a date %s off: %d credits are booked today (%v)", name, off, balance.Spent, err)
					}
				})
			})
		}
	}
}

// TestDatesOfGatewaysAreIgnored: a gateway in front of the service has its own clock.
func TestDatesOfGatewaysAreIgnored(t *testing.T) {
	t.Parallel()
	for _, gateway := range []struct {
		status int
		body   string
	}{{502, "<html></html>"}, {504, `{"error":{"message":"late"}}`}, {200, "<html>sign in</html>"}, {200, `{"ok":true}`}, {302, ""}, {404, "no route"}} {
		asking(t, cappedFile, func(w *workshop) {
			time.Sleep(45 * day)
			w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path != "/video/"+noVideo {
					return w.service.Transport().RoundTrip(r)
				}
				connect(r)
				return &http.Response{
					StatusCode: gateway.status, Body: io.NopCloser(strings.NewReader(gateway.body)),
					Header: http.Header{"Date": {time.Now().Add(-40 * day).UTC().Format(http.TimeFormat)}},
				}, nil
			})
			_, _ = w.run() // fails while the gateway is there, or while the local clock is not confirmed
			w.wire = w.service.Transport()
			_, _ = w.run()
			w.inspect(func(e *Engine) {
				balance, err := e.Store.Ledger.Balance(ledger.Cap{Scope: ledger.ScopeMonth, Period: ledger.Cycle(time.Now(), time.UTC, 1)})
				if err != nil || balance.Spent != 2 || w.spent() != 2 {
					t.Errorf("%d %s: %d credits are booked in this cycle, %d were spent, want 2 (%v)",
						gateway.status, gateway.body, balance.Spent, w.spent(), err)
				}
			})
		})
	}
}

// TestContradictoryServiceTimeStopsBuying until a user confirms the local clock: the current period is
// unknown.
func TestContradictoryServiceTimeStopsBuying(t *testing.T) {
	t.Parallel()
	asking(t, cappedFile, func(w *workshop) {
		answers := 0
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := w.service.Transport().RoundTrip(r)
			answers++
			answer.Header.Set("Date", time.Now().Add(time.Duration(40*answers)*day).UTC().Format(http.TimeFormat))
			return answer, err
		})
		row, _ := w.run()
		if row.Status != runs.PausedBudget || row.Credits != 0 || !strings.Contains(row.Error, "differ") || w.spent() != 0 {
			t.Errorf("run %+v; want one that waits for a person's word", row)
		}
		w.resume()
		if row := w.mustRun(runs.OK); row.Credits != 2 {
			t.Errorf("%d credits after a person's word, want 2", row.Credits)
		}
	})
}

// TestWrongClockWindowIsNotBought: a run that could not request the time when it began buys nothing with a
// window that turns out to be of another time.
func TestWrongClockWindowIsNotBought(t *testing.T) {
	t.Parallel()
	file := strings.NewReplacer("[home espresso]", "[home espresso], where: {published_at: last 90d}", "per_month: 2, per_day: 2", "per_month: 200").Replace(cappedFile)
	for off, bought := range map[time.Duration]bool{time.Hour: true, 30 * day: false, -30 * day: false} {
		asking(t, file, func(w *workshop) {
			time.Sleep(100 * day)
			w.wire = roundTripper(func(r *http.Request) (*http.Response, error) { return nil, errors.New("no network") })
			if row, err := w.run(); err == nil || row.Status != runs.Failed {
				t.Fatalf("run %+v without a network", row)
			}
			w.wire = shifted{w.service.Transport(), off}
			row, err := w.run()
			if bought != (err == nil) || bought != (w.spent() == 2) {
				t.Errorf("%s off: run %+v, error %v, %d credits", off, row, err, w.spent())
			}
			if bought {
				return
			}
			w.mustRun(runs.OK) // a new run
			w.inspect(func(e *Engine) {
				if want := time.Now().Add(off).AddDate(0, 0, -90).UTC().Format(time.DateOnly) + ".."; w.latestSteps(e)[0].Window != want {
					t.Errorf("the window is %s, want %s", w.latestSteps(e)[0].Window, want)
				}
			})
		})
	}
}

// TestStoppedTimeRequestStartsNoRun: a due job runs after the next start, with windows that end at a known
// time.
func TestStoppedTimeRequestStartsNoRun(t *testing.T) {
	t.Parallel()
	asking(t, cappedFile, func(w *workshop) {
		whole := w.ctx
		var stop context.CancelFunc
		w.ctx, stop = context.WithCancel(whole)
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			stop()
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		if row, err := w.run(); row != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("a run that was stopped before it began is %+v, error %v", row, err)
		}
		w.ctx, w.wire = whole, w.service.Transport()
		w.mustRun(runs.OK)
	})
}

// TestDayJumpAddsNoDayBudget: when the local clock jumps by a day, the cap of the day has no more room,
// although that of the month has.
func TestDayJumpAddsNoDayBudget(t *testing.T) {
	t.Parallel()
	asking(t, strings.Replace(cappedFile, "per_month: 2", "per_month: 20", 1), func(w *workshop) {
		w.mustRun(runs.OK)
		time.Sleep(25 * time.Hour)
		w.wire = slow{w.service.Transport(), 25 * time.Hour}
		if row := w.mustRun(runs.PausedBudget); row.Credits != 0 {
			t.Errorf("%d credits were spent on a day that the service had not begun", row.Credits)
		}
	})
}

// TestJobCapUsesServiceClock, even if no other cap depends on the cycle.
func TestJobCapUsesServiceClock(t *testing.T) {
	t.Parallel()
	file := strings.NewReplacer("budget: {per_month: 2, per_day: 2}\n", "", "reuse_for: 1m}", "reuse_for: 1m, budget: {per_month: 2}}").Replace(cappedFile)
	asking(t, file, func(w *workshop) {
		w.mustRun(runs.OK)
		time.Sleep(40 * day)
		w.wire = slow{w.service.Transport(), 40 * day}
		if row := w.mustRun(runs.PausedBudget); row.Credits != 0 {
			t.Errorf("%d credits were spent in a cycle that the service had not begun", row.Credits)
		}
	})
}

// TestTimeIsKnownBeforeBuying: the request for the time does not wait for a share of the quota, as scan polls
// do.
func TestTimeIsKnownBeforeBuying(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"10/min", "10/10m"} {
		file := strings.NewReplacer("10/min", limit, "per_month: 2, per_day: 2", "per_month: 20, per_day: 20").Replace(cappedFile)
		asking(t, file, func(w *workshop) {
			w.mustRun(runs.OK)
			time.Sleep(45 * day)
			w.wire = slow{w.service.Transport(), 40 * day}
			began := time.Now()
			if w.mustRun(runs.OK); time.Since(began) > time.Minute {
				t.Errorf("%s: the limiter is idle, and the page took %s", limit, time.Since(began))
			}
		})
	}
}

// TestScanReadingNeedsNoClock: a page of a scan counts for the day on which its scan was started.
func TestScanReadingNeedsNoClock(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 200, per_day: 100}
jobs:
  dig: {scan: {query: [home espresso], read: {pages: 2}}}
`
	asking(t, file, func(w *workshop) {
		w.withSinks(func(e *Engine) {
			ctx, cancel := contextFor(w, 2*time.Minute)
			defer cancel()
			if row, _ := e.Run(ctx, &w.config.Jobs[0], Manual, time.Time{}); row.Credits != 50 {
				t.Fatalf("%d credits before the process ended, want those of the scan", row.Credits)
			}
		})
		time.Sleep(30 * time.Hour)
		w.wire = undated{w.service.Transport()}
		if row := w.mustRun(runs.OK); row.Pages != 2 {
			t.Errorf("%d pages were read, want 2", row.Pages)
		}
	})
}

// TestRepairedClockLosesNoVideos: a service clock that was 30 days ahead and is corrected leaves no
// cursor in the future. Videos published since the last search are found.
func TestRepairedClockLosesNoVideos(t *testing.T) {
	t.Parallel()
	file := strings.NewReplacer("[home espresso]", `[home espresso], where: {published_at: "since last success, overlap 2d, first 90d"}`,
		"per_month: 2, per_day: 2", "per_month: 200").Replace(cappedFile)
	for name, wait := range map[string]time.Duration{"soon": 10 * day, "when the false date has come": 40 * day} {
		asking(t, file, func(w *workshop) {
			time.Sleep(100 * day)
			w.wire = shifted{w.service.Transport(), 30 * day}
			if _, err := w.run(); err != nil {
				t.Fatal(err)
			}
			searched := time.Now()
			w.wire = w.service.Transport() // repaired
			time.Sleep(time.Hour)
			w.inspect(func(e *Engine) { // another job buys, or a user runs this one
				idle := &caller{applier: applier{engine: e}}
				if err := idle.ensureTime(w.ctx); err != nil {
					t.Fatal(err)
				}
			})
			time.Sleep(wait)
			if _, err := w.run(); err != nil {
				t.Fatal(err)
			}
			w.inspect(func(e *Engine) {
				if want := searched.AddDate(0, 0, -2).UTC().Format(time.DateOnly) + ".."; w.latestSteps(e)[0].Window != want {
					t.Errorf("%s: the window is %s, want %s, two days before the search",
						name, w.latestSteps(e)[0].Window, want)
				}
				marks, err := e.Store.Watermarks.List("")
				if err != nil || len(marks) != 1 || time.Since(marks[0].At).Abs() > time.Hour {
					t.Errorf("%s: the cursor is %v (%v), want one of now", name, marks, err)
				}
			})
		})
	}
}
