package engine

import (
	"context"
	"database/sql"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/runs"
)

// lockState lets another program lock the state until unlock is called.
func (w *workshop) lockState() (unlock func()) {
	w.Helper()
	db, err := sql.Open("sqlite", filepath.Join(w.data(), "state", "state.db"))
	if err != nil {
		w.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(context.Background(), `BEGIN IMMEDIATE`); err != nil {
		w.Fatal(err)
	}
	return func() {
		if err := db.Close(); err != nil {
			w.Error(err)
		}
	}
}

// lockAt locks the state when the first answer to op arrives, then calls then, and returns a function
// that unlocks the state.
func (w *workshop) lockAt(op string, then func()) (unlock func()) {
	var locked func()
	w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := w.service.Transport().RoundTrip(r)
		if strings.HasPrefix(r.URL.Path, op) && locked == nil {
			locked = w.lockState()
			then()
		}
		return answer, err
	})
	return func() {
		w.Helper()
		w.wire = w.service.Transport()
		if locked == nil {
			w.Fatalf("there was no call to %s", op)
		}
		locked()
	}
}

const lockedFile = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  coffee:
    search: {query: [home espresso]}
    enrich: {details: {top: 3}}
    reuse_for: 1m
    budget: {per_run: 2}
`

// TestReceivedAnswerWaitsForLockedState: a long write by another program costs only time.
func TestReceivedAnswerWaitsForLockedState(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"/search/outliers", "/video/"} {
		t.Run(op, func(t *testing.T) {
			bare(t, lockedFile, func(w *workshop) {
				var unlock func()
				unlock = w.lockAt(op, func() { time.AfterFunc(time.Minute, func() { unlock() }) })
				row := w.mustRun(runs.OK)
				if w.spent() != 2 || row.Credits != 2 || row.Hits == 0 || w.calls(outlier.OpDetails) != 3 {
					t.Errorf("%d credits for %d hits and %d data calls, want 2, a page and 3",
						w.spent(), row.Hits, w.calls(outlier.OpDetails))
				}
			})
		})
	}
}

// TestReceivedAnswerSurvivesAStop: a stop while the state is locked leaves the answer in a file, and
// the next process records it, whatever its age.
func TestReceivedAnswerSurvivesAStop(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		op   string
		file string
		call outlier.Operation
	}{
		{"page", "/search/outliers", lockedFile, outlier.OpSearch},
		{"page that could be reused", "/search/outliers", strings.Replace(lockedFile, "reuse_for: 1m", "reuse_for: 6h", 1), outlier.OpSearch},
		{"data call", "/video/", lockedFile, outlier.OpDetails},
		{"scan", "/scan", scanFile, outlier.OpStartScan},
	} {
		t.Run(test.name, func(t *testing.T) {
			bare(t, test.file, func(w *workshop) {
				w.renew(anHour)
				ctx, stop := context.WithCancel(w.ctx)
				unlock := w.lockAt(test.op, stop)
				e, closed := w.open()
				row, err := e.Run(ctx, &w.config.Jobs[0], Manual, time.Time{})
				files, _ := filepath.Glob(filepath.Join(w.data(), "state", "answer-*.json"))
				if err == nil || len(files) != 1 {
					t.Fatalf("the run ended with %v and the answers %v in files, want an error and one", err, files)
				}
				unlock()
				closed()

				time.Sleep(time.Hour)
				calls, spent := w.calls(test.call), w.spent()
				next := w.mustRun(runs.OK)
				if next.ID != row.ID {
					t.Errorf("run %s went on, want %s", next.ID, row.ID)
				}
				switch test.call {
				case outlier.OpDetails:
					if calls := w.calls(test.call); calls != 3 {
						t.Errorf("%d calls for 3 videos", calls)
					}
				default:
					if again := w.calls(test.call) - calls; again != 0 {
						t.Errorf("it was bought %d times more", again)
					}
				}
				if next.Hits == 0 {
					t.Error("the bought page has no hits in the table")
				}
				for _, step := range w.stepsOf(next.ID) {
					if step.Reused != 0 {
						t.Errorf("%d pages that the run bought are counted as reused, want 0", step.Reused)
					}
				}
				if bought := w.spent() - spent; test.call == outlier.OpSearch && bought != 0 || w.spent() != next.Credits {
					t.Errorf("%d credits more were spent, and the run holds %d of %d", bought, next.Credits, w.spent())
				}
			})
		})
	}
}

// stepsOf returns the steps of a run.
func (w *workshop) stepsOf(run string) []runs.Step {
	w.Helper()
	e, stop := w.open()
	defer stop()
	steps, err := e.Store.Steps.OfRun(run)
	if err != nil {
		w.Fatal(err)
	}
	return steps
}
