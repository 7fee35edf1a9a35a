package facts

import (
	"context"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// # What a month needs
//
// [Month] counts it for all: lint prints it, a run with `pace: even` gets its share of it, `schedule: auto` takes
// what it leaves, and the forecast counts its runs.

// Month is what the scheduled runs of the jobs need until the end of a calendar, if every page is full.
type Month struct {
	Pauses map[string]*runs.Pause

	reader   *Reader
	at       time.Time
	calendar *job.Calendar
	jobs     []JobMonth // in the order of the file; nil until they are resolved, once for any number of runs
}

// JobMonth is the part of a job in a [Month].
type JobMonth struct {
	Job  string `json:"job"`
	Auto bool   `json:"auto,omitempty"` // it takes what the others leave, and needs nothing
	ledger.Demand
	Cap *outlier.Credits `json:"cap,omitempty"` // what the job's own cap of the cycle leaves; nil for no cap

	sameSeeds bool      // each run has the same seeds, which are not bought again before they are old
	bought    time.Time // when the oldest of these were; zero for never
}

// Credits returns what the runs of the job cost.
func (j *JobMonth) Credits() outlier.Credits {
	all := outlier.Credits(j.Runs) * j.Each
	if j.Cap != nil {
		all = min(all, *j.Cap)
	}
	return all
}

// Month returns what the runs of a calendar need, by the pauses and the caps of a time.
func (r *Reader) Month(calendar *job.Calendar, at time.Time) (*Month, error) {
	pauses, err := r.Store.Schedule.Pauses(at)
	return &Month{Pauses: pauses, reader: r, at: at, calendar: calendar}, err
}

// RunsOf counts the due times of a job that are later than a time and not within its pause.
func (m *Month) RunsOf(spec *job.Spec, after time.Time) int {
	if pause := PausedBy(m.reader.Config, spec, m.Pauses); pause != nil {
		switch {
		case pause.Until.IsZero():
			return 0
		case pause.Until.After(after):
			after = pause.Until
		}
	}
	return m.calendar.Runs(spec, after)
}

// After returns what each job of the file needs for the runs that are due later than a time. With a zero time it counts
// all, also those whose seeds are not bought again.
func (m *Month) After(ctx context.Context, at time.Time) ([]JobMonth, error) {
	config := m.reader.Config
	for i := len(m.jobs); i < len(config.Jobs); i++ {
		one, err := m.needsOf(ctx, &config.Jobs[i])
		if err != nil {
			return nil, err
		}
		m.jobs = append(m.jobs, one)
	}
	all := slices.Clone(m.jobs)
	for i := range all {
		all[i].Runs = m.RunsOf(&config.Jobs[i], at)
		if all[i].sameSeeds && !at.IsZero() {
			spec := &config.Jobs[i]
			all[i].Runs = len(m.calendar.Purchases(spec, all[i].Runs, all[i].bought, spec.SeedsFresh))
		}
	}
	return all, nil
}

// needsOf returns what a scheduled run of a job needs. One that runs after another job is assumed to find a
// result, and seeds that were bought recently are bought again. A job that cannot be resolved needs nothing: its
// run reports why.
func (m *Month) needsOf(ctx context.Context, spec *job.Spec) (one JobMonth, err error) {
	one.Job, one.Auto = spec.Name, spec.Auto
	if spec.Budget.PerMonth != nil {
		left, err := m.reader.Caps().LeftOfJob(spec, m.at)
		if one.Cap = &left; err != nil {
			return one, err
		}
	}
	if spec.After == "" && len(spec.Schedule) == 0 && spec.Every == 0 || spec.Auto {
		return one, nil
	}
	p, err := m.reader.Plan(ctx, spec, Options{At: m.at.Add(spec.SeedsFresh), Assume: true})
	if err != nil {
		return one, ctx.Err()
	}
	one.Each, one.Step = p.Wants(spec.Budget), p.Least()
	one.sameSeeds = spec.SeedsFresh > 0 && len(spec.SQL()) == 0
	for i := range p.Steps {
		bought, err := boughtAt(m.reader.Store.Watermarks, spec.Name, p.Steps[i].Watermark, m.at)
		if err != nil {
			return one, err
		}
		if i == 0 || bought.Before(one.bought) {
			one.bought = bought
		}
	}
	return one, nil
}

// shareOf returns the share of the rest of the cycle that a run of a job has which begins at a time.
func (m *Month) shareOf(ctx context.Context, spec *job.Spec, wanted outlier.Credits, at time.Time) (
	outlier.Credits, error) {
	month, err := m.reader.Caps().OfMonth(m.reader.Store.Clock.Now())
	if err != nil || wanted == 0 {
		return wanted, err
	}
	left, all := month.Leaves(), outlier.Credits(0)
	jobs, err := m.After(ctx, at)
	i := slices.IndexFunc(jobs, func(j JobMonth) bool { return j.Job == spec.Name })
	if err != nil || i < 0 {
		return left, err
	}
	if jobs[i].sameSeeds {
		jobs[i].Runs = len(m.calendar.Purchases(spec, m.RunsOf(spec, at), at, spec.SeedsFresh))
	}
	jobs[i].Runs++ // this one
	for _, j := range jobs {
		all += outlier.Credits(j.Runs) * j.Each
	}
	return ledger.Share(left, all, jobs[i].Demand), nil
}

// PlanNow returns the plan of a run that begins now. A scheduled run is limited to its budget
// share.
func (r *Reader) PlanNow(ctx context.Context, spec *job.Spec, scheduled bool, now time.Time) (
	*plan.Plan, error) {
	o := Options{At: now, Now: true}
	if scheduled {
		_, turn := r.Caps().CycleBounds()
		m, err := r.Month(job.NewCalendar(r.Config, now, turn), now)
		if err != nil {
			return nil, err
		}
		o.Share = m
	}
	return r.Plan(ctx, spec, o)
}

// hasShare reports whether scheduled runs of a job are limited to shares of the month.
func hasShare(b job.Budget, spec *job.Spec) bool {
	return b.Pace == job.PaceEven && b.PerMonth != nil && !spec.Auto
}

// orderTurns puts the searches of a job in the order of their turns: those that ran longest ago, or never, first.
func (r *Reader) orderTurns(name string, asks []job.Ask) error {
	last := map[string]time.Time{}
	for i := range asks {
		at, err := r.Store.Watermarks.LastSearched(name, asks[i].Watermark)
		if err != nil {
			return err
		}
		last[asks[i].Watermark] = at
	}
	slices.SortStableFunc(asks, func(a, b job.Ask) int { return last[a.Watermark].Compare(last[b.Watermark]) })
	return nil
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
