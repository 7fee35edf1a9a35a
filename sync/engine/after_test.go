package engine

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/sync/runs"
)

const afterFile = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 400}
jobs:
  parent: {schedule: "0 6 * * *", search: {query: [home espresso]}, enrich: {details: {top: 15}}}
  child:
    after: parent
    related:
      video_id: {sql: select video_id from outliers where last_seen_at > now() - interval 1 day order by z_score desc limit 3}
`

// TestAfterFiresWhenPagesArePublished, before their enrichment is done: the SQL of the child sees them.
func TestAfterFiresWhenPagesArePublished(t *testing.T) {
	t.Parallel()
	single(t, afterFile, func(w *workshop) {
		time.Sleep(6*time.Hour - time.Minute)
		rows := w.serve(10 * time.Minute)
		parents, children := runsOf(rows, "parent"), runsOf(rows, "child")
		if len(parents) != 1 || len(children) != 1 {
			t.Fatalf("%d parents and %d children in a morning", len(parents), len(children))
		}
		for i, child := range children {
			if parent := parents[i]; child.Status != runs.OK || child.Trigger != string(After) || !child.Due.Equal(parent.Due) || !child.Started.Before(parent.Ended) {
				t.Errorf("child %d: %s for %s, due %s, started %s; want it to begin while the parent, due %s, goes on until %s",
					i, child.Status, child.Trigger, child.Due, child.Started, parent.Due, parent.Ended)
			}
		}
		best := w.count("select count(*) from (select unnest(seeds) s from ops.searches where job = 'child') where s in (select video_id from outliers order by z_score desc limit 6)")
		if best < 3 {
			t.Errorf("%d of the seeds are among the best hits; the SQL did not see what its parent had found", best)
		}
	})
}

// TestAfterWaitsForQueriedSink: the parent succeeds with another sink, but the child's SQL would not find its
// rows yet.
func TestAfterWaitsForQueriedSink(t *testing.T) {
	t.Parallel()
	bare(t, afterFile, func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "parent") })
		time.Sleep(6*time.Hour - time.Minute)
		duck := &fakeCopy{name: "duckdb", broken: between(0, 21*time.Minute)}
		repaired := time.Now().Add(21 * time.Minute)
		rows, log := w.serveInto(20*time.Minute, duck, &fakeCopy{name: "parquet"})
		if len(runsOf(rows, "parent")) != 1 || len(runsOf(rows, "child")) != 0 {
			t.Fatalf("runs %+v; want the parent's alone", rows)
		}
		if n := strings.Count(log, "run waits"); n != 1 || !strings.Contains(log, "sink duckdb is disabled") {
			t.Errorf("%d lines say that the run waits, want 1:\n%s", n, log)
		}
		w.withSinks(func(e *Engine) {
			e.Line = w.line(duck, &fakeCopy{name: "parquet"})
			row, err := e.Run(w.ctx, w.config.Job("child"), After, rows[0].Due)
			if err == nil || !strings.Contains(err.Error(), "cannot see the rows") || row != nil {
				t.Errorf("run by hand it is %+v, error %v", row, err)
			}
		})
		rows, _ = w.serveInto(30*time.Minute, duck, &fakeCopy{name: "parquet"})
		if children := runsOf(rows, "child"); len(children) != 1 || children[0].Started.Before(repaired) {
			t.Errorf("children %+v; want one after %s", children, repaired)
		}
	})
}

// TestStoppedSeedQueryRunsAgain at the next start: a stop is not a failure, and the due time still needs a
// run.
func TestStoppedSeedQueryRunsAgain(t *testing.T) {
	t.Parallel()
	bare(t, afterFile, func(w *workshop) {
		time.Sleep(6*time.Hour - time.Minute)
		e, closeAll := w.open()
		ctx, stop := context.WithCancel(w.ctx)
		e.IDs = func(ctx context.Context, _, _ string) ([]string, error) {
			stop()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if _, err := e.Agenda(time.Now()); err != nil {
			t.Fatal(err)
		}
		e.Serve(ctx)
		closeAll()
		children := runsOf(w.serve(10*time.Minute), "child")
		if len(children) != 1 || children[0].Status != runs.OKEmpty {
			t.Errorf("runs of the child: %+v; want one, which found no seeds", children)
		}
	})
}

// TestAfterFiresOnlyOnSuccess, including that of a parent that found nothing.
func TestAfterFiresOnlyOnSuccess(t *testing.T) {
	t.Parallel()
	plain := strings.Replace(afterFile, "related:\n      video_id: {sql: select video_id from outliers where last_seen_at > now() - interval 1 day order by z_score desc limit 3}", "search: {query: [latte art]}", 1)
	for _, test := range []struct {
		name   string
		file   string
		fails  string // the path of calls of which one fails
		parent runs.Status
		fires  bool
	}{
		{"ok", plain, "", runs.OK, true},
		{"nothing found", strings.Replace(plain, "[home espresso]", "[home espresso], where: {z_score: 500..}", 1), "", runs.OKEmpty, true},
		{"partial", plain, "/video/", runs.Partial, true},
		{"a failed page", plain, "/search/", runs.Failed, false},
		{"a cap", strings.Replace(plain, "per_month: 400", "per_month: 400, per_day: 4", 1) + "  early: {schedule: \"0 5 * * *\", search: {query: [moka pot], pages: 2}}\n", "", runs.PausedBudget, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			bare(t, test.file, func(w *workshop) {
				if test.fails != "" {
					w.failOne(test.fails)
				}
				time.Sleep(5*time.Hour - time.Minute)
				rows := w.serve(2 * time.Hour)
				parents, children := runsOf(rows, "parent"), runsOf(rows, "child")
				if len(parents) != 1 || parents[0].Status != test.parent || (len(children) == 1) != test.fires {
					t.Errorf("parents %+v and %d children; want one that is %s, and a child: %t",
						parents, len(children), test.parent, test.fires)
				}
			})
		})
	}
}

// TestManualRunDoesNotFireAfter unless --with-after is given.
func TestManualRunDoesNotFireAfter(t *testing.T) {
	t.Parallel()
	bare(t, afterFile, func(w *workshop) {
		w.mustRun(runs.OK)
		if rows := w.serve(time.Hour); len(rows) != 1 {
			t.Errorf("runs %+v, want that of the parent alone", rows)
		}
	})
}

// TestAfterFiresOnceDespiteRestarts: wherever the process is stopped, the child has one run for each
// due time of its parent.
func TestAfterFiresOnceDespiteRestarts(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	file := strings.Replace(afterFile, "related:\n      video_id: {sql: select video_id from outliers where last_seen_at > now() - interval 1 day order by z_score desc limit 3}", "search: {query: [latte art], pages: 2}\n    enrich: {comments: {top: 9}}", 1)
	for _, test := range []struct {
		name string
		at   func(path string) bool // the call at which the process is stopped
	}{
		{"while the parent takes its page", func(call string) bool { return strings.Contains(call, "espresso") }},
		{"while the child takes its first page", func(call string) bool { return strings.Contains(call, "latte") && strings.Contains(call, "from=0") }},
		{"while the child takes its second page", func(call string) bool { return strings.Contains(call, "from=1") }},
		{"while the parent asks about its hits", func(call string) bool {
			return strings.Contains(call, "/video/") && !strings.Contains(call, "comments")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bare(t, file, func(w *workshop) {
				w.withSinks(func(e *Engine) { w.see(e, "parent", "child") })
				time.Sleep(6*time.Hour - time.Minute)
				stopped := errors.New("asked to stop")
				within, enough := contextFor(w, time.Hour)
				defer enough()
				ctx, cancel := context.WithCancelCause(within)
				w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
					if test.at(r.URL.String()) {
						cancel(stopped)
					}
					return w.service.Transport().RoundTrip(r)
				})
				w.serveUntil(ctx)
				if !errors.Is(context.Cause(ctx), stopped) {
					t.Fatal("there was no such call")
				}
				w.wire = w.service.Transport()
				time.Sleep(time.Minute)
				rows := w.serve(time.Hour)
				parents, children := runsOf(rows, "parent"), runsOf(rows, "child")
				if len(parents) != 1 || len(children) != 1 || parents[0].Status != runs.OK || children[0].Status != runs.OK {
					t.Errorf("runs %+v; want one of each that ended well", rows)
				}
				if spent := w.spent(); spent != 6 {
					t.Errorf("%d credits were spent, want 6", spent)
				}
			})
		})
	}
}

// TestChildStartsAfterRestart if its parent ended before: the end of the parent is recorded.
func TestChildStartsAfterRestart(t *testing.T) {
	t.Parallel()
	bare(t, strings.Replace(afterFile, "related:\n      video_id: {sql: select video_id from outliers where last_seen_at > now() - interval 1 day order by z_score desc limit 3}", "search: {query: [latte art]}", 1), func(w *workshop) {
		due := time.Date(2000, 1, 1, 6, 0, 0, 0, time.UTC)
		time.Sleep(time.Until(due))
		w.withSinks(func(e *Engine) {
			w.see(e, "child")
			if _, err := e.Run(w.ctx, w.config.Job("parent"), Scheduled, due); err != nil {
				t.Fatal(err)
			}
		})
		for range 2 {
			if children := runsOf(w.serve(time.Hour), "child"); len(children) != 1 || !children[0].Due.Equal(due) {
				t.Errorf("children %+v, want one, due %s", children, due)
			}
		}
	})
}

// TestAfterWaitsForUnfinishedChild: it fires when the unfinished run of the child has ended.
func TestAfterWaitsForUnfinishedChild(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  parent: {every: 10m, reuse_for: 1m, search: {query: [home espresso]}}
  child: {after: parent, reuse_for: 1m, search: {query: [latte art], pages: 4}, enrich: {details: {}}, budget: {per_run: 20}}
`
	bare(t, file, func(w *workshop) {
		rows := w.serve(45 * time.Minute)
		parents, children := runsOf(rows, "parent"), runsOf(rows, "child")
		if len(parents) != 4 || len(children) < 3 || children[1].Started.Before(children[0].Ended) {
			t.Fatalf("%d parents and children %+v; want the second firing to wait for the end of a run of 16 minutes",
				len(parents), children)
		}
		if last := children[len(children)-1]; !last.Due.Equal(parents[3].Due) {
			t.Errorf("the last child is due %s, want %s: each firing counts", last.Due, parents[3].Due)
		}
	})
}
