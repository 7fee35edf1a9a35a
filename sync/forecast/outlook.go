package forecast

import (
	"context"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// lookAhead is how far ahead due runs are counted.
const lookAhead = 7 * 24 * time.Hour

// arrival is a later run, or a run that is still buying pages, with its calls that are not queued yet.
type arrival struct {
	job   string
	at    time.Time
	begun bool // the run has started
	pages int  // pages and other calls that precede data calls
	calls []expected
}

// expected are data calls of one kind.
type expected struct {
	value float64
	calls int
}

// unfinished is a run that will be resumed, and its open searches.
type unfinished struct {
	spec *job.Spec // only its name if the file has no such job
	run  *runs.Run
	plan plan.Stored
	open []runs.Step
	own  bool // the job's next run resumes it, not only the command that started it
}

// unfinishedRuns returns the unfinished runs of the file's jobs, in the order of the file. Runs in progress
// that belong to none of them come last: of one-off requests, and of jobs that were removed from the file.
func (r *Reader) unfinishedRuns() (all []unfinished, err error) {
	for i := range r.Facts.Config.Jobs {
		spec := &r.Facts.Config.Jobs[i]
		rows, err := r.Facts.ToResume(spec, time.Time{})
		if err != nil {
			return nil, err
		}
		for j := range rows {
			u, err := r.unfinished(spec, &rows[j].Run)
			if err != nil {
				return nil, err
			}
			u.own = rows[j].Held || !rows[j].Run.Overridden
			all = append(all, u)
		}
	}
	for row, err := range r.Facts.Store.Runs.Newest(runs.Filter{Status: runs.Running}) {
		if err != nil {
			return nil, err
		}
		if run := *row; r.Facts.Config.Job(run.Job) == nil {
			u, err := r.unfinished(&job.Spec{Name: run.Job}, &run)
			if err != nil {
				return nil, err
			}
			all = append(all, u)
		}
	}
	return all, nil
}

// unfinished returns a run with its open searches.
func (r *Reader) unfinished(spec *job.Spec, run *runs.Run) (u unfinished, err error) {
	u = unfinished{spec: spec, run: run}
	if u.plan, err = plan.Decode(run.Plan); err != nil {
		return u, err
	}
	u.open, err = r.Facts.Store.Runs.Steps(run.ID)
	u.open = slices.DeleteFunc(u.open, func(s runs.Step) bool { return s.Stop != "" })
	return u, err
}

// continuesByItself reports whether a process performs the run, or would as soon as one works on the
// job. A run that reached a cap or failed waits for the job's next due time, and an overridden one for
// the same command.
func (u *unfinished) continuesByItself() bool {
	return u.run.Status == runs.Running || u.run.Status.Open() && u.own
}

// pages returns how many pages an open search may still take: 0 if only the budget limits them, and for a
// scan, whose pages are read when it has ended.
func (u *unfinished) pages(step *runs.Step) int {
	if step.Query.Op() == outlier.OpStartScan || u.plan.Pages == job.AllPages {
		return 0
	}
	return max(0, u.plan.LimitOf(step.Ordinal, step.Scan)-step.Next)
}

// outlook returns the calls of later runs, soonest first. Runs in progress that are still buying pages
// come first.
func (r *Reader) outlook(ctx context.Context, now time.Time, going []unfinished) (all []arrival, err error) {
	expected := map[string]arrival{}
	pauses, err := r.Facts.Store.Runs.Pauses(now)
	if err != nil {
		return nil, err
	}
	for i := range r.Facts.Config.Jobs {
		spec := &r.Facts.Config.Jobs[i]
		if expected[spec.Name], err = r.expected(ctx, spec, now); err != nil {
			return nil, err
		}
		if spec.Scan != nil {
			continue // it takes hours until there are results to read
		}
		clock, zone, from := plan.Clock(r.Facts.Config, spec), r.Facts.Config.Timezone, now
		if paused := facts.PausedBy(r.Facts.Config, spec, pauses); paused != nil {
			if from = paused.Until; from.IsZero() {
				continue
			}
		}
		for due := clock.Coming(from, zone); !due.IsZero() && due.Before(now.Add(lookAhead)); due = clock.Next(due, zone) {
			a := expected[spec.Name]
			a.at = clock.Begins(due, zone)
			all = append(all, a)
		}
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return a.at.Compare(b.at) })
	var open []arrival
	for i := range going {
		u := &going[i]
		takesPages := func(s runs.Step) bool { return s.Query.Op() != outlier.OpStartScan }
		if !u.continuesByItself() || !slices.ContainsFunc(u.open, takesPages) {
			continue
		}
		a := expected[u.spec.Name]
		a.at, a.begun, a.pages = now, true, 0
		for i := range u.open {
			a.pages += u.pages(&u.open[i])
		}
		open = append(open, a)
	}
	return append(open, all...), nil
}

// expected returns the calls of a run of spec: the average of earlier runs, or without any, the maximum of
// its plan.
func (r *Reader) expected(ctx context.Context, spec *job.Spec, now time.Time) (arrival, error) {
	rows, err := r.Facts.Store.Runs.OwnRuns(spec.Name, expectFrom)
	if err != nil {
		return arrival{}, err
	}
	asked, n := map[outlier.Operation]int{}, 0 // totals over the runs
	for i := range rows {
		if !rows[i].Status.EndedWell() {
			continue
		}
		n++
		each, err := r.Facts.Store.Ledger.Asked(rows[i].ID)
		if err != nil {
			return arrival{}, err
		}
		for op, requests := range each {
			asked[op] += requests
		}
	}
	if n == 0 {
		return r.atMost(ctx, spec, now), nil
	}
	a := arrival{job: spec.Name}
	for _, call := range slices.Concat(plan.EnrichCalls(spec), plan.FetchCalls(spec)) {
		a.calls = append(a.calls, expected{call.Value, (asked[call.Op] + n/2) / n})
		delete(asked, call.Op)
	}
	for _, others := range asked { // these precede data calls, as pages do
		a.pages += (others + n/2) / n
	}
	return a, nil
}

// atMost returns the calls of a run of spec if every page is full, without those that depend on SQL, which
// only the run itself executes.
func (r *Reader) atMost(ctx context.Context, spec *job.Spec, now time.Time) arrival {
	a := arrival{job: spec.Name}
	p, err := r.Facts.Plan(ctx, spec, facts.Options{At: now, NoSQL: true})
	if err != nil {
		return a // the run will fail with this error and make no calls
	}
	_, a.pages = p.Buys(p.Stored.CapFor(spec.Budget))
	for _, call := range p.Stored.Enrich {
		a.calls = append(a.calls, expected{call.Value, call.Most(a.pages, len(p.Steps))})
	}
	for _, call := range p.Stored.Fetch {
		a.calls = append(a.calls, expected{call.Value, len(p.Stored.IDs)})
	}
	return a
}

// nextOf returns when a job is due after now, or the first job of its chain of `after`; zero for never.
func (r *Reader) nextOf(spec *job.Spec, now time.Time) time.Time {
	return plan.Clock(r.Facts.Config, spec).Next(now, r.Facts.Config.Timezone)
}
