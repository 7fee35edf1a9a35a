package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

const changingFile = `
version: 1
service: {url: "sim://", limit: 600/min, paging: page}
jobs:
  one:
    for_each: {topic: [go, ski]}
    search: {query: ["${topic}"], pages: 1, where: {z_score: 2.., published_at: WINDOW}}
    enrich: {details: {top: 2}, transcript: {top: 1}}
`

// changes returns the changes of the only job in the forecast.
func (w *workshop) changes() (changes []string) {
	w.Helper()
	w.inspect(func(e *Engine) {
		f, err := forecasts(e).Forecast(w.ctx)
		if err != nil || f.Jobs[0].Problem != "" {
			w.Fatal(err, f.Jobs[0].Problem)
		}
		changes = f.Jobs[0].Changes
	})
	return changes
}

// TestChangesSinceTheLastRun of the file's settings, and not of dates that move with every run.
func TestChangesSinceTheLastRun(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	for name, test := range map[string]struct {
		window, from, to string
		want             []string
	}{
		"nothing":          {window: `"since last success, overlap 3d, first 9d"`},
		"a number of days": {"last 30d", "last 30d", "last 300d", []string{"where.published_at last 30d → last 300d"}},
		"the overlap of a window since the last success": {`"since last success, overlap 14d, first 30d"`, "overlap 14d, first 30d", "overlap 60d, first 90d",
			[]string{"where.published_at since last success, overlap 14d, first 30d → since last success, overlap 60d, first 90d"}},
		"dates":     {"1999-11-01..1999-11-30", "..1999-11-30", "..1999-12-31", []string{"where.published_at 1999-11-01..1999-11-30 → 1999-11-01..1999-12-31"}},
		"no window": {"last 2d", ", published_at: last 2d", "", []string{"where.published_at last 2d → not set"}},
		"pages":     {"last 2d", "pages: 1", "pages: 9", []string{"pages 1 → 9"}},
		"enrichment": {"last 2d", "{details: {top: 2}, transcript: {top: 1}}", "{details: {top: 5}, comments: {}}", []string{
			"enrich.comments not set → {}",
			"enrich.details.top 2 → 5",
			"enrich.transcript.top 1 → not set",
		}},
		"a rule to stop by": {"last 2d", "pages: 1", "pages: 1, stop_when: {new_below: 7%}", []string{"stop_when.new_below not set → 7%"}},
		"a filter":          {"last 2d", "z_score: 2..", "z_score: 3..", []string{"where.z_score 2.. → 3..; 'cursor reset' searches earlier dates again"}},
		"a search":          {"last 2d", "[go, ski]", "[go, chess]", []string{"for_each.topic [go, ski] → [go, chess]"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := strings.Replace(changingFile, "WINDOW", test.window, 1)
			bare(t, file, func(w *workshop) {
				w.mustRun(runs.OK)
				time.Sleep(40 * day)
				w.mustRun(runs.OK)
				time.Sleep(50 * day)
				w.use(strings.Replace(file, test.from, test.to, 1))
				if diff := cmp.Diff(test.want, w.changes()); diff != "" {
					t.Errorf("changes (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestChangesIncludePriceOfStartingOver: that of a new search, and of one whose cursor was reset.
func TestChangesIncludePriceOfStartingOver(t *testing.T) {
	t.Parallel()
	file := strings.Replace(changingFile, "WINDOW", "since last success", 1)
	bare(t, file, func(w *workshop) {
		w.mustRun(runs.OK)
		w.use(strings.NewReplacer("[go, ski]", "[go, chess]", "pages: 1", "pages: 9").Replace(file))
		if got, want := w.changes(), `search ["chess"] for "chess" starts from the beginning, at most 18 credits`; len(got) != 3 || got[2] != want {
			t.Errorf("the plan says %q, want %q", got, want)
		}
		w.use(file)
		w.inspect(func(e *Engine) {
			if _, err := e.Store.Watermarks.Reset("one"); err != nil {
				t.Fatal(err)
			}
		})
		want := []string{
			`search ["go"] for "go" starts from the beginning, at most 2 credits`,
			`search ["ski"] for "ski" starts from the beginning, at most 2 credits`,
		}
		if diff := cmp.Diff(want, w.changes()); diff != "" {
			t.Errorf("after a reset the plan says (-want +got):\n%s", diff)
		}
	})
}

// TestManyNewSearchesAreCounted, and the first ones named.
func TestManyNewSearchesAreCounted(t *testing.T) {
	t.Parallel()
	file := strings.Replace(changingFile, "WINDOW", "since last success", 1)
	bare(t, file, func(w *workshop) {
		w.mustRun(runs.OK)
		w.use(strings.Replace(file, "[go, ski]", "[a, b, c, d, e, f, g, h, i, j]", 1))
		got := w.changes()
		if want := "and 2 more start from the beginning"; len(got) != 10 || got[9] != want {
			t.Errorf("the plan says %q, want 10 changes, of which the last is %q", got, want)
		}
	})
}

// TestSingleSearchRunChangesNothing: the other searches keep their cursors.
func TestSingleSearchRunChangesNothing(t *testing.T) {
	t.Parallel()
	bare(t, strings.Replace(changingFile, "WINDOW", "since last success", 1), func(w *workshop) {
		w.mustRun(runs.OK)
		time.Sleep(day)
		w.inspect(func(e *Engine) {
			ski, err := w.config.Job("one").With(job.Overrides{Set: map[string]string{"topic": "ski"}})
			if err != nil {
				t.Fatal(err)
			}
			if row, err := e.Run(w.ctx, &ski, Manual, time.Time{}); err != nil || row.Status != runs.OK {
				t.Fatal(row, err)
			}
		})
		if got := w.changes(); len(got) != 0 {
			t.Errorf("changes %q, want none", got)
		}
	})
}

func TestScanFilterChangesAreListed(t *testing.T) {
	t.Parallel()
	file := strings.Replace(scanFile, "pages: 3", `pages: 3, where: {z_score: 2.., published_at: last 9d}`, 1)
	bare(t, file, func(w *workshop) {
		w.renew(anHour)
		w.mustRun(runs.OK)
		w.use(strings.NewReplacer("2..", "3..", "last 9d", "last 8d").Replace(file))
		want := []string{
			"read.where.published_at last 9d → last 8d",
			"read.where.z_score 2.. → 3..; 'cursor reset' searches earlier dates again",
		}
		if diff := cmp.Diff(want, w.changes()); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	})
}

// TestOverriddenRunsAreNotCompared: the overrides of one run are not changes of the file, whether or not
// the run has ended.
func TestOverriddenRunsAreNotCompared(t *testing.T) {
	t.Parallel()
	file := strings.Replace(changingFile, "WINDOW", "last 9d", 1)
	once := job.Overrides{Pages: 4, NoEnrich: true, Again: true}
	bare(t, file, func(w *workshop) {
		w.mustRun(runs.OK)
		w.performed(once, "one")
		if got := w.changes(); len(got) != 0 {
			t.Errorf("after an overridden run: changes %q, want none", got)
		}
		w.use(strings.Replace(file, "pages: 1", "pages: 2", 1))
		if diff := cmp.Diff([]string{"pages 1 → 2"}, w.changes()); diff != "" {
			t.Errorf("after an edit: changes (-want +got):\n%s", diff)
		}
		w.use(file)
		ctx, stop := context.WithCancel(w.ctx)
		defer stop()
		w.wire = stopAtSearch(w.service.Transport(), 1, stop)
		w.inspect(func(e *Engine) {
			spec, err := w.config.Job("one").With(once)
			if err != nil {
				t.Fatal(err)
			}
			if row, err := e.Run(ctx, &spec, Manual, time.Time{}); err == nil || row.Status != runs.Interrupted {
				t.Fatalf("run %v, error %v; want it interrupted", row, err)
			}
			f, err := forecasts(e).Forecast(w.ctx)
			if err != nil || f.Jobs[0].Continues != "" || len(f.Jobs[0].Changes) > 0 {
				t.Errorf("with an unfinished overridden run: %+v, error %v; want a new run without changes", f, err)
			}
		})
	})
}
