package engine

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

const scanFile = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 400}
jobs:
  niche:
    scan:
      query: [espresso machine repair]
      poll: 1m..10m
      deadline: 6h
      read: {pages: 3}
    budget: {per_run: 60}
`

// course returns options for a simulator in which every scan has the given phases.
func course(phases ...simulator.Phase) simulator.Options {
	return simulator.Options{Scans: func(string) []simulator.Phase { return phases }}
}

// anHour makes scans complete after an hour.
var anHour = course(simulator.Phase{Status: "Queued", Lasts: 90 * time.Second}, simulator.Phase{Status: "Running", Lasts: 58*time.Minute + 30*time.Second}, simulator.Phase{Status: "Completed"})

// held returns what the ledger holds in a current period.
func (w *workshop) held(e *Engine) outlier.Credits {
	w.Helper()
	now := e.Store.Clock.Now()
	held, err := e.Store.Ledger.Held(ledger.Cap{Scope: ledger.ScopeMonth, Period: ledger.Cycle(now, w.config.Timezone, w.config.Budget.Renews)})
	if err != nil {
		w.Fatal(err)
	}
	return held
}

// inspect opens an engine without sinks for a function, which performs no run. Opening them takes most of the CPU.
func (w *workshop) inspect(look func(e *Engine)) {
	w.Helper()
	bare := w.bare
	w.bare = true
	e, stop := w.open()
	w.bare = bare
	defer stop()
	look(e)
}

// withSinks opens an engine for a function.
func (w *workshop) withSinks(use func(e *Engine)) {
	w.Helper()
	e, stop := w.open()
	defer stop()
	use(e)
}

// started returns the scans that the service has started, with or without a received answer.
func (w *workshop) started() (ids []string) {
	for _, call := range w.service.Books().Calls {
		if call.Scan != "" {
			ids = append(ids, call.Scan)
		}
	}
	return ids
}

// TestScanReadingStaysWithinHold: the scan is polled with back-off, the price of reading is held together
// with its own, and the unused part is released at the end.
func TestScanReadingStaysWithinHold(t *testing.T) {
	t.Parallel()
	file := strings.Replace(scanFile, "pages: 3", "pages: 3, where: {z_score: 9..}", 1)
	bare(t, file, func(w *workshop) {
		w.renew(anHour)
		e, stop := w.open()
		defer stop()
		var polls []time.Duration
		began := time.Now()
		w.wire = nil
		e.Client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/scan/") {
				polls = append(polls, time.Since(began))
				if held := w.held(e); held != 56 {
					t.Errorf("%d credits are held while the scan runs, want 50 for it and 6 for reading it", held)
				}
			}
			return w.service.Transport().RoundTrip(r)
		})
		row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		if err != nil || row.Status != runs.OK {
			t.Fatalf("status %s, error %v", row.Status, err)
		}
		want := []time.Duration{1, 3, 7, 15, 25, 35, 45, 55, 65}
		for i := range want {
			want[i] *= time.Minute
		}
		if diff := cmp.Diff(want, polls); diff != "" {
			t.Errorf("polls after the start (-want +got):\n%s", diff)
		}
		if held, spent := w.held(e), w.spent(); held != spent || held >= 56 || held <= 50 || row.Credits != spent {
			t.Errorf("%d credits are held at the end, the run says %d and the service charged %d; want the same, and less than the 56 that were set aside",
				held, row.Credits, spent)
		}
		for _, call := range w.service.Books().Calls {
			if call.Op == outlier.OpSearch && !strings.Contains(call.Identity, "referenceId="+w.started()[0]) {
				t.Errorf("read by %s", call.Identity)
			}
		}
	})
}

// TestScanIsStartedOnceWhateverHappens kills the process at every call of a run, at each of four points,
// and continues with another process. A user must resolve the scan only if it is unknown what the service
// did, even if a second search joins the first one's scan. One of the two files and one of the four
// points are tested, at random, and all with -long.
func TestScanIsStartedOnceWhateverHappens(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("kills at every moment")
	}
	random := testenv.Random(t)
	chosen := random.IntN(2)
	for i, want := range []struct {
		file    string
		pages   int64
		credits outlier.Credits
	}{{scanFile, 3, 56}, {sharedScanFile, 4, 58}} {
		if i != chosen && !*long {
			continue
		}
		moments := []moment{beforePace, beforeDial, beforeSend, beforeAnswer}
		if !*long {
			random.Shuffle(len(moments), func(i, k int) { moments[i], moments[k] = moments[k], moments[i] })
			moments = moments[:1]
		}
		for _, when := range moments {
			t.Run(fmt.Sprint(want.pages, " pages ", when), func(t *testing.T) {
				for n, hit := 0, true; hit; n++ {
					bare(t, want.file, func(w *workshop) {
						w.renew(anHour)
						if hit = w.kill(n, when); hit {
							w.recovers(n == 0 && (when == beforeSend || when == beforeAnswer), want.pages, want.credits)
						}
					})
					if n > 20 {
						t.Fatal("the run has no end")
					}
				}
			})
		}
	}
}

// recovers continues a killed run to its end, and if necessary resolves its scan like a user.
func (w *workshop) recovers(unknown bool, pages int64, credits outlier.Credits) {
	w.Helper()
	row, err := w.run()
	if unknown {
		unsettled, ok := errors.AsType[*UnsettledScanError](err)
		if !ok || row.Status != runs.Failed || row.Credits != 50 {
			w.Fatalf("status %s with %d credits, error %v; want an *UnsettledScanError and the 50 held",
				row.Status, row.Credits, err)
		}
		w.settle(unsettled.Scan.Intent)
		row, err = w.run()
	}
	if err != nil || row.Status != runs.OK || row.Pages != pages || len(w.started()) != 1 {
		w.Fatalf("status %s, error %v, %d pages and %d scans; want %d pages of one scan",
			row.Status, err, row.Pages, len(w.started()), pages)
	}
	w.inspect(func(e *Engine) {
		if held, spent := w.held(e), w.spent(); spent != credits || held < spent || held > spent+2 {
			w.Errorf("the service charged %d credits and %d are held; want %d, and at most a page more held",
				spent, held, credits)
		}
	})
}

// settle resolves an unconfirmed scan like a user, depending on whether the service has it.
func (w *workshop) settle(intent int64) {
	w.Helper()
	w.withSinks(func(e *Engine) {
		var err error
		if ids := w.started(); len(ids) > 0 {
			_, err = e.AdoptScan(w.ctx, ids[0], 0)
		} else {
			_, err = e.Store.Scans.Settle(intent, runs.Scan{State: runs.ScanNotCreated})
		}
		if err != nil {
			w.Fatal(err)
		}
	})
}

// TestUnconfirmedScanIsNeverRepeated: a lost answer to POST /scan may have cost 50 credits, so its price
// stays held, and every further run reports it and sends nothing.
func TestUnconfirmedScanIsNeverRepeated(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	bare(t, strings.Replace(scanFile, "scan:\n", "every: 24h\n    scan:\n", 1), func(w *workshop) {
		w.renew(anHour)
		w.service.FailNext(outlier.OpStartScan, simulator.DropAnswer)
		rows := w.serve(3*24*time.Hour + time.Hour)
		if calls := w.calls(outlier.OpStartScan); calls != 1 || len(rows) != 3 {
			t.Errorf("%d calls and %d runs in three days, want 1 call until a person has looked, and a record for each day",
				calls, len(rows))
		}
		for _, run := range rows {
			if run.Status != runs.Failed || !strings.Contains(run.Error, "scan adopt") || !strings.Contains(run.Error, "--not-created") {
				t.Errorf("status %s, error %q; want a failure that says what to do", run.Status, run.Error)
			}
		}
		w.withSinks(func(e *Engine) {
			if held := w.held(e); held != 56 {
				t.Errorf("%d credits are held, want 56", held)
			}
			if _, err := e.AdoptScan(w.ctx, "11111111-2222-4333-8444-555555555555", 0); err == nil {
				t.Error("a scan that the service does not know was adopted")
			}
		})
		w.settle(0)
		before := len(rows)
		if rows = w.serve(time.Hour); len(rows) != before || rows[0].Status != runs.OK || rows[0].Pages != 3 {
			t.Errorf("%d runs, the last %s with %d pages; want the run to go on with the adopted scan",
				len(rows), rows[0].Status, rows[0].Pages)
		}
	})
}

// TestScanSurvivesTruncatedStartAnswer: it is read, because the part of the compressed answer that arrived
// has its id.
func TestScanSurvivesTruncatedStartAnswer(t *testing.T) {
	t.Parallel()
	bare(t, scanFile, func(w *workshop) {
		w.renew(anHour)
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := w.service.Transport().RoundTrip(r)
			if err != nil || r.Method != http.MethodPost {
				return answer, err
			}
			body, err := io.ReadAll(answer.Body)
			packed := string(outlier.Pack(body))
			cut := page(http.StatusOK, "application/json", packed[:len(packed)*3/4])
			cut.Header.Set("Content-Encoding", "gzip")
			return cut, err
		})
		if row, err := w.run(); err != nil || row.Status != runs.OK || row.Pages != 3 || len(w.started()) != 1 {
			t.Errorf("run %+v, error %v, %d scans started; want one that was read", row, err, len(w.started()))
		}
	})
}

// naming answers the next start of a scan with the record of a known scan.
func naming(wire http.RoundTripper, id, query string) http.RoundTripper {
	named := false
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if named || r.Method != http.MethodPost {
			return wire.RoundTrip(r)
		}
		named = true
		connect(r)
		return page(http.StatusOK, "application/json", fmt.Sprintf(`{"id":%q,"status":"Running","query":[%q]}`, id, query)), nil
	})
}

// TestStartJoinsRecordedScan if the service answers with it: a service may start no second equal scan, or
// answer from a cache. The price of that start is unknown, so it counts as charged.
func TestStartJoinsRecordedScan(t *testing.T) {
	t.Parallel()
	bare(t, strings.Replace(scanFile, "per_run: 60", "per_run: 120", 1), func(w *workshop) {
		w.renew(anHour)
		w.mustRun(runs.OK)
		w.wire = naming(w.service.Transport(), w.started()[0], "espresso machine repair")
		row, err := w.runOf("niche", 12*time.Hour, job.Overrides{Again: true})
		if err != nil || row.Status != runs.OK || row.Pages != 3 || row.Credits != 56 || len(w.started()) != 1 {
			t.Errorf("run %+v, error %v, %d scans started; want the first one read once more",
				row, err, len(w.started()))
		}
		w.inspect(func(e *Engine) {
			if scans, err := e.Store.Scans.List(); err != nil || scans[0].State != runs.ScanNotCreated || scans[0].ScanID != "" {
				t.Errorf("on record is %+v (%v), want that no second one was created", scans[0], err)
			}
			if held := w.held(e); held != 112 {
				t.Errorf("%d credits are held, want two starts and six pages", held)
			}
		})
	})
}

// TestMismatchedStartAnswerAwaitsUser: if the service answers with another scan, it is unknown whether the
// requested one was started.
func TestMismatchedStartAnswerAwaitsUser(t *testing.T) {
	t.Parallel()
	const other = "  other: {scan: {query: [latte art], read: {pages: 3}}, budget: {per_run: 120}}\n"
	bare(t, scanFile+other, func(w *workshop) {
		w.renew(anHour)
		w.mustRun(runs.OK)
		w.wire = naming(w.service.Transport(), w.started()[0], "espresso machine repair")
		for range 2 { // the second run sends nothing
			row, err := w.runOf("other", 12*time.Hour, job.Overrides{})
			if err == nil || row.Status != runs.Failed || row.Pages != 0 || len(w.started()) != 1 ||
				!strings.Contains(row.Error, "scan resolve --not-created 2") || strings.Contains(row.Error, "UNIQUE") {
				t.Errorf("run %+v, error %v, %d scans started; want a failure that says what to do",
					row, err, len(w.started()))
			}
			if !strings.Contains(row.Error, w.started()[0]) {
				w.wire = w.service.Transport()
			}
		}
		w.inspect(func(e *Engine) {
			if refunded, err := e.Store.Scans.Settle(2, runs.Scan{State: runs.ScanNotCreated}); err != nil || refunded != 0 {
				t.Errorf("%d credits are refunded (%v), want none: the service has answered", refunded, err)
			}
		})
		if row, err := w.runOf("other", 12*time.Hour, job.Overrides{}); err != nil || row.Status != runs.OK || len(w.started()) != 2 {
			t.Errorf("run %+v, error %v; want the scan to be started after the word", row, err)
		}
	})
}

// TestScanEndsWithFailureReason: a record with a status and an error is not an error of the request.
func TestScanEndsWithFailureReason(t *testing.T) {
	t.Parallel()
	bare(t, scanFile, func(w *workshop) {
		w.renew(anHour)
		polls := 0
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			id, polled := strings.CutPrefix(r.URL.Path, "/scan/")
			if !polled {
				return w.service.Transport().RoundTrip(r)
			}
			polls++
			connect(r)
			return page(http.StatusOK, "application/json", fmt.Sprintf(`{"id":%q,"status":"Failed","error":{"message":"no such topic"}}`, id)), nil
		})
		row, err := w.run()
		if err == nil || row.Status != runs.Failed || !strings.Contains(row.Error, "ended as Failed") || row.Credits != 50 || polls != 1 {
			t.Errorf("after %d polls: run %+v, error %v; want the scan to have failed with the first", polls, row, err)
		}
	})
}

// TestAnswerAboutAnotherScanEndsNone: nothing is read, and the scan is still waited for.
func TestAnswerAboutAnotherScanEndsNone(t *testing.T) {
	t.Parallel()
	bare(t, scanFile, func(w *workshop) {
		w.renew(anHour)
		mixed := 0
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			if mixed == 3 || !strings.HasPrefix(r.URL.Path, "/scan/") {
				return w.service.Transport().RoundTrip(r)
			}
			mixed++
			connect(r)
			return page(http.StatusOK, "application/json", `{"id":"11111111-2222-4333-8444-555555555555","status":"Completed","query":["tea"]}`), nil
		})
		began := time.Now()
		row := w.mustRun(runs.OK)
		if row.Pages != 3 || row.Credits != 56 || mixed != 3 || time.Since(began) < time.Hour {
			t.Errorf("after %s and %d answers about another scan: run %+v; want the scan's results when it has ended",
				time.Since(began), mixed, row)
		}
		w.inspect(func(e *Engine) {
			if _, err := e.PollScan(w.ctx, w.started()[0]); err != nil {
				t.Error(err)
			}
			mixed = 0
			if _, err := e.PollScan(w.ctx, w.started()[0]); err == nil || !strings.Contains(err.Error(), "with scan 11111111") {
				t.Errorf("error %v, want that the answer is about another scan", err)
			}
		})
	})
}

// TestProvablyRefusedScanIsRetried: the documented error proves that nothing was started and nothing charged.
func TestProvablyRefusedScanIsRetried(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	for _, test := range []struct {
		fault simulator.Fault
		times int
		first runs.Status
	}{
		{simulator.ServerError, 1, runs.OK},
		{simulator.RateLimited, 1, runs.OK},
		{simulator.Unreachable, 2, runs.OK},
		{simulator.ServerError, plan.Attempts, runs.Failed},
		{simulator.Unreachable, plan.Attempts, runs.Failed},
	} {
		t.Run(fmt.Sprint(test.times, " ", test.fault), func(t *testing.T) {
			bare(t, scanFile, func(w *workshop) {
				w.renew(anHour)
				for range test.times {
					w.service.FailNext(outlier.OpStartScan, test.fault)
				}
				row, err := w.run()
				if row.Status != test.first {
					t.Fatalf("status %s, error %v, want %s", row.Status, err, test.first)
				}
				if test.first == runs.Failed {
					w.inspect(func(e *Engine) {
						if held := w.held(e); held != 0 {
							t.Errorf("%d credits are held for a scan that provably was not started", held)
						}
					})
					row = w.mustRun(runs.OK)
				}
				if spent := w.spent(); spent != 56 || row.Credits != 56 || len(w.started())-len(w.refunded()) != 1 {
					t.Errorf("charged %d, booked %d, started %d; want 56, 56 and 1",
						spent, row.Credits, len(w.started()))
				}
			})
		})
	}
}

// refunded returns the scans that the service reports as not started.
func (w *workshop) refunded() (ids []string) {
	for _, call := range w.service.Books().Calls {
		if call.Scan != "" && call.Refunded > 0 {
			ids = append(ids, call.Scan)
		}
	}
	return ids
}

// TestUnsuccessfulScanFailsRun, whether it failed, was terminated or passed its deadline, and the price of
// reading is refunded.
func TestUnsuccessfulScanFailsRun(t *testing.T) {
	t.Parallel()
	running := simulator.Phase{Status: "Running", Lasts: 20 * time.Minute}
	for _, test := range []struct {
		name   string
		course []simulator.Phase
		says   string
		stop   string
	}{
		{"Failed", []simulator.Phase{running, {Status: "Failed"}}, "ended as Failed", runs.StopScanFailed},
		{"Terminated at once", []simulator.Phase{{Status: "Terminated"}}, "ended as Terminated", runs.StopScanFailed},
		{"going on in every known way", []simulator.Phase{running, {Status: "Suspended", Lasts: time.Hour}, {Status: "ContinuedAsNew", Lasts: time.Hour}, {Status: "Running"}}, "within 6h", runs.StopDeadline},
	} {
		t.Run(test.name, func(t *testing.T) {
			bare(t, scanFile, func(w *workshop) {
				w.renew(course(test.course...))
				row, err := w.run()
				if err == nil || row.Status != runs.Failed || !strings.Contains(err.Error(), test.says) {
					t.Fatalf("status %s, error %v; want a failure that says %q", row.Status, err, test.says)
				}
				if w.calls(outlier.OpSearch) > 0 {
					t.Error("results were read of a scan that has none")
				}
				w.inspect(func(e *Engine) {
					if held := w.held(e); held != 50 {
						t.Errorf("%d credits are held, want the 50 of the scan alone", held)
					}
					steps, err := e.Store.Steps.OfRun(row.ID)
					if err != nil || steps[0].Stop != test.stop {
						t.Errorf("steps %+v, error %v; want stop %q", steps, err, test.stop)
					}
				})
			})
		})
	}
}

// TestScanPastItsDeadlineStaysReadable: a later run finds its results.
func TestScanPastItsDeadlineStaysReadable(t *testing.T) {
	t.Parallel()
	bare(t, scanFile, func(w *workshop) {
		w.renew(course(simulator.Phase{Status: "Running", Lasts: 7 * time.Hour}, simulator.Phase{Status: "Completed"}))
		_, err := w.run()
		if err == nil || !strings.Contains(err.Error(), "outlierd scan read "+w.started()[0]) {
			t.Fatalf("error %v; want one with the command to read it later", err)
		}
		time.Sleep(2 * time.Hour)
		w.use(strings.Replace(scanFile, "scan:\n      query: [espresso machine repair]\n      poll: 1m..10m\n      deadline: 6h\n      read: {pages: 3}",
			"search: {where: {reference_id: "+w.started()[0]+"}}", 1))
		if row := w.mustRun(runs.OK); row.Hits == 0 {
			t.Error("there is nothing to read of a scan that has ended since")
		}
	})
}

// TestOutageDoesNotEndAScan: it was paid for, so it is polled again.
func TestOutageDoesNotEndAScan(t *testing.T) {
	t.Parallel()
	for _, fault := range []simulator.Fault{simulator.Unreachable, simulator.GatewayPage, simulator.GatewayJSON, simulator.ServerError, simulator.Garbage, simulator.CutBody} {
		t.Run(fault.String(), func(t *testing.T) {
			bare(t, scanFile, func(w *workshop) {
				w.renew(anHour)
				for range 3 * plan.Attempts {
					w.service.FailNext(outlier.OpScan, fault)
				}
				if row := w.mustRun(runs.OK); row.Credits != 56 {
					t.Errorf("%d credits, want 56", row.Credits)
				}
			})
		})
	}
}

// TestScanStartsOnlyIfReadingFits: a scan that cannot be read wastes its credits.
func TestScanStartsOnlyIfReadingFits(t *testing.T) {
	t.Parallel()
	short := new(outlier.Credits(55)) // of the 56 needed; the file itself would be refused
	for name, lower := range map[string]func(*job.Config){
		"per_run":   func(c *job.Config) { c.Jobs[0].Budget.PerRun = short },
		"per_day":   func(c *job.Config) { c.Budget.PerDay = short },
		"per_month": func(c *job.Config) { c.Budget.PerMonth = short },
	} {
		t.Run(name, func(t *testing.T) {
			bare(t, scanFile, func(w *workshop) {
				lower(w.config)
				row := w.mustRun(runs.PausedBudget)
				if calls := w.service.Books().Total.Calls; calls != 0 || row.Credits != 0 || !strings.Contains(row.Error, name) {
					t.Errorf("%d calls, %d credits, error %q; want nothing sent and the name of the cap",
						calls, row.Credits, row.Error)
				}
			})
		})
	}
}

// TestForEachValuesScanSeparately: each value has its own scan, the scans run concurrently, and a failed one
// does not affect the others.
func TestForEachValuesScanSeparately(t *testing.T) {
	t.Parallel()
	file := strings.NewReplacer("[espresso machine repair]", `["${topic}"]`, "scan:\n", "for_each: {topic: [moka pot, latte art, aeropress]}\n    scan:\n", "per_run: 60", "per_run: 170").Replace(scanFile)
	bare(t, file, func(w *workshop) {
		w.renew(anHour)
		row := w.mustRun(runs.OK)
		began := w.service.Books().Calls[0].At
		if len(w.started()) != 3 || row.Pages != 9 || row.Credits != 168 || w.spent() != 168 || row.Ended.Sub(began) > 90*time.Minute {
			t.Errorf("%d scans, %d pages, %d credits, %s; want 3 scans at the same time with 3 pages each",
				len(w.started()), row.Pages, row.Credits, row.Ended.Sub(began))
		}
	})
}

// TestUnknownScanLeavesTheOthersAlone: they were paid for, so the run waits for them and reads them.
func TestUnknownScanLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	file := strings.NewReplacer("[espresso machine repair]", `["${topic}"]`, "scan:\n", "for_each: {topic: [moka pot, latte art]}\n    scan:\n", "per_run: 60", "per_run: 120").Replace(scanFile)
	bare(t, file, func(w *workshop) {
		w.renew(anHour)
		w.service.FailNext(outlier.OpStartScan, simulator.CutBody)
		w.service.FailNext(outlier.OpStartScan, simulator.DropAnswer)
		row, err := w.run()
		unsettled, ok := errors.AsType[*UnsettledScanError](err)
		if !ok || row.Status != runs.Failed || len(w.started()) != 2 || row.Pages != 3 {
			t.Fatalf("status %s, error %v, %d scans and %d pages; want one of two scans to be read",
				row.Status, err, len(w.started()), row.Pages)
		}
		w.withSinks(func(e *Engine) {
			if _, err := e.AdoptScan(w.ctx, w.started()[1], 0); err != nil {
				t.Fatalf("intent %d: %v", unsettled.Scan.Intent, err)
			}
		})
		if next := w.mustRun(runs.OK); next.ID != row.ID || next.Pages != 6 || next.Credits != 112 {
			t.Errorf("run %s has %d pages for %d credits, want run %s to read the other scan too",
				next.ID, next.Pages, next.Credits, row.ID)
		}
	})
}
