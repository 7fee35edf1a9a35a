package facts

import (
	"context"
	"math"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
)

// # The market of schedule: auto
//
// Jobs with `schedule: auto` share what the cycle leaves after the runs of all other jobs. One with a cap of its
// own for the cycle has a market of its own.

// rememberedFor is how far back past searches are read. After that long they count for less than a thousandth.
const rememberedFor = 150 * 24 * time.Hour

// market returns the topics that share the budget with those of spec, and what is left for them.
func (r *Reader) market(ctx context.Context, spec *job.Spec, work job.Resolved, at time.Time) (*plan.Market, error) {
	m := &plan.Market{}
	pauses, err := r.Store.Schedule.Pauses(at)
	if err != nil {
		return nil, err
	}
	left, err := r.leftForAuto(ctx, spec, at)
	if err != nil {
		return nil, err
	}
	for i := range r.Config.Jobs {
		other := &r.Config.Jobs[i]
		if other.Name != spec.Name {
			if !other.Auto || other.Disabled || PausedBy(r.Config, other, pauses) != nil || spec.Budget.PerMonth != nil {
				continue
			}
			if other.Budget.PerMonth != nil {
				own, err := r.Caps().LeftOfJob(other, at)
				if err != nil {
					return nil, err
				}
				left -= own
				continue
			}
		}
		asked := work
		if other.Name != spec.Name {
			if asked, err = r.resolve(ctx, other, Options{At: at}, nil); err != nil {
				continue // its own run reports why
			}
		}
		known, err := r.Store.Watermarks.Visits(other.Name, at.Add(-rememberedFor))
		if err != nil {
			return nil, err
		}
		m.Topics = append(m.Topics, topicsOf(other, asked, known)...)
	}
	m.Funds, err = r.Caps().fundsOf(spec, max(0, left), at)
	return m, err
}

// topicsOf returns the topics of a job, one for each search that it asks for.
func topicsOf(spec *job.Spec, work job.Resolved, known map[string][]plan.Visit) (topics []plan.Topic) {
	for i := range work.Asks {
		ask := &work.Asks[i]
		step := plan.Step{Query: ask.Query, Item: ask.Item, Queries: ask.Queries}
		name := ask.Item
		if name == "" {
			name = step.Name()
		}
		topics = append(topics, plan.Topic{Job: spec.Name, Search: ask.Watermark, Name: name, AtLeast: int(spec.AtLeast / (24 * time.Hour)),
			Visits: known[ask.Watermark]})
	}
	return topics
}

// leftForAuto returns what the cycle of a time has left for the topics of spec: what the runs of jobs with other
// schedules leave, and no more than its own cap.
func (r *Reader) leftForAuto(ctx context.Context, spec *job.Spec, at time.Time) (outlier.Credits, error) {
	caps := r.Caps()
	month, err := caps.OfMonth(at)
	if err != nil {
		return 0, err
	}
	_, turn := caps.boundsAt(at)
	needs, err := r.Month(job.NewCalendar(r.Config, at, turn), at)
	if err != nil {
		return 0, err
	}
	others, err := needs.After(ctx, at)
	left := min(month.Leaves(), math.MaxInt32)
	for i := range others {
		left -= others[i].Credits()
	}
	if err != nil {
		return 0, err
	}
	own, err := caps.LeftOfJob(spec, at)
	return min(left, own), err
}

// fundsOf returns credits as pages, and what a run of spec may buy on the day of a time.
func (c *Caps) fundsOf(spec *job.Spec, left outlier.Credits, at time.Time) (plan.Funds, error) {
	day, err := c.OfDay(at)
	today := min(left, day.Leaves())
	if most := spec.Budget.PerRun; most != nil {
		today = min(today, *most)
	}
	price := max(1, c.Config.Service.Prices.Of(outlier.OpSearch, ""))
	_, turn := c.boundsAt(at)
	return plan.Funds{Left: int(left / price), Today: int(today / price), Days: ledger.Days(at, turn, c.Config.Timezone),
		Until: turn}, err
}
