package engine

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

// TestStartReportsChangesOfTheFile since the last start, and nothing at the first one.
func TestStartReportsChangesOfTheFile(t *testing.T) {
	t.Parallel()
	const before = "version: 1\nservice: {url: \"sim://\"}\njobs:\n  coffee: {every: 1h, search: {query: tea, pages: 2}}\n  tea: {search: {query: tea}}\n"
	bare(t, before, func(w *workshop) {
		var log bytes.Buffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		start := func() string {
			w.Helper()
			log.Reset()
			w.inspect(func(e *Engine) {
				if err := NoteJobs(e.Config, e.Store.DB, e.log()); err != nil {
					w.Fatal(err)
				}
			})
			return log.String()
		}
		if said := start() + start(); said != "" {
			t.Errorf("without a change the log is %s, want nothing", said)
		}
		w.use(strings.NewReplacer("pages: 2", "pages: 3", "  tea:", "  rivals:").Replace(before))
		said := start()
		for _, want := range []string{
			`msg="job changed" job=coffee changes="pages 2 → 3"`,
			`msg="job added" job=rivals`, `msg="job removed; its data stays" job=tea`,
		} {
			if strings.Count(said, want) != 1 {
				t.Errorf("want %s once in the log:\n%s", want, said)
			}
		}
		if said := start(); said != "" {
			t.Errorf("the next start logs it again: %s", said)
		}
	})
}

// reloads runs the schedule for a while, and loads another version of the file at each of the given times
// after the start.
func (w *workshop) reloads(d time.Duration, files map[time.Duration]string) []runs.Run {
	w.Helper()
	e, stop := w.open()
	defer stop()
	if _, err := e.Agenda(time.Now()); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := contextFor(w, d)
	defer cancel()
	for at, file := range files {
		go func() {
			time.Sleep(at)
			if err := w.reload(ctx, e, file); err != nil {
				w.Errorf("reload after %s: %v", at, err)
			}
		}()
	}
	e.Serve(ctx)
	rows, err := e.Store.Runs.List(runs.Filter{}, 0)
	if err != nil {
		w.Fatal(err)
	}
	slices.Reverse(rows)
	return rows
}

// reload loads another version of the file into an engine.
func (w *workshop) reload(ctx context.Context, e *Engine, file string) error {
	none := func(string) (string, bool) { return "", false }
	config, err := job.Parse(filepath.Join(w.dir, "jobs.yaml"), []byte(file), none)
	if err != nil {
		return err
	}
	return e.Reload(ctx, config, func() {})
}

const reloadFile = `
version: 1
service: {url: "sim://", limit: 6/min}
jobs:
  coffee:
    every: 3h
    reuse_for: 1m
    search: {query: [home espresso], pages: 8}
    enrich: {details: {top: 6}}
    budget: {per_run: 20}
  later: {after: coffee, reuse_for: 1m, search: {query: [moka pot]}}
`

// TestRunContinuesAfterJobRename with the pages that it started with, and its new cap. Later runs find it by
// the new name.
func TestRunContinuesAfterJobRename(t *testing.T) {
	t.Parallel()
	bare(t, reloadFile, func(w *workshop) {
		renamed := strings.NewReplacer("  coffee:", "  espresso:\n    was: coffee", "after: coffee", "after: espresso",
			"pages: 8", "pages: 2", "per_run: 20", "per_run: 30").Replace(reloadFile)
		rows := w.reloads(6*time.Hour+10*time.Minute, map[time.Duration]string{3*time.Hour + 35*time.Second: renamed})
		got := map[string]string{}
		for _, run := range rows {
			got[fmt.Sprintf("%s due %d", run.Job, run.Due.UTC().Hour())] = fmt.Sprintf("%s, %d pages", run.Status, run.Pages)
		}
		want := map[string]string{
			"espresso due 3": "ok, 8 pages", "later due 3": "ok, 1 pages",
			"espresso due 6": "ok, 2 pages", "later due 6": "ok, 1 pages",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("runs (-want +got)\n%s", diff)
		}
		if w.calls(outlier.OpSearch) != 12 || w.calls(outlier.OpDetails) == 0 {
			t.Errorf("%d searches and %d details", w.calls(outlier.OpSearch), w.calls(outlier.OpDetails))
		}
	})
}

// TestRemovedJobFinishesItsRun, with the calls about its hits, and starts no other. A new job runs when it is
// due.
func TestRemovedJobFinishesItsRun(t *testing.T) {
	t.Parallel()
	bare(t, reloadFile, func(w *workshop) {
		other := "version: 1\nservice: {url: \"sim://\", limit: 6/min}\njobs: {tea: {every: 2h, reuse_for: 1m, search: {query: [tea]}}}\n"
		rows := w.reloads(9*time.Hour, map[time.Duration]string{3*time.Hour + 35*time.Second: other})
		if first := rows[0]; first.Job != "coffee" || first.Status != runs.OK || first.Pages != 8 || w.calls(outlier.OpDetails) != 6 {
			t.Errorf("the run under way ended as %+v, with %d details", first, w.calls(outlier.OpDetails))
		}
		if diff := cmp.Diff(map[string][]int{"coffee": {3}, "tea": {4, 6, 8}}, hours(rows)); diff != "" {
			t.Errorf("due hours of runs (-want +got)\n%s", diff)
		}
	})
}

// TestReloadedCapAppliesToUnfinishedRun at its next page.
func TestReloadedCapAppliesToUnfinishedRun(t *testing.T) {
	t.Parallel()
	bare(t, reloadFile, func(w *workshop) {
		lower := strings.Replace(reloadFile, "per_run: 20", "per_run: 14", 1)
		rows := w.reloads(4*time.Hour, map[time.Duration]string{3*time.Hour + 15*time.Second: lower})
		if rows[0].Status != runs.PausedBudget || rows[0].Credits != 14 {
			t.Errorf("the run ended as %s with %d credits, want it to stop at the new cap of 14",
				rows[0].Status, rows[0].Credits)
		}
	})
}

// TestReloadThatFailsChangesNothing: the old file stays in use.
func TestReloadThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	bare(t, reloadFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		if _, err := e.Agenda(time.Now()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := contextFor(w, 4*time.Hour)
		defer cancel()
		go func() {
			time.Sleep(time.Minute) // in virtual time: the schedule is running by then
			other := *w.config
			other.Jobs = []job.Spec{{Name: "coffee", Was: "coffee"}}
			err := e.Reload(ctx, &other, func() { t.Error("the file is used") })
			if err == nil || !strings.Contains(err.Error(), "two different names are needed") {
				t.Errorf("reload: %v", err)
			}
		}()
		e.Serve(ctx)
		if done, err := e.Store.Runs.List(runs.Filter{Job: "coffee"}, 0); err != nil || len(done) != 1 || e.Config != w.config {
			t.Errorf("%d runs, %v", len(done), err)
		}
	})
}

// TestRandomReloadsKeepDueTimes: with any number of reloads at any time, each due time of the schedules in
// force, according to a plain enumeration, has exactly one run.
func TestRandomReloadsKeepDueTimes(t *testing.T) {
	t.Parallel()
	const file = "version: 1\nservice: {url: \"sim://\", limit: 600/min}\ntimezone: Europe/Berlin\njobs:\n" +
		"  job: {%s, jitter: 20m, catch_up: all, reuse_for: 1m, search: {query: [tea], pages: 1}}\n  other%d: {search: {query: [x]}}\n"
	const lasts = 30 * time.Hour
	schedules := []string{"every: 7h", `schedule: "30 2 * * *"`, `schedule: "*/45 */3 * * *"`, "every: 50m"}
	bare(t, fmt.Sprintf(file, schedules[0], 0), func(w *workshop) {
		dice := testenv.Random(t)
		time.Sleep(time.Until(time.Date(2000, 3, 25, 6, 0, 0, 0, time.UTC))) // the clocks go forward at 1:00 of the next day
		w.withSinks(func(e *Engine) { w.see(e, "job") })
		begun, end := time.Now(), time.Now().Add(lasts)
		files, inForce := map[time.Duration]string{}, []time.Duration{0}
		specs := map[time.Duration]*job.Spec{0: &w.config.Jobs[0]}
		for n := 1; n <= 40; n++ {
			// Runs begin at whole seconds: no reload comes at the same instant as one.
			at := time.Duration(dice.Int64N(int64(lasts))).Truncate(time.Second) + 500*time.Millisecond
			files[at] = fmt.Sprintf(file, schedules[dice.IntN(len(schedules))], n)
			config, err := job.Parse("jobs.yaml", []byte(files[at]), func(string) (string, bool) { return "", false })
			if err != nil {
				t.Fatal(err)
			}
			inForce, specs[at] = append(inForce, at), &config.Jobs[0]
		}
		slices.Sort(inForce)
		inForce = append(slices.Compact(inForce), lasts)
		// A due time after the last run that may begin before the next file is loaded counts.
		var want []time.Time
		last := begun
		for i, at := range inForce[:len(inForce)-1] {
			spec, until := specs[at], begun.Add(inForce[i+1])
			for due := spec.Next(last, w.config.Timezone); spec.Begins(due, w.config.Timezone).Before(until); due = spec.Next(due, w.config.Timezone) {
				want, last = append(want, due), due
			}
		}
		var got []time.Time
		for _, run := range w.reloads(time.Until(end), files) {
			got = append(got, run.Due)
		}
		inZone := func(all []time.Time) (texts []string) {
			for _, t := range all {
				texts = append(texts, t.In(w.config.Timezone).Format(time.DateTime))
			}
			return texts
		}
		if diff := cmp.Diff(inZone(want), inZone(got)); diff != "" {
			t.Errorf("due instants (-enumerated +run)\n%s", diff)
		}
	})
}

// TestRemovedJobKeepsItsCaps: its run keeps its own cap, and that of the job's month.
func TestRemovedJobKeepsItsCaps(t *testing.T) {
	t.Parallel()
	for _, budget := range []string{"per_run: 10", "per_month: 10"} {
		file := strings.NewReplacer("per_run: 20", budget, "6/min", "1/min").Replace(reloadFile)
		bare(t, file, func(w *workshop) {
			other := "version: 1\nservice: {url: \"sim://\", limit: 1/min}\njobs: {tea: {search: {query: [tea]}}}\n"
			rows := w.reloads(4*time.Hour, map[time.Duration]string{3*time.Hour + 90*time.Second: other})
			if rows[0].Status != runs.PausedBudget || rows[0].Credits != 10 {
				t.Errorf("%s: the run ended as %s with %d credits, want 10", budget, rows[0].Status, rows[0].Credits)
			}
		})
	}
}
