package facts

import (
	"time"

	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// # Backfill
//
// A backfill is a run by hand over publication dates that lie back. Each window of them is
// a search of its own for each thing that the job asks for, the newest first, and has all
// its pages before an older one begins. It is an overridden run: the job's cursor stays
// where it is, and the same command goes on with one that was interrupted. What the job or
// another backfill has covered already is left out when the run begins, so that a run
// after one that met a cap goes on where that stood.

// covered are the dates for which a job has searched to an end, by itself or by a
// backfill, and those that are for its own runs: from its cursor on, or from today.
func (r *Reader) covered(spec *job.Spec, key string) (all []plan.Dates, err error) {
	searches, err := r.Store.Runs.Searched(spec.Name, key)
	if err != nil {
		return nil, err
	}
	now := r.Store.Ledger.ServiceTime()
	for _, s := range searches {
		if s.Began.After(now.Add(ledger.Skew)) { // by a clock that was wrong
			continue
		}
		if len(s.Plan) > 0 { // other overridden runs may have taken fewer pages
			if stored, err := plan.Decode(s.Plan); err != nil || stored.Backfill == nil {
				continue
			}
		}
		if p, ok := datesOf(s); ok && runs.Covered(s.Stop) {
			all = append(all, p)
		}
	}
	year, month, day := now.In(r.Config.Timezone).Date()
	own := time.Date(year, month, day, 0, 0, 0, 0, r.Config.Timezone)
	cursor, err := r.Store.Runs.Watermark(spec.Name, key)
	if cursor = cursor.Truncate(time.Second); spec.Dates.Since && !cursor.IsZero() && cursor.Before(own) {
		own = cursor
	}
	return append(all, plan.Dates{From: own, To: time.Unix(1<<40, 0)}), err
}

// datesOf are the dates that a search has covered: until it began, if it names no end. One
// that names no dates at all has only shown the best of all times.
func datesOf(s runs.Searched) (plan.Dates, bool) {
	from, to := s.Query.Published()
	if from.IsZero() {
		return plan.Dates{}, false
	}
	if to.IsZero() || to.After(s.Began) {
		to = s.Began.Truncate(time.Second)
	}
	return plan.Dates{From: from, To: to}, !to.Before(from)
}
