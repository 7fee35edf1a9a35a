package engine

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/runs"
)

// refusing runs the only job while the database refuses the statements in when, as it would with a full
// disk.
func (w *workshop) refusing(when string) (*runs.Run, error) {
	w.Helper()
	e, stop := w.open()
	defer stop()
	w.alter(`CREATE TRIGGER refusing ` + when + ` BEGIN SELECT raise(ABORT, 'no room'); END`)
	defer w.alter(`DROP TRIGGER refusing`)
	return e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
}

// alter changes the database without the store.
func (w *workshop) alter(statement string) {
	w.Helper()
	db, err := sql.Open("sqlite", filepath.Join(w.data(), "state", "state.db"))
	if err != nil {
		w.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(w.ctx, statement); err != nil {
		w.Fatal(err)
	}
}

// TestCursorStaysBeforeUnstoredPage: the answer is in the journal but its hits are not stored, so the search
// continues with that page without buying it again.
func TestCursorStaysBeforeUnstoredPage(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		// What was left is recorded when the run ends, not with the page.
		row, err := w.refusing(`BEFORE UPDATE ON steps WHEN new.next > old.next AND new.left_pages = -1`)
		if _, ok := errors.AsType[*outlier.UnkeptError](err); !ok || row.Status != runs.Failed {
			t.Fatalf("status %s, error %v; want a run that failed with an *outlier.UnkeptError", row.Status, err)
		}
		w.inspect(func(e *Engine) {
			steps, err := e.Store.Steps.OfRun(row.ID)
			if err != nil || steps[0].Next != 0 || steps[0].Hits != 0 {
				t.Errorf("the search stands at page %d with %d hits (error %v), want it at its beginning",
					steps[0].Next, steps[0].Hits, err)
			}
		})
		next := w.mustRun(runs.OK)
		if next.ID != row.ID || next.Hits != 80 || w.spent() != 4 {
			t.Errorf("run %s ended with %d hits for %d credits, want run %s to end with 80 for 4",
				next.ID, next.Hits, w.spent(), row.ID)
		}
	})
}

// TestUnrecordedRunKeepsDueTimePending: the disk is full from half past six to seven, and a job is due in
// that time.
func TestUnrecordedRunKeepsDueTimePending(t *testing.T) {
	t.Parallel()
	bare(t, scheduledFile, func(w *workshop) {
		due := time.Now().Add(6*time.Hour + 30*time.Minute)
		room := due.Add(30 * time.Minute)
		w.inspect(func(*Engine) {
			w.alter(fmt.Sprintf(`CREATE TRIGGER refusing BEFORE INSERT ON runs WHEN new.started BETWEEN %d AND %d BEGIN SELECT raise(ABORT, 'no room'); END`,
				due.UnixMicro(), room.UnixMicro()))
		})
		for _, run := range w.serve(8 * time.Hour) {
			if run.Job != "daily" {
				continue
			}
			if late := run.Started.Sub(room); !run.Due.Equal(due) || late < 0 || late > 2*maxSleep {
				t.Errorf("run due %s, begun %s after there was room; want it begun within two minutes", run.Due, late)
			}
			return
		}
		t.Error("the job was not run at all")
	})
}

// TestUnreadableRunLeavesOthersRunning, both of its own job and of another one.
func TestUnreadableRunLeavesOthersRunning(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  broken: {every: 12h, search: {query: [home espresso], pages: 2}}
  fine: {every: 1h, search: {query: [moka pot]}}
`
	bare(t, file, func(w *workshop) {
		time.Sleep(11*time.Hour + 59*time.Minute)
		w.wire = roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") })
		w.serve(10 * time.Minute) // leaves an unfinished run of each job
		w.wire = w.service.Transport()
		w.alter(`UPDATE runs SET plan = '{"pages":"x"}' WHERE job = 'broken'`)
		rows := w.serve(12 * time.Hour)
		if fine, broken := runsOf(rows, "fine"), runsOf(rows, "broken"); len(fine) < 12 || len(broken) != 2 || broken[1].Status != runs.OK {
			t.Errorf("%d runs of the one, and of the other %+v; want 12 and one more that is well", len(fine), broken)
		}
	})
}

// TestMissingEntityIsNotRequestedForever: an answer that cannot be recorded ends the run, because the
// same call would be the next one again.
func TestMissingEntityIsNotRequestedForever(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		asked := 0
		w.wire = afterPages(w.wire, func() *http.Response {
			if asked++; asked > 20 {
				t.Fatal("the same thing is asked for again and again")
			}
			return page(http.StatusNotFound, "application/json", `{"status":"error","error":{"message":"not found"}}`)
		})
		row, err := w.refusing(`BEFORE INSERT ON freshness`)
		if err == nil || row.Status != runs.Failed || row.Missing != 0 || asked != 1 {
			t.Errorf("status %s, %d missing after %d calls, error %v; want a run that failed at the first call",
				row.Status, row.Missing, asked, err)
		}
	})
}

// TestUnrecordedScanAwaitsUser: the scan is running at the service, but its answer could not be stored.
func TestUnrecordedScanAwaitsUser(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  deep: {scan: {query: [home espresso], mode: fast, read: {pages: 2}}}
`
	bare(t, file, func(w *workshop) {
		row, err := w.refusing(`BEFORE UPDATE OF scan ON scans WHEN new.scan <> ''`)
		if _, ok := errors.AsType[*UnsettledScanError](err); !ok || row.Status != runs.Failed {
			t.Errorf("status %s, error %v; want an *UnsettledScanError", row.Status, err)
		}
		if _, err := w.run(); err == nil || w.calls(outlier.OpStartScan) != 1 {
			t.Errorf("%d scans were started, error %v; want the one to wait for a word",
				w.calls(outlier.OpStartScan), err)
		}
	})
}

// TestUnrecordedRefusalAllowsAnotherScan without a restart of the program, because it is proven that the
// service started none.
func TestUnrecordedRefusalAllowsAnotherScan(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  deep: {scan: {query: [home espresso], mode: fast, read: {pages: 2}}}
`
	bare(t, file, func(w *workshop) {
		w.service.FailNext(outlier.OpStartScan, simulator.ServerError)
		e, stop := w.open()
		defer stop()
		w.alter(`CREATE TRIGGER refusing BEFORE UPDATE OF state ON scans WHEN new.state = 'refused' BEGIN SELECT raise(ABORT, 'no room'); END`)
		row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		if _, unsettled := errors.AsType[*UnsettledScanError](err); unsettled || err == nil || row.Status != runs.Failed {
			t.Errorf("status %s, error %v; want a failure that leaves nothing unsettled", row.Status, err)
		}
		w.alter(`DROP TRIGGER refusing`)
		row, err = e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		if err != nil || row.Status != runs.OK || w.calls(outlier.OpStartScan) != 2 {
			t.Errorf("status %s after %d starts, error %v; want the second one to succeed", row.Status, w.calls(outlier.OpStartScan), err)
		}
	})
}

// TestScheduleOutlivesAFailedStart whose record could not be completed.
func TestScheduleOutlivesAFailedStart(t *testing.T) {
	t.Parallel()
	const file = "version: 1\nservice: {url: \"sim://\", limit: 600/min}\njobs:\n" +
		"  bad: {every: 1h, related: {video_id: {sql: select nothing from nowhere}}}\n  good: {every: 1h, search: {query: [tea]}}\n"
	bare(t, file, func(w *workshop) {
		w.keeping(func(e *Engine, _ func()) {
			w.alter(`CREATE TRIGGER refusing BEFORE UPDATE OF unfinished ON runs WHEN new.job = 'bad'
				BEGIN SELECT raise(ABORT, 'no room'); END`)
			time.Sleep(65 * time.Minute)
			w.alter(`DROP TRIGGER refusing`)
			bad, good := w.last(e, "bad"), w.last(e, "good")
			if bad.Status != runs.Failed || bad.InProgress() || bad.Error == "" || good.Status != runs.OK {
				t.Errorf("%+v and %+v, want a failed run and a good one", bad, good)
			}
		})
	})
}

// TestWatchFailsIfQueueingFails, and its calls are made once they can be queued.
func TestWatchFailsIfQueueingFails(t *testing.T) {
	t.Parallel()
	const file = "version: 1\nservice: {url: \"sim://\", limit: 600/min}\njobs:\n" +
		"  watch: {every: 1h, videos: {id: [AAAAAAAAAAA, BBBBBBBBBBB], fetch: details}}\n"
	bare(t, file, func(w *workshop) {
		w.keeping(func(e *Engine, _ func()) {
			w.alter(`CREATE TRIGGER refusing BEFORE INSERT ON tasks BEGIN SELECT raise(ABORT, 'no room'); END`)
			time.Sleep(time.Hour + 10*time.Minute)
			first := w.last(e, "watch")
			w.alter(`DROP TRIGGER refusing`)
			if first.Status != runs.Failed || !strings.Contains(first.Error, "no room") {
				t.Errorf("%+v, want a failed run that says why", first)
			}
			time.Sleep(time.Hour)
			if w.calls(outlier.OpDetails) == 0 {
				t.Error("no call is made afterwards")
			}
		})
	})
}
