package plan

import (
	"fmt"
	"math"
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
	pages = min(pages+min(greeted, a.Greet), a.Most)
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

// Explain describes the decision for people, given which choices got a page: "3 of 11 topics today: the credits
// last to 1 Dec at 7 pages a day; latte art waits: 4 new expected, a page is worth 9".
func (a *Auto) Explain(isBought func(int) bool, zone *time.Location) string {
	bought, waits := 0, -1
	for i := range a.Choices {
		if isBought(i) {
			bought++
		} else if waits < 0 || a.Choices[i].Expected > a.Choices[waits].Expected {
			waits = i
		}
	}
	text := fmt.Sprintf("%d of %d topics today: the credits last to %s at %s a day", bought, len(a.Choices),
		a.Until.In(zone).Format("2 Jan"), countPages(float64(a.Left)/float64(a.Days)))
	if waits >= 0 {
		text += fmt.Sprintf("; %s waits: %s", a.Choices[waits].Name, a.Choices[waits].Explain(a))
	}
	return text
}

// Explain says for people why a topic is due or waits.
func (c *Choice) Explain(a *Auto) string {
	expected := fmt.Sprintf("%s new expected, a page is worth %s", roundShort(c.Expected), roundShort(a.Price))
	switch c.Due {
	case DueNew:
		return "never searched"
	case DuePromise:
		return fmt.Sprintf("at_least %dd ends", c.AtLeast)
	case DueEvery:
		return expected
	}
	if c.Expected >= a.Price {
		expected = roundShort(c.Expected) + " new expected, and a page brings more later"
	}
	return fmt.Sprintf("%s; due in %d d", expected, c.DueIn())
}

// DueIn returns in how many days a topic that waits is due, if the price stays as it is.
func (c *Choice) DueIn() int { return max(1, int(math.Round(float64(min(c.Every, c.AtLeast))-c.Wait))) }

// Next says for people what a topic gets today, given the pages expected for it.
func (c *Choice) Next(pages int) string {
	text := fmt.Sprintf("in %d d", c.DueIn())
	switch {
	case pages > 0:
		text = countPages(float64(pages))
	case c.Due != "":
		text = "if a page is left"
	}
	switch c.Due {
	case DueNew:
		text += ": never searched"
	case DuePromise:
		text += fmt.Sprintf(": at_least %dd ends", c.AtLeast)
	}
	return text
}

func countPages(n float64) string {
	if text := roundShort(n); text != "1" {
		return text + " pages"
	}
	return "1 page"
}

// roundShort formats a number with one decimal, or as a whole one from 10 on.
func roundShort(x float64) string {
	if x >= 10 || math.Abs(x-math.Round(x)) < 0.05 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.1f", x)
}
