package engine

import (
	"slices"
	"testing"
	"time"

	"outlierd/sync/facts"
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
	bare(t, autoFile, func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "niches") })
		said, exact, last := 0, 0, map[string]time.Time{}
		for range 31 {
			order, pages := w.announced("niches")
			rows := w.serve(day)
			sum, bought, taken := 0, []string(nil), []int(nil)
			for _, step := range w.steps(&rows[len(rows)-1]) {
				if step.Pages > 0 {
					sum, bought, taken = sum+step.Pages, append(bought, step.Item), append(taken, step.Pages)
					last[step.Item] = step.Began
				}
			}
			for topic, at := range last {
				if wait := time.Since(at); wait > 8*day { // the promise counts from run to run
					t.Errorf("%s was not searched for %s", topic, wait)
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
