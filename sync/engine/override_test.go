package engine

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/journal"
	"outlierd/sync/runs"
)

const overriddenFile = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 400}
jobs:
  weekly:
    schedule: "0 6 * * *"
    for_each: {topic: [home espresso, moka pot]}
    search: {query: "${topic}", where: {published_at: "since last success, overlap 1d, first 30d"}, pages: 2}
    enrich: {details: {top: 2}}
`

// overridden runs the first job with overrides the given number of times, and returns the last record.
func (w *workshop) overridden(times int, o job.Overrides) (row *runs.Run) {
	w.Helper()
	spec, err := w.config.Jobs[0].With(o)
	if err != nil {
		w.Fatal(err)
	}
	w.withSinks(func(e *Engine) {
		for range times {
			if row, err = e.Perform(w.ctx, &Order{Spec: &spec, Trigger: Manual, Afresh: true}); err != nil {
				w.Fatal(err)
			}
		}
	})
	return row
}

// lessons is what later runs know from earlier ones.
type lessons struct {
	Watermarks []runs.Watermark
	Paging     journal.Paging
	Forecast   forecast.Job
	Turns      []time.Time // when its searches had their turns
}

func (w *workshop) lessons() (m lessons) {
	w.Helper()
	f, _ := w.foreseen()
	m.Forecast = f.Jobs[0]
	w.withSinks(func(e *Engine) {
		var err error
		if m.Watermarks, err = e.Store.Watermarks.List(""); err != nil {
			w.Fatal(err)
		}
		if m.Paging, err = e.Store.Learned.Paging(outlier.OpSearch); err != nil {
			w.Fatal(err)
		}
		p, err := e.Facts().Plan(w.ctx, &w.config.Jobs[0], facts.Options{At: time.Now()})
		if err != nil {
			w.Fatal(err)
		}
		for _, step := range p.Steps {
			at, err := e.Store.Watermarks.LastSearched(w.config.Jobs[0].Name, step.Watermark)
			if err != nil {
				w.Fatal(err)
			}
			m.Turns = append(m.Turns, at)
		}
	})
	return m
}

// TestOverriddenRunsAffectNoLaterRuns: cursor, paging and forecast do not change, whether or not the job has
// run before.
func TestOverriddenRunsAffectNoLaterRuns(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	for name, o := range map[string]job.Overrides{
		"since":     {Since: 48 * time.Hour},
		"pages":     {Pages: 3},
		"no enrich": {NoEnrich: true},
		"again":     {Again: true},
		"set":       {Set: map[string]string{"topic": "moka pot"}},
	} {
		t.Run(name, func(t *testing.T) {
			bare(t, overriddenFile, func(w *workshop) {
				check := func(times int) {
					t.Helper()
					before := w.lessons()
					w.overridden(times, o)
					if diff := cmp.Diff(before, w.lessons(), cmp.AllowUnexported(forecast.Job{}), cmp.FilterPath(
						func(p cmp.Path) bool { return p.Last().String() == ".Changes" }, cmp.Ignore())); diff != "" {
						t.Errorf("overridden runs have changed (-before +after):\n%s", diff)
					}
				}
				check(11) // more runs than expectations are based on
				row := w.mustRun(runs.OK)
				if window := w.steps(row)[0].Window; !strings.HasPrefix(window, days(-30)) {
					t.Errorf("the first run of the job searches %s, want its first 30 days", window)
				}
				if name != "pages" && name != "again" { // whose pages are in the journal now
					check(2)
				}
			})
		})
	}
}

// TestMoveCursorAppliesToOverriddenRun: the run moves the cursor and records the paging.
func TestMoveCursorAppliesToOverriddenRun(t *testing.T) {
	t.Parallel()
	bare(t, overriddenFile, func(w *workshop) {
		w.overridden(1, job.Overrides{Since: 20 * 24 * time.Hour, MoveCursor: true})
		time.Sleep(time.Hour)
		if m := w.lessons(); len(m.Watermarks) != 2 || m.Paging.Reading == "" {
			t.Errorf("watermarks %+v, paging %q; want one for each topic, and the paging known", m.Watermarks, m.Paging)
		}
		if window := w.steps(w.mustRun(runs.OK))[0].Window; !strings.HasPrefix(window, days(-1)) {
			t.Errorf("the next run searches %s, want it to begin where that one did", window)
		}
	})
}

// TestOverriddenRunKnowsItsOwnPaging: it wastes only one page on learning it.
func TestOverriddenRunKnowsItsOwnPaging(t *testing.T) {
	t.Parallel()
	bare(t, overriddenFile, func(w *workshop) {
		row := w.overridden(1, job.Overrides{Pages: 3, Since: 300 * 24 * time.Hour})
		if calls := w.calls(outlier.OpSearch); row.Pages != 6 || calls > 7 {
			t.Errorf("%d pages in %d calls, want 6 in 7 at most", row.Pages, calls)
		}
	})
}

// TestOverriddenRunLeavesSeedsDue for the job, which has not bought them.
func TestOverriddenRunLeavesSeedsDue(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  one: {related: {video_id: [dQw4w9WgXcQ], where: {type: video}, pages: 2}}
`
	bare(t, file, func(w *workshop) {
		w.overridden(1, job.Overrides{Pages: 1})
		time.Sleep(24 * time.Hour)
		if row, err := w.run(); err != nil || row.Pages == 0 {
			t.Errorf("run %+v, error %v; want it to buy what resembles its seeds", row, err)
		}
	})
}

// TestOverriddenRunKeepsUnfinishedRun as it is, and no scheduled run continues an interrupted overridden one.
func TestOverriddenRunKeepsUnfinishedRun(t *testing.T) {
	t.Parallel()
	bare(t, overriddenFile, func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "weekly") })
		well := w.wire
		fails := func(r *http.Request) bool { return strings.Contains(r.URL.RawQuery, "moka") }
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			if fails(r) {
				return nil, errors.New("no route to host")
			}
			return well.RoundTrip(r)
		})
		first := w.serve(6*time.Hour + 10*time.Minute)
		if len(first) != 1 || first[0].Status != runs.Failed || first[0].Pages != 1 {
			t.Fatalf("runs %+v; want one that failed after a page", first)
		}
		w.wire = well
		w.overridden(1, job.Overrides{Pages: 1, Set: map[string]string{"topic": "home espresso"}})

		spec, err := w.config.Jobs[0].With(job.Overrides{Pages: 3})
		if err != nil {
			t.Fatal(err)
		}
		w.withSinks(func(e *Engine) { // a user's run, interrupted
			ctx, cancel := contextFor(w, time.Second)
			defer cancel()
			w.wire = roundTripper(func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() })
			e.Client.Transport = w.wire
			if row, err := e.Perform(ctx, &Order{Spec: &spec, Trigger: Manual, Afresh: true}); err == nil || row.Status != runs.Interrupted {
				t.Fatalf("run %+v, error %v; want it cut short", row, err)
			}
		})
		w.wire = well
		rows := w.serve(24 * time.Hour)
		if len(rows) != 4 {
			t.Fatalf("%d runs, want the failed one, two of a person, and that of the next day", len(rows))
		}
		if old := rows[0]; old.Status != runs.OK && old.Status != runs.Partial || old.Pages != 4 || !old.Due.Equal(first[0].Due) {
			t.Errorf("the failed run is %s with %d pages; want the next instant to have gone on with it",
				old.Status, old.Pages)
		}
		if mine := rows[2]; mine.Status != runs.Interrupted || !mine.Overridden {
			t.Errorf("the run that a person has cut short is %s; want it left alone", mine.Status)
		}
		if next := rows[3]; next.Status != runs.OK || next.Pages < 2 || !next.Due.Equal(first[0].Due.Add(24*time.Hour)) {
			t.Errorf("the next day's run is %s with %d pages", next.Status, next.Pages)
		}
	})
}

// cut runs spec by hand for a second, during which the service does not answer.
func (w *workshop) cut(spec *job.Spec) (row *runs.Run) {
	w.Helper()
	well := w.wire
	defer func() { w.wire = well }()
	w.wire = roundTripper(func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() })
	w.withSinks(func(e *Engine) {
		ctx, cancel := contextFor(w, time.Second)
		defer cancel()
		var err error
		if row, err = e.Run(ctx, spec, Manual, time.Time{}); err == nil || row.Status != runs.Interrupted {
			w.Fatalf("run %+v, error %v; want it cut short", row, err)
		}
	})
	return row
}

// TestEachCommandContinuesItsOwnRun: the job's own run, an overridden run, and a run with other
// overrides are different runs. The queue lists all of them.
func TestEachCommandContinuesItsOwnRun(t *testing.T) {
	t.Parallel()
	bare(t, overriddenFile, func(w *workshop) {
		spec, err := w.config.Jobs[0].With(job.Overrides{Pages: 3, Set: map[string]string{"topic": "moka pot"}})
		if err != nil {
			t.Fatal(err)
		}
		mine, own := w.cut(&spec), w.cut(&w.config.Jobs[0])
		if own.ID == mine.ID || own.Overridden || !mine.Overridden {
			t.Fatalf("the job's run is %+v after %+v; want one of its own", own, mine)
		}
		why := map[string]bool{}
		w.withSinks(func(e *Engine) {
			all, err := queueOf(e, "")
			if err != nil {
				t.Fatal(err)
			}
			for _, waits := range all {
				why[waits.Why] = true
			}
			for _, run := range []*runs.Run{own, mine} {
				if command := facts.Command(run.ID); !why["its run was interrupted; to continue it: "+command] {
					t.Errorf("the queue has %v, want the command %q", why, command)
				}
				spec, err := facts.ResumedSpec(w.config, run)
				if err != nil {
					t.Fatal(err)
				}
				if old, err := e.Facts().Continues(spec); err != nil || old == nil || old.ID != run.ID {
					t.Errorf("the job of run %s continues run %v, error %v", run.ID, old, err)
				}
			}
			with, err := w.config.Jobs[0].With(job.Overrides{Pages: 3, Set: map[string]string{"topic": "moka pot"}, MoveCursor: true})
			if err != nil {
				t.Fatal(err)
			}
			if old, err := e.Facts().Continues(&with); old != nil || err != nil {
				t.Errorf("with --move-cursor, run %+v is continued, error %v", old, err)
			}
			if row, err := e.Run(w.ctx, &spec, Manual, time.Time{}); err != nil || row.ID != mine.ID || row.Status != runs.OK {
				t.Errorf("the same overrides ran %+v, error %v; want %s", row, err, mine.ID)
			}
			if row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{}); err != nil || row.ID != own.ID || row.Status != runs.OK {
				t.Errorf("the job ran %+v, error %v; want %s", row, err, own.ID)
			}
		})
	})
}
