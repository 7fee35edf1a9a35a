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
// A backfill is a manual run over past publication dates. Each window is a separate search for each
// thing that the job asks for, newest first, and all pages of a window are fetched before the next
// window begins. It is an overridden run: the job's cursor does not move, and the same command
// resumes an interrupted backfill. Dates that the job or another backfill has already covered are
// skipped when the run begins, so a run after one that reached a cap continues at that point.

// covered returns the dates that a job has searched completely, by its own runs or by a backfill,
// and those that its own runs will search: from its cursor on, or from today.
func (r *Reader) covered(spec *job.Spec, key string) (all []plan.Dates, err error) {
	searches, err := r.Store.Watermarks.Searched(spec.Name, key)
	if err != nil {
		return nil, err
	}
	now := r.Store.Clock.Now()
	for _, s := range searches {
		if s.Began.After(now.Add(ledger.Skew)) { // by a clock that was wrong
			continue
		}
		if s.Plan != nil && s.Plan.Backfill == nil { // other overridden runs may have taken fewer pages
			continue
		}
		if p, ok := datesOf(s); ok && runs.Covered(s.Stop) {
			all = append(all, p)
		}
	}
	year, month, day := now.In(r.Config.Timezone).Date()
	own := time.Date(year, month, day, 0, 0, 0, 0, r.Config.Timezone)
	cursor, err := r.Store.Watermarks.At(spec.Name, key)
	if cursor = cursor.Truncate(time.Second); spec.Backfill.Since && !cursor.IsZero() && cursor.Before(own) {
		own = cursor
	}
	return append(all, plan.Dates{From: own, To: time.Unix(1<<40, 0)}), err
}

// datesOf returns the dates that a search has covered: until it began, if it has no end date. A
// search without dates covers none, as it returned only the best results of all time.
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
