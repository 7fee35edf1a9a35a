package job

import (
	"cmp"
	"fmt"
	"time"

	"outlierd/internal/lazyregexp"
	"outlierd/outlier"
	"outlierd/sync/yamltree"
)

// AutoPages is the maximum number of pages of a search of a job with `schedule: auto`.
const AutoPages = 12

// Bounds of at_least. A search goes back 30 days at most.
const (
	defaultAtLeast = 14 * day
	maxAtLeast     = 30 * day
)

// autoTime matches `auto` and `auto at 06:30`.
var autoTime = lazyregexp.New(`^auto(?: at ([01]?[0-9]|2[0-3]):([0-5][0-9]))?$`)

// parseDue parses a schedule of a job: `auto at HH:MM` is due daily, at 06:30 if it names no time.
func parseDue(text string) (cronTimes, error) {
	if m := autoTime().FindStringSubmatch(text); m != nil {
		text = fmt.Sprintf("%s %s * * *", cmp.Or(m[2], "30"), cmp.Or(m[1], "6"))
	}
	return parseCron(text)
}

// readAuto reads what belongs to `schedule: auto`, and refuses what would make its policy blind or contradict it.
func (b *builder) readAuto(spec *Spec, job, verb *yamltree.Node) {
	schedule, atLeast := job.Get("schedule"), job.Get("at_least")
	if spec.Auto = len(spec.Schedule) == 1 && autoTime().MatchString(spec.Schedule[0]); !spec.Auto {
		if atLeast != nil && !atLeast.Wrong {
			atLeast.Key.RefuseWithHint("write schedule: auto, or remove at_least", "needs schedule: auto, which keeps it")
		}
		return
	}
	spec.AtLeast = defaultAtLeast
	if d := valueOf[time.Duration](atLeast); d > 0 {
		if spec.AtLeast = d; d%day != 0 || d > maxAtLeast {
			atLeast.Refuse("must be whole days, at most 30d, got %s", atLeast.Shown())
		}
	}
	if spec.Verb != VerbSearch {
		schedule.RefuseWithHint(`write a fixed schedule, such as "@daily"`,
			"auto decides about jobs of search only, and this is one of %s", spec.Verb)
		return
	}
	spec.Pages = AutoPages
	if by := spec.ask.requestedSort(); by.By != "publishedAt" || by.Ascending {
		n := verb.Get("sort")
		if n == nil {
			n = verb
		}
		n.Head().RefuseWithHint("write sort: published_at desc; enrich.sort ranks the hits for what is fetched",
			"schedule: auto needs the order by date: in another one it cannot tell how far back a search went")
	}
	decided := map[string]*yamltree.Node{
		"pages": verb.Get("pages"), "stop_when": verb.Get("stop_when"),
		"published_at": verb.Get("where").Get("published_at"),
	}
	for _, key := range []string{"pages", "stop_when", "published_at"} {
		if n := decided[key]; n != nil && !n.Has(yamltree.Null) {
			hint := "remove it; budget.per_run limits a run"
			if key == "published_at" {
				hint = "remove it, or write published_at: ~ beside use"
			}
			n.Head().RefuseWithHint(hint, "schedule: auto decides about %s", key)
		}
	}
	if b.cfg.Budget.PerMonth == nil && spec.Budget.PerMonth == nil {
		schedule.RefuseWithHint("add budget: {per_month: 200}", "auto needs a budget to split")
	}
}

// refuseShortAuto refuses a budget that does not cover a page for each topic of `schedule: auto` within its at_least.
func refuseShortAuto(c *Config, root *yamltree.Node) {
	if spec, text, hint := c.shortAuto((*Spec).knownTopics); spec != nil {
		root.Get("jobs").Get(spec.Name).Get("schedule").RefuseWithHint(hint, "%s", text)
	}
}

// shortAuto returns the first job whose promise the budget does not cover, together with the jobs before it, with
// the number of topics of each job.
func (c *Config) shortAuto(topicsOf func(*Spec) int) (short *Spec, text, hint string) {
	var all outlier.Credits
	for i := range c.Jobs {
		spec := &c.Jobs[i]
		if !spec.Auto || spec.Disabled {
			continue
		}
		turns := (MonthDays*day + spec.AtLeast - 1) / spec.AtLeast
		own := outlier.Credits(topicsOf(spec)) * outlier.Credits(turns) * c.Service.Prices.Of(spec.ask.Op, "")
		all += own
		budget, needs := spec.Budget.PerMonth, own
		if most := c.Budget.Scheduled(); most != nil && (budget == nil || *most-all < *budget-own) {
			budget, needs = most, all
		}
		if budget != nil && needs > *budget {
			return spec, fmt.Sprintf("a page for each of the %d topics within at_least: %s needs %d credits in a cycle of %d days, the budget leaves %d",
				topicsOf(spec), FormatDuration(spec.AtLeast), needs, MonthDays, *budget), "raise at_least or per_month, or remove topics"
		}
	}
	return nil, "", ""
}

// decideByHand makes a person decide what a run of the job buys: a page of each search unless they say otherwise.
func (s *Spec) decideByHand() {
	if s.Auto {
		s.Auto, s.Pages = false, 1
	}
}
