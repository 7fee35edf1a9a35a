package facts

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// # The rest of a run
//
// The pages that `pages`, a cap or the run's time limit cut off can be bought afterwards by a run
// of its own, an overridden one. Its searches are the stored ones, each continued at the first page that was not
// taken, whatever the file says by now; only the caps are those of the file. No page is bought twice: each
// search continues where the last run that bought of it ended, and an interrupted run of this kind
// is itself continued.
//
// Such a run does not change what is known about the job's costs and coverage beyond what the first
// run asked for: it moves a cursor at most to the time when page one of the search was requested.

// RestSpec returns the job of a run that buys what a run has left, or what the run that it completes has left; nil if
// the job is not in the file.
func RestSpec(config *job.Config, row *runs.Run) *job.Spec {
	spec := CurrentSpec(config, row)
	if spec != nil {
		*spec = spec.RestOf(cmp.Or(row.RestOf, row.ID), row.Request)
	}
	return spec
}

// ResumedSpec returns the job of a run that is resumed, with what the command that began it has changed; nil
// if it is not in the file.
func ResumedSpec(config *job.Config, row *runs.Run) (*job.Spec, error) {
	spec, stored := CurrentSpec(config, row), row.Plan
	if spec == nil || stored == nil {
		return nil, row.Damage
	}
	if row.RestOf != "" {
		return RestSpec(config, row), nil
	}
	if row.Overridden {
		spec.Overridden, spec.Flags, spec.Request = true, stored.Flags, row.Request
	}
	if stored.Backfill != nil {
		spec.Backfill, spec.Budget.PerRun = stored.Backfill, &stored.Cap
	}
	return spec, nil
}

// CurrentSpec returns the job of a run as it is in the file now, because of its caps, or for a one-off request a
// job without caps. It returns nil if the job is not in the file.
func CurrentSpec(config *job.Config, row *runs.Run) *job.Spec {
	if job.IsOnce(row.Job) {
		return &job.Spec{Name: row.Job, Request: row.Request}
	}
	spec := config.Job(row.Job)
	if spec == nil {
		return nil
	}
	own := *spec
	return &own
}

// NothingLeftError reports that a run has left nothing to buy.
type NothingLeftError struct {
	Run  string
	Last string // the last run that bought of its searches: Run, or one that bought the rest
}

func (e *NothingLeftError) Error() string {
	if e.Last == e.Run {
		return fmt.Sprintf("run %s left nothing to buy", e.Run)
	}
	return fmt.Sprintf("run %s left nothing to buy: run %s bought the rest", e.Run, e.Last)
}

// UnendedError reports that a run goes on, so its rest cannot be bought yet.
func UnendedError(run string) error {
	return fmt.Errorf("run %s has not ended; '%s' continues it", run, Command(run))
}

// planRest returns the plan of a run of spec that buys the rest of another one.
func (r *Reader) planRest(spec *job.Spec, calls bool) (*plan.Plan, error) {
	of, err := r.Store.Runs.Get(spec.Rest)
	switch {
	case err != nil:
		return nil, err
	case of == nil:
		return nil, fmt.Errorf("there is no run %s", spec.Rest)
	case of.Damage != nil:
		return nil, of.Damage
	case of.Plan == nil:
		return nil, &NothingLeftError{of.ID, of.ID}
	}
	steps, err := r.Store.Steps.OfRun(of.ID)
	if err != nil {
		return nil, err
	}
	if old, err := r.Store.Runs.ContinuingRun(of.ID); err != nil {
		return nil, err
	} else if old != nil {
		if u, err := r.IfAsked(spec, old, time.Time{}); err != nil || u.Fate != Supersede {
			return nil, cmp.Or(err, UnendedError(old.ID))
		}
	}
	stored, last := *of.Plan, of
	stored.BuyRest(spec.Flags)
	left := []runs.Step{}
	for i := range steps {
		step, err := r.Store.Steps.LastOf(&steps[i])
		if err != nil {
			return nil, err
		}
		by := of
		if step.Run != of.ID {
			if by, err = r.Store.Runs.Get(step.Run); err != nil {
				return nil, err
			}
		}
		if by.ID > last.ID {
			last = by
		}
		if pages := buyable(by, &step); pages > 0 {
			stored.Ends[len(left)] = step.Next + pages
			left = append(left, continuation(step, len(left)))
		}
	}
	if len(left) == 0 {
		return nil, &NothingLeftError{of.ID, last.ID}
	}
	p, err := r.Continue(spec.Name, stored, left, calls)
	if err == nil {
		p.Bound(spec.Budget)
	}
	return p, err
}

// maxUncounted is the maximum number of pages to buy of a search if neither the service nor the job says how many
// there are.
const maxUncounted = 10

// buyable returns how many pages of a step that another run has ended can be bought.
func buyable(by *runs.Run, step *runs.Step) int {
	if by == nil || by.Plan == nil || !slices.Contains(cutOff, step.Stop) && !CanSkipPage(step) {
		return 0
	}
	switch step.Query.Op() {
	case outlier.OpStartScan, outlier.OpTrendingFormats:
		return 0
	}
	pages := PagesLeft(by.Plan, step)
	if pages < 0 { // unknown: as many again
		pages = min(max(by.Plan.Pages, 1), maxUncounted)
	}
	return pages
}

// continuation returns the search that continues a step that another run has ended.
func continuation(step runs.Step, ordinal int) runs.Step {
	step.Origin = cmp.Or(step.Origin, step.ID)
	step.ID, step.Run, step.Ordinal = 0, "", ordinal
	step.Pages, step.Hits, step.Unread, step.NewHits, step.Reused, step.Credits = 0, 0, 0, 0, 0, 0
	step.Stop, step.Left, step.Problem, step.Capped = "", -1, "", false
	step.Scan, step.Joined = "", 0 // its pages are bought like those of any search
	return step
}

// cutOff are the ends of searches whose rest can be bought; see also [CanSkipPage].
var cutOff = []string{"", runs.StopPages, runs.StopTime, runs.StopMissing, plan.StopShare}

// CanSkipPage reports whether a search ended at a page whose hits could not be stored. Later pages may be
// readable.
func CanSkipPage(step *runs.Step) bool { return step.Stop == runs.StopUnreadable && step.Unread > 0 }

// PagesLeft returns how many more pages of a step the run may take, or for a step that ended at the
// job's last page how many more the service has; -1 if unknown.
func PagesLeft(f *plan.Stored, step *runs.Step) int {
	if step.Query.Op() == outlier.OpStartScan || step.Query.Op() == outlier.OpTrendingFormats {
		return -1
	}
	beyond := Beyond(step)
	switch step.Stop {
	case runs.StopPages, runs.StopUnreadable, runs.StopMissing:
		return beyond
	}
	left := f.PagesOf(step.Ordinal) - step.Next
	if beyond >= 0 {
		left = min(left, beyond)
	}
	if left > job.AllPages/2 {
		return -1
	}
	return left
}
