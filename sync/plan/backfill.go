package plan

import (
	"fmt"
	"slices"
	"time"

	"outlierd/sync/job"
)

// backfillAsks replaces what a job asks for by the windows of a backfill, newest first, without the
// dates that are already covered.
func backfillAsks(spec *job.Spec, asks []job.Ask, facts *Facts) (all []job.Ask, err error) {
	for from, to := range spec.Backfill.Windows(facts.Zone) {
		for _, ask := range asks {
			for _, gap := range findGaps(Dates{from, to}, facts.Covered[ask.Watermark]) {
				dated := ask
				dated.Query = ask.Query.PublishedIn(gap.From, gap.To)
				all = append(all, dated)
			}
		}
		if len(all) > job.MaxAsks {
			return nil, fmt.Errorf("job %s: the backfill makes more than %d searches; "+
				"take fewer dates or --each month", spec.Name, job.MaxAsks)
		}
	}
	return all, nil
}

// findGaps returns the parts of whole that are not covered, newest first.
func findGaps(whole Dates, covered []Dates) (left []Dates) {
	covered = slices.Clone(covered)
	slices.SortFunc(covered, func(a, b Dates) int { return b.To.Compare(a.To) })
	end := whole.To
	for _, c := range covered {
		if c.To.Before(whole.From) {
			break
		}
		if c.To.Before(end) {
			left = append(left, Dates{c.To.Add(time.Second), end})
		}
		if before := c.From.Add(-time.Second); before.Before(end) {
			end = before
		}
	}
	if !end.Before(whole.From) {
		left = append(left, Dates{whole.From, end})
	}
	return left
}

// Dates is a range of publication dates in whole seconds, including both ends.
type Dates struct{ From, To time.Time }
