package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// # Backfill
//
// A backfill is a run by hand over publication dates that lie back. Each window of them is
// a search of its own for each thing that the job asks for, the newest first, and has all
// its pages before an older one begins. It is an overridden run: the job's cursor stays
// where it is, and the same command goes on with one that was interrupted. What the job or
// another backfill has covered already is left out when the run begins, so that a run
// after one that met a cap goes on where that stood.

// backfillAsks puts the windows of a backfill in the place of what a job asks for: of each
// what is not covered yet.
func (e *Engine) backfillAsks(spec *job.Spec, asks []job.Ask) (all []job.Ask, err error) {
	covered := map[string][]period{}
	for _, ask := range asks {
		if covered[ask.Watermark], err = e.coveredDates(spec, ask.Watermark); err != nil {
			return nil, err
		}
	}
	for from, to := range spec.Dates.Windows(e.Config.Timezone) {
		for _, ask := range asks {
			for _, gap := range gaps(period{from, to}, covered[ask.Watermark]) {
				ask.Params = maps.Clone(ask.Params)
				maps.Copy(ask.Params, outlier.Params([]outlier.Field{
					{Name: "publishedAt", Value: &outlier.Range[time.Time]{From: &gap.from, To: &gap.to}},
				}))
				all = append(all, ask)
			}
		}
		if len(all) > job.MaxAsks {
			return nil, fmt.Errorf("job %s: the backfill makes more than %d searches; take fewer dates or --each month", spec.Name, job.MaxAsks)
		}
	}
	return all, nil
}

// A period is a stretch of publication dates in whole seconds, both ends included.
type period struct{ from, to time.Time }

// coveredDates are the dates for which the job has searched to an end, by itself or by a
// backfill, and those that are for its own runs: from its cursor on, or from today.
func (e *Engine) coveredDates(spec *job.Spec, key string) (all []period, err error) {
	searches, err := e.Store.Searched(spec.Name, key)
	if err != nil {
		return nil, err
	}
	now := e.Store.ServiceTime()
	for _, s := range searches {
		if s.Began.After(now.Add(state.Skew)) { // by a clock that was wrong
			continue
		}
		if len(s.Plan) > 0 { // other overridden runs may have taken fewer pages
			if plan, err := thaw(s.Plan); err != nil || plan.Backfill == nil {
				continue
			}
		}
		if p, ok := datesOf(s); ok && slices.Contains(covered, s.Stop) {
			all = append(all, p)
		}
	}
	year, month, day := now.In(e.Config.Timezone).Date()
	own := time.Date(year, month, day, 0, 0, 0, 0, e.Config.Timezone)
	cursor, err := e.Store.Watermark(spec.Name, key)
	if spec.Dates.Since && !cursor.IsZero() {
		own = earlier(cursor.Truncate(time.Second), own)
	}
	return append(all, period{own, time.Unix(1<<40, 0)}), err
}

// datesOf are the dates that a search has covered: until it began, if it names no end. One
// that names no dates at all has only shown the best of all times.
func datesOf(s state.Searched) (period, bool) {
	params, _ := url.ParseQuery(s.Params) // it was encoded by us
	from, err := time.Parse(time.RFC3339, params.Get("publishedAtFrom"))
	if err != nil {
		return period{}, false
	}
	to, err := time.Parse(time.RFC3339, params.Get("publishedAtTo"))
	if err != nil || to.After(s.Began) {
		to = s.Began.Truncate(time.Second)
	}
	return period{from, to}, !to.Before(from)
}

// gaps are the parts of a period that others leave, the newest first.
func gaps(whole period, covered []period) (left []period) {
	covered = slices.Clone(covered)
	slices.SortFunc(covered, func(a, b period) int { return b.to.Compare(a.to) })
	end := whole.to
	for _, c := range covered {
		if c.to.Before(whole.from) {
			break
		}
		if c.to.Before(end) {
			left = append(left, period{c.to.Add(time.Second), end})
		}
		if before := c.from.Add(-time.Second); before.Before(end) {
			end = before
		}
	}
	if !end.Before(whole.from) {
		left = append(left, period{whole.from, end})
	}
	return left
}

// Backfill are the searches that a backfill of spec would make, in their order.
func (e *Engine) Backfill(ctx context.Context, spec *job.Spec) ([]state.Step, error) {
	steps, _, err := e.draw(spec, e.inputs(ctx, spec, time.Now()))
	return steps, err
}

// newestFirst orders the open searches of a backfill: those of a newer window first, and
// within a window those with the fewest pages.
func newestFirst(a, b *state.Step) int {
	return cmp.Or(cmp.Compare(b.Window, a.Window), cmp.Compare(a.Next, b.Next))
}
