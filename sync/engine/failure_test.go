package engine

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// failOne makes all tries of the first call below a path fail.
func (w *workshop) failOne(path string) {
	wire, failing, tries := w.wire, "", 0
	w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
		if !strings.HasPrefix(r.URL.Path, path) || tries == plan.Attempts || failing != "" && r.URL.Path != failing {
			return wire.RoundTrip(r)
		}
		failing, tries = r.URL.Path, tries+1
		connect(r)
		return page(http.StatusBadGateway, "text/html", "<html>no</html>"), nil
	})
}

// Failed calls stay queued, and the run is partial.
func TestFailedCallsMakeRunPartial(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		w.failOne("/video/comments/")
		row := w.mustRun(runs.Partial)
		if row.Failures != 1 {
			t.Errorf("%d failures, want 1", row.Failures)
		}
		time.Sleep(time.Hour)
		w.mustRun(runs.OK)
		if got := w.calls(outlier.OpComments); got != 3 {
			t.Errorf("%d answers about comments, want those of all 3 videos", got)
		}
	})
}

// TestOutageLeavesManualRunPartial: the next run makes the queued calls.
func TestOutageLeavesManualRunPartial(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]func(http.RoundTripper) http.RoundTripper{
		"in a row": func(wire http.RoundTripper) http.RoundTripper {
			return afterPages(wire, func() *http.Response { return page(http.StatusBadGateway, "text/html", "<html>no</html>") })
		},
		"not sent": func(wire http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if strings.HasPrefix(r.URL.Path, "/search/") {
					return wire.RoundTrip(r)
				}
				return nil, errors.New("no route to host")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bare(t, jobsFile, func(w *workshop) {
				well := w.wire
				w.wire = outage(well)
				row := w.mustRun(runs.Partial)
				if !strings.Contains(row.Error, name) || !strings.Contains(row.Error, "calls stay queued") || row.Pages != 2 {
					t.Errorf("error %q with %d pages; want both pages, and that calls stay queued as they are %s",
						row.Error, row.Pages, name)
				}
				w.wire = well
				time.Sleep(time.Hour)
				if next := w.mustRun(runs.OK); next.ID == row.ID || next.Credits != 0 || w.calls(outlier.OpComments) != 3 {
					t.Errorf("run %+v with %d calls for comments; want a new one whose pages the journal has, and the calls made",
						next, w.calls(outlier.OpComments))
				}
			})
		})
	}
}

// TestFirewallAnswerBlocksNoKey: it is not an answer of the service, so the call is made once, its outcome is
// unknown, and the next due time tries again.
func TestFirewallAnswerBlocksNoKey(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusForbidden, http.StatusUnauthorized} {
		bare(t, jobsFile, func(w *workshop) {
			asked := 0
			well := w.wire
			w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
				asked++
				_, err := well.RoundTrip(r)
				return page(status, "text/html", "<html>denied</html>"), err
			})
			if row, err := w.run(); err == nil || row.Status != runs.Failed || asked != 1 || row.Credits != 2 {
				t.Errorf("HTTP %d: %d calls, run %+v, error %v; want one call whose price is held", status, asked, row, err)
			}
			w.wire = well
			w.inspect(func(e *Engine) {
				if block, err := e.Store.Blocks.Get(ledger.BlockKey, ""); block != nil || err != nil {
					t.Errorf("HTTP %d: block %+v, %v", status, block, err)
				}
			})
			w.mustRun(runs.OK)
		})
	}
}

// TestWrongAddressStopsAtOnce: a wrong address gets a single call, which requests the time. The data
// folder accepts the right address later.
func TestWrongAddressStopsAtOnce(t *testing.T) {
	t.Parallel()
	watch := "\n  rivals: {channels: {id: [UC1234567890abcdefghijkl], fetch: [channel_videos]}}\n"
	for name, of := range map[string]string{"a search": "coffee", "data calls": "rivals"} {
		t.Run(name, func(t *testing.T) {
			asking(t, jobsFile+watch, func(w *workshop) {
				asked := 0
				w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
					asked++
					connect(r)
					return page(http.StatusNotFound, "text/html", "<h1>Not Found</h1>"), nil
				})
				_, err := w.runOf(of, time.Hour, job.Overrides{})
				if err == nil || !strings.Contains(err.Error(), "this does not look like the service") || asked != 1 {
					t.Errorf("%d requests, error %v; want one request, and what is wrong", asked, err)
				}
				w.inspect(func(e *Engine) {
					rows, err := e.Store.Runs.List(runs.Filter{Job: of}, 0)
					if err != nil || len(rows) != 1 || rows[0].Status != runs.Failed || rows[0].Credits != 0 {
						t.Errorf("on record are %+v (%v), want one failed run without a credit", rows, err)
					}
				})
			})
		})
	}
}

// TestForeignServerIsCalledOnce: if the service has answered before, a 404 page of another server is a
// failure, and the price of one attempt is held.
func TestForeignServerIsCalledOnce(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		w.mustRun(runs.OK)
		well, asked := w.wire, 0
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			asked++
			connect(r)
			return page(http.StatusNotFound, "text/html", "<h1>Not Found</h1>"), nil
		})
		time.Sleep(day)
		row, err := w.run()
		if err == nil || row.Credits != 2 || asked != 1 || strings.Contains(row.Error, "does not look like") {
			t.Errorf("%d requests, run %+v, error %v; want one whose price is held", asked, row, err)
		}
		w.wire = well
		w.mustRun(runs.OK)
	})
}

// TestRefusalsOfAnyShapeAreRefunded: a rate limiter refuses before any work is done.
func TestRefusalsOfAnyShapeAreRefunded(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		well := w.wire
		bodies := []string{"<html>slow down</html>", `{}`, `{"error":"slow down"}`, ""}
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			if !strings.HasPrefix(r.URL.Path, "/search/") || len(bodies) == 0 {
				return well.RoundTrip(r)
			}
			body := bodies[0]
			bodies = bodies[1:]
			connect(r)
			return page(http.StatusTooManyRequests, "text/html", body), nil
		})
		if row := w.mustRun(runs.OK); row.Credits != 4 || row.Refunded != 8 {
			t.Errorf("%d credits spent and %d refunded; want those of two pages, and four refusals",
				row.Credits, row.Refunded)
		}
	})
}

// TestLostAnswerHoldsPrice: the request may have been charged.
func TestLostAnswerHoldsPrice(t *testing.T) {
	t.Parallel()
	single(t, searchFile, func(w *workshop) {
		w.service.FailNext(outlier.OpSearch, simulator.DropAnswer)
		row := w.mustRun(runs.OK)
		if row.Credits != 6 {
			t.Errorf("the run holds %d credits, want 6: two pages and an answer that was lost", row.Credits)
		}
		if got := w.count("select count(*) from ops.credits where outcome = 'unknown'"); got != 1 {
			t.Errorf("%d unknown rows in the ledger, want 1", got)
		}
	})
}

// An unreadable answer is kept and not bought again.
func TestUnreadableAnswerIsBoughtOnce(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		w.service.FailNext(outlier.OpSearch, simulator.Garbage)
		_, err := w.run()
		if err == nil {
			t.Fatal("the run ended well although a page was no search answer")
		}
		if calls := w.service.Books().Operations[outlier.OpSearch].Calls; calls != 1 {
			t.Errorf("%d search calls, want 1", calls)
		}
	})
}

// TestRunsAreContinuedAfterFailures: each fault ends a run with one clear message. After the fault, the
// same run is continued, and no page is bought twice.
func TestRunsAreContinuedAfterFailures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fault   simulator.Fault
		message string
		held    outlier.Credits // for answers that may have been charged
	}{
		{simulator.Unreachable, "not sent", 0},
		{simulator.ServerError, "500", 0},
		{simulator.GatewayPage, "502", 2 * plan.Attempts},
		{simulator.GatewayJSON, "504", 2 * plan.Attempts},
		{simulator.HTMLPage, "not an answer of the service", 2},
		{simulator.CutBody, "broke off", 2 * plan.Attempts},
		{simulator.DropAnswer, "not answered", 2 * plan.Attempts},
		{simulator.Unauthorized, "nauthorized", 0},
	} {
		t.Run(test.fault.String(), func(t *testing.T) {
			bare(t, searchFile, func(w *workshop) {
				for range plan.Attempts {
					w.service.FailNext(outlier.OpSearch, test.fault)
				}
				row, err := w.run()
				if err == nil || row.Status != runs.Failed || !strings.Contains(err.Error(), test.message) {
					t.Fatalf("status %s, error %v; want a failure with %q", row.Status, err, test.message)
				}
				if row.Credits != test.held {
					t.Errorf("%d credits are held, want %d", row.Credits, test.held)
				}
				if test.fault == simulator.Unauthorized || test.fault == simulator.HTMLPage { // one fault is enough; remove the others
					w.service = simulator.New(simulator.Options{Seed: 1, Key: testKey})
					w.wire = w.service.Transport()
				}
				next := w.mustRun(runs.OK)
				if next.ID != row.ID || next.Credits != test.held+4 {
					t.Errorf("run %s holds %d credits, want run %s to go on and hold %d",
						next.ID, next.Credits, row.ID, test.held+4)
				}
				if spent := w.service.Books().Total.Spent(); spent > next.Credits { // of the new service
					t.Errorf("the service charged %d credits, the run holds %d", spent, next.Credits)
				}
			})
		})
	}
}

// TestExhaustedCreditsPauseRun: with 402 the service reports its own cap.
func TestExhaustedCreditsPauseRun(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		w.service.FailNext(outlier.OpSearch, simulator.NoCredits)
		row := w.mustRun(runs.PausedBudget)
		if row.Credits != 0 || !strings.Contains(row.Error, "budget resume") {
			t.Errorf("%d credits, error %q; want none, and the remedy", row.Credits, row.Error)
		}
		calls := w.service.Books().Total.Calls
		if again := w.mustRun(runs.PausedBudget); again.ID != row.ID || strings.Contains(again.Error, "search: search") || w.service.Books().Total.Calls != calls {
			t.Errorf("the refusal stands until the cycle turns, and %d calls were made",
				w.service.Books().Total.Calls-calls)
		}
		e, stop := w.open()
		err := e.Store.DB.Update(func(tx *store.Tx) error { return ledger.Lift(tx, e.Client.Key.Fingerprint()) })
		stop()
		if err != nil {
			t.Fatal(err)
		}
		if next := w.mustRun(runs.OK); next.ID != row.ID {
			t.Error("the next run did not continue the paused one")
		}
	})
}

// TestExhaustedCreditsAreRecheckedDaily: one call a day tries whether the service has credits again, without
// a user.
func TestExhaustedCreditsAreRecheckedDaily(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 400}
jobs:
  hourly: {every: 1h, search: {query: [home espresso]}, enrich: {details: {top: 1}}}
`
	bare(t, file, func(w *workshop) {
		time.Sleep(3 * 24 * time.Hour)
		w.service.FailNext(outlier.OpSearch, simulator.NoCredits)
		rows := w.serve(20 * time.Hour)
		if calls := w.service.Books().Operations[outlier.OpSearch].Calls; calls != 1 {
			t.Errorf("%d searches were sent on the first day, want the one that was refused", calls)
		}
		w.serve(10 * time.Hour)
		if spent := w.service.Books().Total.Spent(); spent == 0 {
			t.Errorf("nothing was bought after a day; the first runs were %+v", rows[:2])
		}
	})
}

// TestRateLimitIsWaitedFor: a 429 costs only time.
func TestRateLimitIsWaitedFor(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		w.service.FailNext(outlier.OpSearch, simulator.RateLimited)
		w.service.FailNext(outlier.OpComments, simulator.RateLimited)
		row := w.mustRun(runs.OK)
		if row.Credits != 4 || row.Failures != 0 {
			t.Errorf("%d credits and %d failures, want 4 and none", row.Credits, row.Failures)
		}
	})
}

// TestRetryDelaysNoOtherCall: the call of the highest value fails and waits for its retry, and the others go
// on.
func TestRetryDelaysNoOtherCall(t *testing.T) {
	t.Parallel()
	bare(t, strings.Replace(strings.Replace(oneCall(outlier.OpDetails), "top: 1", "top: 5", 1), "10/min", "600/min", 1), func(w *workshop) {
		var calls []string
		well, first := w.wire, time.Time{}
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			if !strings.HasPrefix(r.URL.Path, "/video/") {
				return well.RoundTrip(r)
			}
			if first.IsZero() {
				first = time.Now()
			}
			calls = append(calls, r.URL.Path)
			if r.URL.Path == calls[0] {
				connect(r)
				return page(http.StatusBadGateway, "text/html", "<html>no</html>"), nil
			}
			if after := time.Since(first); after > 900*time.Millisecond {
				t.Errorf("%s was called %s after a call that waits for its retry", r.URL.Path, after)
			}
			return well.RoundTrip(r)
		})
		if w.mustRun(runs.Partial); len(calls) != 4+plan.Attempts {
			t.Errorf("the calls were %q", calls)
		}
	})
}
