package facts

import (
	"context"
	"slices"
	"time"

	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// PlanNow returns the plan of a run that begins now. A scheduled run is limited to its budget
// share.
func (r *Reader) PlanNow(ctx context.Context, spec *job.Spec, scheduled bool, now time.Time) (
	*plan.Plan, error) {
	share := scheduled && Shares(r.Config) && !spec.Auto
	p, err := r.Plan(ctx, spec, Options{At: now, Now: true, Share: share})
	if err != nil || !share {
		return p, err
	}
	_, turn := r.Caps().CycleBounds()
	return p, r.Limit(ctx, &Demands{Calendar: job.NewCalendar(r.Config, now, turn)}, spec, p, now)
}

// Shares reports whether scheduled runs are limited to budget shares.
func Shares(config *job.Config) bool {
	return config.Budget.Pace == job.PaceEven && config.Budget.PerMonth != nil
}

// Limit limits the plan of a run that begins at the given time to its budget share.
func (r *Reader) Limit(ctx context.Context, d *Demands, spec *job.Spec, p *plan.Plan, now time.Time) error {
	if p.Wants(spec.Budget) == 0 {
		return nil
	}
	month, err := r.Caps().OfMonth(r.Store.Clock.Now())
	if err != nil {
		return err
	}
	left := month.Leaves()
	if d.jobs == nil {
		if err := d.Read(ctx, r, now); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(r.Config.Jobs, func(s job.Spec) bool { return s.Name == spec.Name })
	if i >= 0 {
		all := d.From(now)
		all[i].Runs++ // this one
		left = ledger.Share(left, all, i)
	}
	p.Limit(left, spec.Budget)
	return nil
}

// Demands are the credits that the jobs of the file need until the end of a calendar, if every page is full. The
// jobs are resolved once, for any number of runs.
type Demands struct {
	Calendar *job.Calendar
	jobs     []wanted // in the order of the file
}

// wanted is what the runs of one job ask for.
type wanted struct {
	spec  *job.Spec
	facts *plan.Facts // nil if the job cannot be resolved: it needs nothing, and its run will report why
	each  ledger.Demand
	pause *runs.Pause // while paused it needs nothing, and other jobs get its share
}

// Read resolves the jobs. A job that runs after another one is assumed to find a result.
func (d *Demands) Read(ctx context.Context, r *Reader, now time.Time) error {
	pauses, err := r.Store.Schedule.Pauses(now)
	if err != nil {
		return err
	}
	d.jobs = make([]wanted, len(r.Config.Jobs))
	for i := range r.Config.Jobs {
		w := &d.jobs[i]
		w.spec = &r.Config.Jobs[i]
		w.pause = PausedBy(r.Config, w.spec, pauses)
		if w.spec.After == "" && len(w.spec.Schedule) == 0 && w.spec.Every == 0 || w.spec.Auto {
			continue // `schedule: auto` takes what the others leave
		}
		known, err := r.Facts(ctx, w.spec, Options{At: now, Assume: true})
		if err != nil {
			continue
		}
		if p, err := plan.New(w.spec, known); err == nil {
			w.facts, w.each = known, demandOf(w.spec, p)
		}
	}
	return ctx.Err()
}

func demandOf(spec *job.Spec, p *plan.Plan) ledger.Demand {
	return ledger.Demand{Each: p.Wants(spec.Budget), Step: p.Least()}
}

// From returns what the jobs need for the runs that are due later than a time. Of everything with a price, only the
// repetition of seeds depends on the time.
func (d *Demands) From(after time.Time) []ledger.Demand {
	all := make([]ledger.Demand, len(d.jobs))
	for i := range d.jobs {
		w := &d.jobs[i]
		all[i] = w.each
		if w.facts != nil && w.spec.SeedsFresh > 0 {
			then := *w.facts
			then.Now = after
			if p, err := plan.New(w.spec, &then); err == nil {
				all[i] = demandOf(w.spec, p)
			}
		}
		all[i].Runs = d.RunsOf(w.spec, w.pause, after)
	}
	return all
}

// RunsOf counts the due times of a job that are later than a time and not within its pause.
func (d *Demands) RunsOf(spec *job.Spec, pause *runs.Pause, after time.Time) int {
	switch {
	case pause == nil:
	case pause.Until.IsZero():
		return 0
	case pause.Until.After(after):
		after = pause.Until
	}
	return d.Calendar.Runs(spec, after)
}

// PausedBy returns the pause that prevents scheduled runs of a job: its own, or that of a job it
// runs after, or nil. If there are several, it returns the one that ends last.
func PausedBy(config *job.Config, spec *job.Spec, pauses map[string]*runs.Pause) (longest *runs.Pause) {
	for spec := range config.Chain(spec) {
		p := pauses[spec.Name]
		if p != nil && (longest == nil || p.Until.IsZero() || !longest.Until.IsZero() && p.Until.After(longest.Until)) {
			longest = p
		}
	}
	return longest
}
