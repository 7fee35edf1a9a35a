package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/outlier/simulator"
	"outlierd/sync/facts"
	"outlierd/sync/runs"
)

const autoFile = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 200}
jobs:
  niches:
    schedule: auto at 06:30
    at_least: 7d
    for_each: {topic: [home espresso, moka pot, latte art, sourdough, cycling, japan travel, guitar, python]}
    search: {query: "${topic}", sort: published_at desc, where: {z_score: 1..}}
`

// TestMonthOfAuto: the credits last to the end of the cycle, every promise is kept, and the plan says beforehand how
// many pages a day buys and for which topics, in their order.
func TestMonthOfAuto(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	if !isPlayed(t) {
		t.Skip("another long test was chosen at random")
	}
	bare(t, autoFile, func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "niches") })
		said, exact, last := 0, 0, map[string]time.Time{}
		for range 31 {
			order, pages := w.announced("niches")
			time.Sleep(6 * time.Hour)
			rows := w.serve(time.Hour)
			time.Sleep(17 * time.Hour)
			sum, bought, taken := 0, []string(nil), []int(nil)
			for _, step := range w.steps(&rows[len(rows)-1]) {
				if step.Pages > 0 {
					sum, bought, taken = sum+step.Pages, append(bought, step.Item), append(taken, step.Pages)
					if before := last[step.Item]; !before.IsZero() && step.Began.Sub(before) > 7*day+time.Hour {
						t.Errorf("%s was not searched for %s", step.Item, step.Began.Sub(before))
					}
					last[step.Item] = step.Began
				}
			}
			if sum == sumOfPages(pages) && len(bought) <= len(order) && slices.Equal(bought, order[:len(bought)]) {
				said++
				if slices.Equal(taken, pages[:len(taken)]) {
					exact++
				}
			}
		}
		t.Logf("%d credits in the month; said beforehand on %d of 31 days, to the page of each topic on %d", w.spent(), said, exact)
		for topic, at := range last {
			if wait := time.Since(at); wait > 7*day {
				t.Errorf("%s was not searched for %s at the end", topic, wait)
			}
		}
		if len(last) != 8 || said < 28 {
			t.Errorf("%d topics were searched, and the plan said what was bought on %d of 31 days", len(last), said)
		}
		if spent := w.spent(); spent > 200 || spent < 194 { // a day's pages
			t.Errorf("%d of 200 credits were spent", spent)
		}
	})
}

// announced returns the topics that are due at the job's next time, in their order, and the pages expected for each.
func (w *workshop) announced(name string) (topics []string, pages []int) {
	w.Helper()
	spec := w.config.Job(name)
	w.inspect(func(e *Engine) {
		p, err := e.Facts().Plan(w.ctx, spec, facts.Options{At: spec.Next(time.Now(), w.config.Timezone)})
		if err != nil {
			w.Fatal(err)
		}
		pages = p.Stored.Auto.Expected()
		for _, c := range p.Stored.Auto.Choices {
			if c.Due != "" {
				topics = append(topics, c.Name)
			}
		}
	})
	return topics, pages
}

func sumOfPages(pages []int) (sum int) {
	for _, n := range pages {
		sum += n
	}
	return sum
}

// TestKilledRunGoesOnAsDecided: the decision is in the plan of the run, so no topic is bought twice or left out.
func TestKilledRunGoesOnAsDecided(t *testing.T) {
	t.Parallel()
	for _, when := range []moment{beforePace, beforeDial, beforeSend, beforeAnswer} {
		bare(t, autoFile, func(w *workshop) {
			if !w.kill(5, when) {
				t.Fatal("the run ended before its sixth call")
			}
			row := w.mustRun(runs.OK)
			steps := w.steps(row)
			for _, step := range steps {
				if step.Pages == 0 || step.Stop == "" {
					t.Errorf("%s: %s has %d pages and ended as %q", when, step.Item, step.Pages, step.Stop)
				}
			}
			if most := 2 * (row.Plan.Auto.Room + row.Plan.Auto.Greet + 1); len(steps) != 8 || int(w.spent()) > most {
				t.Errorf("%s: %d searches for %d credits, want 8 for at most %d", when, len(steps), w.spent(), most)
			}
		})
	}
}

func TestSecondRunSameDayBuysNothing(t *testing.T) {
	t.Parallel()
	bare(t, autoFile, func(w *workshop) {
		w.mustRun(runs.OK)
		spent := w.spent()
		time.Sleep(8 * time.Hour) // nothing is reused any more
		if row := w.mustRun(runs.OKEmpty); row.Pages != 0 || w.spent() != spent {
			t.Errorf("the second run took %d pages, and %d credits are spent, want %d", row.Pages, w.spent(), spent)
		}
	})
}

// TestOneRunCatchesUpMissedWeek: after a week without a daemon, its searches go back to the last ones before.
func TestOneRunCatchesUpMissedWeek(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	bare(t, autoFile, func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "niches") })
		before := len(w.serve(2 * day))
		time.Sleep(7 * day)
		away := time.Now()
		rows := w.serve(day)
		if len(rows) != before+2 { // one for the week, one for today
			t.Fatalf("%d runs after the week, want 2", len(rows)-before)
		}
		steps := w.steps(&rows[before])
		for _, step := range steps {
			if from, _ := step.Query.Published(); from.After(away.Add(-7 * day)) {
				t.Errorf("%s is searched since %s", step.Item, from)
			}
		}
		if a := rows[before].Plan.Auto; len(steps) == 0 || rows[before].Pages > int64(a.Room) || rows[before+1].Pages > 0 {
			t.Errorf("%d and %d pages, want at most %d and 0", rows[before].Pages, rows[before+1].Pages, a.Room)
		}
	})
}

// TestEditedFileChangesTheDecision: topics are added, removed and renamed, and the budget is changed.
func TestEditedFileChangesTheDecision(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	bare(t, autoFile, func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "niches") })
		first := w.serve(day)
		w.use(strings.NewReplacer("moka pot", "aeropress", "python", "python, chess", "cycling, ", "", "200", "2000").Replace(autoFile))
		rows := w.serve(2 * day)[len(first):]
		bought := map[string]bool{}
		for i, row := range rows {
			for _, step := range w.steps(&row) {
				bought[step.Item] = bought[step.Item] || step.Pages > 0
				if isNew := step.Item == "aeropress" || step.Item == "chess"; isNew && i == 0 && step.Pages == 0 {
					t.Errorf("%s got no page on its first day", step.Item)
				}
			}
		}
		if bought["cycling"] || bought["moka pot"] || !bought["aeropress"] || !bought["chess"] {
			t.Errorf("after the edit, %v were bought", bought)
		}
		if before, after := first[0].Plan.Auto, rows[0].Plan.Auto; after.Left < 5*before.Left || after.Price > before.Price {
			t.Errorf("with ten times the budget: %d pages at a price of %v, before %d at %v", after.Left, after.Price, before.Left, before.Price)
		}
		spent := w.spent()
		w.use(strings.NewReplacer("200", "40", "7d", "30d").Replace(autoFile)) // less than was spent
		w.serve(day)
		if w.spent() > spent {
			t.Errorf("%d credits were spent, then %d under a cap of 40", spent, w.spent())
		}
	})
}

// TestWrongTotalsStayWithinCap: a total may be missing, saturated or wrong, and pages may repeat.
func TestWrongTotalsStayWithinCap(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	quirks := []simulator.Quirk{simulator.TotalNull, simulator.TotalStands, simulator.TotalGrows, simulator.TotalShrinks,
		simulator.PagesRepeated, simulator.PagesEndless, simulator.SizeIgnored}
	if !*long {
		at := testenv.Random(t).IntN(len(quirks))
		quirks = quirks[at : at+1]
	}
	for _, quirk := range quirks {
		bare(t, autoFile, func(w *workshop) {
			w.renew(simulator.Options{Quirks: quirk})
			w.withSinks(func(e *Engine) { w.see(e, "niches") })
			searched := map[string]bool{}
			for _, row := range w.serve(4 * day) {
				a := row.Plan.Auto
				if row.Status == runs.Failed || row.Pages > int64(a.Room+a.Greet) {
					t.Errorf("quirk %d: a run ended as %s with %d pages, want at most %d: %s", quirk, row.Status, row.Pages, a.Room+a.Greet, row.Error)
				}
				for _, step := range w.steps(&row) {
					searched[step.Item] = searched[step.Item] || step.Pages > 0
				}
			}
			if len(searched) != 8 || w.spent() > 60 {
				t.Errorf("quirk %d: %d topics were searched for %d credits", quirk, len(searched), w.spent())
			}
		})
	}
}

// TestDayCapLimitsAutoPages: the pages of auto get what the cap leaves after the cost of jobs with other
// schedules.
func TestDayCapLimitsAutoPages(t *testing.T) {
	t.Parallel()
	file := strings.Replace(autoFile, "per_month: 200", "per_month: 200, per_day: 8", 1) + `
  fixed: {schedule: "0 9 * * *", search: {query: [tea], pages: 1}}
`
	bare(t, file, func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "niches", "fixed") })
		fixed := 0
		for _, row := range w.serve(3 * day) {
			if row.Job == "fixed" {
				fixed++
				continue
			}
			if row.Status != runs.OK && row.Status != runs.OKEmpty || row.Pages > 4 {
				t.Errorf("a run ended as %s with %d pages", row.Status, row.Pages)
			}
			if a := row.Plan.Auto; row.Due.Day() == 1 && a.Left != 100-31 {
				t.Errorf("%d pages are left for topics, want 69", a.Left)
			}
		}
		if fixed != 3 {
			t.Errorf("the fixed job ran %d times", fixed)
		}
	})
}

// TestUnreadableListFailsItsJobOnly: the topics of the other job are decided about all the same.
func TestUnreadableListFailsItsJobOnly(t *testing.T) {
	t.Parallel()
	file := autoFile + `
  listed:
    schedule: auto at 06:00
    for_each: {topic: {file: missing.txt}}
    search: {query: "${topic}", sort: published_at desc}
`
	bare(t, file, func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "niches", "listed") })
		for _, row := range w.serve(day) {
			if want := map[string]runs.Status{"niches": runs.OK, "listed": runs.Failed}[row.Job]; row.Status != want {
				t.Errorf("%s ended as %s, want %s: %s", row.Job, row.Status, want, row.Error)
			}
		}
	})
}
