package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/schema"
	"outlierd/sync/runs"
)

// day is a day without a clock change.
const day = 24 * time.Hour

// design returns the job file that shows all features, with some phrases replaced by others.
func design(t *testing.T, replaced ...string) string {
	t.Helper()
	text, err := os.ReadFile("../job/testdata/design.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := string(text)
	for i := 0; i < len(replaced); i += 2 {
		if !strings.Contains(file, replaced[i]) {
			t.Fatalf("the design does not say %q any more", replaced[i])
		}
		file = strings.ReplaceAll(file, replaced[i], replaced[i+1])
	}
	return file
}

// wide makes coffee's searches find more than a page, each with different results. The simulator's
// library is small: the searches of the design itself find only a few videos, the same ones for all
// topics.
var wide = []string{
	"[home espresso, moka pot, latte art]", "[home espresso, sourdough, cycling]",
	"overlap 14d, first 30d", "overlap 500d, first 500d",
	"view_count: 50000..", "view_count: 1000..",
}

// played has the results of a period: the runs, oldest first, their searches, and the results of SQL with
// their times.
type played struct {
	runs  []runs.Run
	steps map[string][]runs.Step // by run
	found []finding
}

// finding is a result of SQL.
type finding struct {
	at  time.Time
	sql string
	ids []string
}

// attend is [workshop.serve] and also records results in p.
func (w *workshop) attend(d time.Duration, p *played) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, d)
	defer cancel()
	e, stop := w.open()
	defer stop()
	e.IDs = func(ctx context.Context, sql, column string) ([]string, error) {
		ids, err := w.seeds(ctx, sql, column)
		p.found = append(p.found, finding{time.Now(), sql, ids})
		return ids, err
	}
	_, err := e.Agenda(time.Now())
	if err != nil {
		w.Fatal(err)
	}
	e.Serve(ctx)
	if p.runs, err = e.Store.Runs.List(runs.Filter{}, 0); err != nil {
		w.Fatal(err)
	}
	slices.Reverse(p.runs)
	p.steps = map[string][]runs.Step{}
	for _, run := range p.runs {
		if p.steps[run.ID], err = e.Store.Steps.OfRun(run.ID); err != nil {
			w.Fatal(err)
		}
	}
}

// play runs the jobs of the design for some days: its schedules like `up`, and its scan once, by hand,
// while `up` is stopped.
func (w *workshop) play(days int) *played {
	w.Helper()
	w.withSinks(func(e *Engine) { w.see(e, "coffee", "rivals", "keep-fresh", "rising-channels") })
	end := time.Now().Add(time.Duration(days) * day)
	var p played
	w.attend(time.Duration(days/2)*day+11*time.Hour, &p)
	w.withSinks(func(e *Engine) {
		if _, err := e.Run(w.ctx, w.config.Job("niche-scan"), Manual, time.Time{}); err != nil {
			w.Errorf("the scan: %v", err)
		}
	})
	w.attend(time.Until(end), &p)
	return &p
}

// isPlayed reports whether one of the longest tests is run. All are with -long, and otherwise one, at random.
func isPlayed(t *testing.T) bool { return *long || t.Name() == longestPlayed() }

var longestPlayed = sync.OnceValue(func() string {
	all := []string{"TestMonthOfTheDesign", "TestMonthOfMoney", "TestMonthOfAuto", "TestWeeksWithQuietHours", "TestPagingUnitChangesNoResults"}
	return all[testenv.Seed()%uint64(len(all))]
})

// TestMonthOfTheDesign: every job of the design succeeds, whatever its kind, and the ledger agrees with
// the service. If it is chosen by [isPlayed], one of the two weeks is run, at random, and both and the whole
// month with -long.
func TestMonthOfTheDesign(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays a month")
	}
	if !isPlayed(t) {
		t.Skip("another long test was chosen at random")
	}
	month := map[string]int{"coffee": 9, "lookalikes": 9, "niche-scan": 1, "rivals": 93, "keep-fresh": 5, "rising-channels": 1}
	inFiveDays := map[string]int{"coffee": 2, "lookalikes": 2, "niche-scan": 1, "rivals": 5, "keep-fresh": 1} // from a Sunday on
	daily := []string{"0 */8 * * *", "0 8 * * *"}                                                             // rivals
	week := testenv.Random(t).IntN(2)
	for i, test := range []struct {
		name    string
		file    string
		seed    uint64
		from    int // January
		days    int
		both    bool // sinks
		paged   bool // searches have more than one page
		ended   map[string]int
		overlap int
		first   int
	}{
		{name: "a month", file: design(t), seed: 24, from: 1, days: 31, ended: month, overlap: 14, first: 30},
		{name: "a week in which there is little", file: design(t, daily...), seed: 36, from: 2, days: 5, ended: inFiveDays, overlap: 14, first: 30},
		{name: "a week in which there is much", seed: 1, from: 2, days: 5, both: true, paged: true, ended: inFiveDays, overlap: 500, first: 500,
			// stop_when is evaluated from page two on, so it cannot end a search of two pages early.
			file: design(t, slices.Concat(wide, daily, []string{"    pages: 2 ", "    pages: 3 ", "per_run: 12", "per_run: 20"})...)},
	} {
		if i != 1+week && !*long {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			bubble(t, test.file, func(w *workshop) {
				time.Sleep(time.Duration(test.from-1) * day)
				w.single = !test.both
				w.renew(simulator.Options{Seed: test.seed})
				p := w.play(test.days)
				ended := map[string]int{}
				for i, run := range p.runs {
					ended[run.Job]++
					if want := p.deserves(i); run.Status != want {
						t.Errorf("%s of %s ended as %s, want %s: %s", run.Job, run.Started, run.Status, want, run.Error)
					}
				}
				if diff := cmp.Diff(test.ended, ended); diff != "" {
					t.Errorf("runs by job (-want +got):\n%s", diff)
				}
				w.windowsFollow(p, test.first, test.overlap)
				w.booksAgree()
				second, known := p.ends()
				if test.paged && (second == 0 || known == 0) {
					t.Errorf("%d searches of coffee took page two, and stop_when ended %d", second, known)
				}
				if test.both {
					w.sinksAgree()
				}
				t.Logf("%d calls, %d credits, %d videos, %d searches with a page two, %d ended by stop_when",
					w.service.Books().Total.Calls, w.spent(), w.count("select count(*) from outliers"), second, known)
			})
		})
	}
}

// deserves returns how a run must have ended: it is empty only if the service had nothing for any of its
// searches, or SQL found no seed that is due.
func (p *played) deserves(i int) runs.Status {
	run := p.runs[i]
	switch run.Job {
	case "rivals":
		return runs.OK
	case "keep-fresh":
		if len(p.answer(run, "limit 200")) > 0 {
			return runs.OK
		}
		return runs.OKEmpty
	case "lookalikes":
		if seeds := p.answer(run, "limit 5"); len(seeds) == 0 || p.boughtBefore(i, seeds) {
			return runs.OKEmpty
		}
	}
	for _, step := range p.steps[run.ID] {
		if step.Total > 0 {
			return runs.OK
		}
	}
	return runs.OKEmpty
}

// answer returns the result of the SQL with these words when a run began.
func (p *played) answer(run runs.Run, words string) (ids []string) {
	for _, f := range p.found {
		if strings.Contains(f.sql, words) && !f.at.After(run.Started.Add(time.Second)) {
			ids = f.ids
		}
	}
	return ids
}

// boughtBefore reports whether the job of a run has bought the same set of seeds within
// the 14 days of its refresh_after.
func (p *played) boughtBefore(i int, seeds []string) bool {
	run, same := p.runs[i], slices.Sorted(slices.Values(seeds))
	for _, old := range p.runs[:i] {
		for _, step := range p.steps[old.ID] {
			if old.Job == run.Job && step.Pages > 0 && run.Started.Before(step.Began.Add(14*day)) && slices.Equal(slices.Sorted(slices.Values(step.Seeds)), same) {
				return true
			}
		}
	}
	return false
}

// ends counts the searches of coffee that took page two, and those that stop_when ended.
func (p *played) ends() (second, known int) {
	for _, run := range p.runs {
		for _, step := range p.steps[run.ID] {
			if run.Job == "coffee" && step.Pages > 1 {
				second++
			}
			if step.Stop == runs.StopKnown {
				known++
			}
		}
	}
	return second, known
}

// windowsFollow checks that the window of every search of coffee begins at the run before it, so that an
// empty result is one of the right window.
func (w *workshop) windowsFollow(p *played, first, overlap int) {
	w.Helper()
	from, back := time.Time{}, first
	for _, run := range p.runs {
		if run.Job != "coffee" {
			continue
		}
		if from.IsZero() {
			from = run.Started
		}
		want := from.In(w.config.Timezone).AddDate(0, 0, -back).Format(time.DateOnly) + ".."
		for _, step := range p.steps[run.ID] {
			if step.Window != want {
				w.Errorf("coffee of %s looks for %s in %s, want %s", run.Started, step.Item, step.Window, want)
			}
		}
		from, back = run.Started, overlap
	}
}

// booksAgree compares the published ledger with what the service has charged.
func (w *workshop) booksAgree() {
	w.Helper()
	books := w.service.Books()
	for op, totals := range books.Operations {
		booked := w.count("select coalesce(sum(price), 0)::bigint from ops.credits where outcome <> 'refunded' and operation = '" + string(op) + "'")
		if outlier.Credits(booked) != totals.Spent() {
			w.Errorf("%s: ops.credits says %d, the service charged %d", op, booked, totals.Spent())
		}
	}
	if open := w.count("select count(*) from ops.credits where outcome not in ('spent', 'refunded')"); open != 0 {
		w.Errorf("%d rows of ops.credits are neither spent nor refunded", open)
	}
	if len(books.UnknownParams) > 0 || books.Total.Refused > 0 {
		w.Errorf("the service refused %d calls and met unknown parameters %v", books.Total.Refused, books.UnknownParams)
	}
}

// sinksAgree compares the rows of both sinks, by key and answer.
func (w *workshop) sinksAgree() {
	w.Helper()
	for _, table := range append(schema.Tables(), schema.OpsTables()...) {
		columns := strings.Join(table.Key, ", ")
		if !strings.HasPrefix(table.Name, "ops.") {
			columns += ", _response_id"
		}
		there := w.count("select count(*) from " + table.Name)
		files, err := filepath.Glob(filepath.Join(w.data(), "parquet", table.FileName(), "*"))
		if err != nil {
			w.Fatal(err)
		}
		if there == 0 && len(files) == 0 {
			continue
		}
		parquet := fmt.Sprintf("read_parquet('%s/**/*.parquet', union_by_name = true)", filepath.Join(w.data(), "parquet", table.FileName()))
		for _, sides := range [][2]string{{table.Name, parquet}, {parquet, table.Name}} {
			if n := w.count(fmt.Sprintf("select count(*) from (select %s from %s except all select %s from %s)", columns, sides[0], columns, sides[1])); n != 0 {
				w.Errorf("%d of %d rows of %s are in %s alone", n, there, table.Name, sides[0])
			}
		}
	}
}
