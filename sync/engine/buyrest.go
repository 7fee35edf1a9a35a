package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// # The rest of a run
//
// The pages that `pages`, a cap or the run's time limit cut off can be bought afterwards by a run
// of its own. Its searches are the stored ones, each continued at the first page that was not
// taken, whatever the file says by now; only the caps are those of the file. No page is bought twice: each
// search continues where the last run that bought of it ended, and an interrupted run of this kind
// is itself resumed.
//
// Such a run does not change what is known about the job's costs and coverage beyond what the first
// run asked for: it moves a cursor at most to the time when page one of the search was requested.

// Rest is what the searches of a run have left to buy.
type Rest struct {
	Of      *runs.Run
	Run     *runs.Run       // the unfinished run that is already buying it; nil if a new one is needed
	After   string          // the last run that bought of it, or Of
	Credits outlier.Credits // price of all of it if no answer is lost
	Cost    plan.Cost       // within the cap of the run
	MayCost outlier.Credits // at most, within all caps, including lost answers

	plan       plan.Stored
	steps      []runs.Step
	superseded []runs.Run // unfinished runs whose searches it takes over
}

// Nothing reports whether there is nothing left to buy.
func (r *Rest) Nothing() bool { return r.Run == nil && len(r.steps) == 0 }

// Began returns when page one of the oldest of its searches was requested; zero if none was.
func (r *Rest) Began() (at time.Time) {
	for _, step := range r.steps {
		at = soonest(at, step.Began)
	}
	return at
}

// RestFlags returns the flags of the command that buys the rest of a run.
func RestFlags(run string) string { return "--rest " + run }

// RestSpec returns the job of a run that buys the rest of another; nil if it is not in the file.
func RestSpec(config *job.Config, row *runs.Run) *job.Spec {
	spec := currentSpec(config, row)
	if spec != nil {
		spec.Overridden, spec.Flags = true, RestFlags(row.ID)
	}
	return spec
}

// ResumedSpec returns the job of a run that is resumed, with what the command that began it has changed; nil
// if it is not in the file.
func ResumedSpec(config *job.Config, row *runs.Run) (*job.Spec, error) {
	spec, stored := currentSpec(config, row), row.Plan
	if spec == nil || stored == nil {
		return nil, row.Damage
	}
	if row.Overridden {
		spec.Overridden, spec.Flags, spec.Request = true, stored.Flags, row.Request
	}
	if stored.Backfill != nil {
		spec.Dates, spec.Budget.PerRun = stored.Backfill, &stored.Cap
	}
	return spec, nil
}

// currentSpec returns the job of a run as it is in the file now, because of its caps, or for a one-off request a
// job without caps. It returns nil if the job is not in the file.
func currentSpec(config *job.Config, row *runs.Run) *job.Spec {
	if strings.HasPrefix(row.Job, job.OnceMark) {
		return &job.Spec{Name: row.Job}
	}
	spec := config.Job(row.Job)
	if spec == nil {
		return nil
	}
	own := *spec
	return &own
}

// unendedError reports that a run will be resumed, so its rest cannot be bought yet.
func unendedError(run *runs.Run) error {
	return fmt.Errorf("run %s has not ended; '%s' continues it", run.ID, facts.Command(run))
}

// FindRest returns what a run of spec's job has left to buy.
func FindRest(known *facts.Reader, spec *job.Spec, of *runs.Run) (*Rest, error) {
	rest := &Rest{Of: of}
	unfinished, err := known.Store.Runs.Unfinished(of.Job)
	if err != nil {
		return nil, err
	}
	steps, err := known.Store.Steps.OfRun(of.ID)
	if err != nil || len(steps) == 0 {
		return rest, err
	}
	if of.Damage != nil {
		return nil, of.Damage
	}
	rest.plan = *of.Plan
	rest.plan.BuyRest(RestFlags(of.ID))
	lastRuns := map[string]bool{of.ID: true} // the last runs that bought of its searches
	for i := range steps {
		last, err := known.Store.Steps.LastOf(&steps[i])
		if err != nil {
			return nil, err
		}
		lastRuns[last.Run] = true
		rest.After = max(rest.After, last.Run)
		rest.add(last)
	}
	for i := range unfinished {
		run := &unfinished[i]
		if !lastRuns[run.ID] {
			continue
		}
		resumes, err := known.Resumes(spec, run, time.Time{})
		switch {
		case err != nil:
			return nil, err
		case resumes && run.ID == of.ID:
			return nil, unendedError(run)
		case resumes:
			rest.Run = run
		default:
			rest.superseded = append(rest.superseded, *run)
		}
	}
	if err := rest.price(known, spec); err != nil {
		return nil, err
	}
	run, stored := &runs.Run{ID: "next", Job: of.Job}, rest.plan
	if rest.Run != nil {
		run = rest.Run
		p, c, err := known.Left(run, spec.Budget)
		if err != nil {
			return nil, err
		}
		stored, rest.Cost = p.Stored, c
	}
	rest.MayCost, err = known.Caps().Affords(run, stored, spec.Budget, rest.Cost)
	return rest, err
}

// add adds the search that continues a step, unless nothing is left of it.
func (r *Rest) add(last runs.Step) {
	left := pagesLeft(&r.plan, &last)
	switch {
	case last.Query.Op() == outlier.OpStartScan || last.Query.Op() == outlier.OpTrendingFormats:
		return
	case left == 0 || !slices.Contains(cutOff, last.Stop) && !canSkipPage(&last):
		return
	case left < 0: // unknown: buy as many pages again
		left = min(max(r.plan.Pages, 1), restPages)
	}
	step := last
	step.ID, step.Run, step.Ordinal = 0, "", len(r.steps)
	step.Origin = cmp.Or(last.Origin, last.ID)
	step.Pages, step.Hits, step.Unread, step.NewHits, step.Reused, step.Credits = 0, 0, 0, 0, 0, 0
	step.Stop, step.Left, step.Problem, step.Capped = "", -1, "", false
	step.Scan, step.Joined = "", 0 // its pages are bought like those of any search
	r.steps = append(r.steps, step)
	r.plan.Ends[step.Ordinal] = step.Next + left
}

// restPages is the maximum number of pages to buy of a search if neither the service nor the job says
// how many there are.
const restPages = 10

// price computes the price of the rest, and makes it the cap of the run.
func (r *Rest) price(known *facts.Reader, spec *job.Spec) (err error) {
	for i := range r.steps {
		step := &r.steps[i]
		r.Credits += outlier.Credits(r.plan.Ends[i]-step.Next) * step.Query.Price(known.Config.Service.Prices)
	}
	p, err := known.Continue(spec.Name, r.plan, r.steps, true)
	if err != nil {
		return err
	}
	p.Bound(spec.Budget)
	r.plan, r.Cost = p.Stored, p.Cost(spec.Budget, plan.Spent{})
	return nil
}

// openRest records the run that buys the rest, and closes the runs whose searches it takes over.
func (o *Order) openRest(s *state.Store) (*runs.Run, error) {
	rest := o.Rest
	for i := range rest.superseded {
		if err := closeRun(s, &rest.superseded[i]); err != nil {
			return nil, err
		}
	}
	row, err := o.newRun()
	if err != nil {
		return nil, err
	}
	rest.plan.UseReserve = o.UseReserve
	row.RestOf, row.Overridden, row.Plan, row.Key = rest.Of.ID, true, &rest.plan, o.Key
	return row, s.Runs.Begin(*row, rest.steps)
}
