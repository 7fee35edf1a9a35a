package plan

import (
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
)

// # Runs of a job with schedule: auto
//
// The steps of such a run are the topics that are due, in the order in which they are bought, each to its end
// before the next one begins. So the step with ordinal i is the choice at place i of the stored [Auto]. What the
// run may still buy follows from the decision and from the pages of its steps, also after it was interrupted.

// StopPrice closes a search whose next page was not expected to bring the price of a page in new hits.
const StopPrice = "price"

// decideAsks replaces what a job asks for by the topics that are due, and keeps the decision.
func (p *Plan) decideAsks(spec *job.Spec, asks []job.Ask) (due []job.Ask) {
	p.Stored.Auto = p.facts.Market.Decide(p.facts.Now, p.facts.Zone).of(spec.Name)
	for _, c := range p.Stored.Auto.Choices {
		i := slices.IndexFunc(asks, func(a job.Ask) bool { return a.Watermark == c.Search })
		if c.Due == "" || i < 0 {
			break
		}
		ask := asks[i]
		ask.Query = ask.Query.PublishedIn(c.Since.UTC(), time.Time{})
		due = append(due, ask)
	}
	return due
}

// of returns the decision about the topics of one job. Of the day's pages it leaves those that are expected for
// the topics of other jobs that come before.
func (a *Auto) of(name string) *Auto {
	own, ahead := *a, 0
	own.Choices = nil
	for _, c := range a.Choices {
		switch {
		case c.Job == name:
			c.Ahead = ahead
			own.Choices = append(own.Choices, c)
		case c.Due != "":
			ahead += c.Pages
		}
	}
	return &own
}

// Expected returns the pages that each topic is expected to get today, in the order of the choices.
func (a *Auto) Expected() []int {
	pages := make([]int, len(a.Choices))
	for i, c := range a.Choices {
		if c.Due != "" {
			pages[i] = min(c.Pages, a.Buys(i, func(k int) int { return pages[k] }))
		}
	}
	return pages
}

// StopAfter returns why a search ends after the pages that it has; "" if it takes another one. steps are those of
// its run, of which step is the newer version of one.
func (a *Auto) StopAfter(steps []Step, step *Step) string {
	if !a.Affords(steps, step) {
		return StopShare
	}
	seen := a.Totals[step.Total]
	for i := range steps {
		if other := &steps[i]; other.Ordinal == step.Ordinal || other.Pages > 0 && other.Total == step.Total {
			seen++
		}
	}
	from, _ := step.Query.Published()
	v := Visit{At: step.Began, Since: from, Oldest: step.Oldest, Pages: step.Pages, Total: step.Total}
	if a.Choices[step.Ordinal].NextPage(&v, seen) < a.Price {
		return StopPrice
	}
	return ""
}

// Affords reports whether the day's pages cover another one of a step.
func (a *Auto) Affords(steps []Step, step *Step) bool {
	taken := func(i int) int { return steps[i].bought() }
	return step.bought() < a.Buys(step.Ordinal, taken)
}

// bought returns the number of pages that were not in the journal.
func (s *Step) bought() int { return s.Pages - s.Reused }

// autoItem returns what the open steps of a run that decides ask for: the rest of the day's pages.
func (p *Plan) autoItem() []item {
	a := p.Stored.Auto
	pages, open, greeted := 0, 0, 0
	for i := range p.Steps {
		c := &a.Choices[p.Steps[i].Ordinal]
		if pages == 0 {
			pages = max(0, a.Room-c.Ahead)
		}
		if c.Due == DueNew {
			greeted++
		}
	}
	pages += min(greeted, a.Greet)
	for i := range p.Steps {
		pages -= p.Steps[i].bought()
		if p.Steps[i].Stop == "" {
			open += max(0, p.Stored.PagesOf(p.Steps[i].Ordinal)-p.Steps[i].Next)
		}
	}
	if pages = min(pages, open); pages <= 0 {
		return nil
	}
	return []item{{price: p.facts.Prices.Of(outlier.OpSearch, ""), pages: pages}}
}
