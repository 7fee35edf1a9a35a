package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"outlierd/outlier"
	"outlierd/sync/credit"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// run is one performance of a job.
type run struct {
	*Engine
	row      state.Run
	plan     frozen
	steps    []state.Step
	loader   *loader
	caps     func(time.Time) []credit.Cap
	calls    int       // made so far
	missed   int64     // found missing before this process took the run up
	until    time.Time // when its data calls stop; zero for never
	progress Progress
}

// Run performs spec once, or continues the run of it that a kill, a cap or an
// outage left unfinished. It returns the finished record; the error says why a run
// failed, or that ctx ended, in which case the run stays unfinished and the next
// call continues it.
func (e *Engine) Run(ctx context.Context, spec *job.Spec, trigger Trigger, due time.Time) (*state.Run, error) {
	loader, err := newLoader(ctx, e.Store, e.Sinks, e.log())
	if err != nil {
		return nil, err
	}
	row, err := e.begin(spec, trigger, due)
	if err != nil {
		return nil, fmt.Errorf("begin a run of job %s: %w", spec.Name, err)
	}
	r, err := e.resume(row, spec.Budget, loader)
	if err != nil {
		return row, err
	}
	return r.conclude(ctx, r.carryOut(ctx))
}

// resume takes up a run from its record. Only the caps are those of the file: a cap
// that was changed applies at once.
func (e *Engine) resume(row *state.Run, budget job.JobBudget, loader *loader) (*run, error) {
	plan, err := thaw(row.Plan)
	if err != nil {
		return nil, err
	}
	steps, err := e.Store.Steps(row.ID)
	if err != nil {
		return nil, err
	}
	r := &run{Engine: e, row: *row, plan: plan, steps: steps, loader: loader, missed: row.Missing}
	r.caps = e.capsOf(row, plan, budget)
	began := time.Now()
	if plan.StopAfter > 0 {
		r.until = began.Add(plan.StopAfter)
	}
	r.progress = Progress{
		Job: row.Job, Run: row.ID, Started: began, Pages: plan.Pages, PerRun: budget.PerRun,
		Tasks: map[outlier.Operation]int{},
	}
	r.updated()
	return r, nil
}

// carryOut does the work: what the sinks lack from before, the pages, the choice of
// what to ask about the hits, and those calls. They cost nothing, so a cap that ends
// the pages does not end them.
func (r *run) carryOut(ctx context.Context) error {
	if err := r.loader.load(ctx, true); err != nil {
		return err
	}
	capped := r.search(ctx)
	if capped != nil && !isCap(capped) {
		return capped
	}
	if err := r.choose(); err != nil {
		return err
	}
	// What earlier runs of the job left over comes along.
	return cmp.Or(r.drain(ctx, state.Filter{Job: r.row.Job}), capped)
}

// isCap reports whether an error is a cap that was reached: ours, or the balance at
// the service.
func isCap(err error) bool {
	_, ours := errors.AsType[*credit.Exceeded](err)
	return ours || kindOf(err) == outlier.NoCredits
}

// load lets the sinks follow from time to time, and readers see it when that is due.
func (r *run) load(ctx context.Context) error {
	if !r.loader.publishDue() {
		if r.calls++; r.calls%loadEvery != 0 {
			return nil
		}
		return r.loader.load(ctx, false)
	}
	if err := r.loader.load(ctx, true); err != nil {
		return err
	}
	return r.loader.publishAll(ctx)
}

// conclude loads what is left, settles the record and publishes, in this order, so
// that readers see the run's own last word. A stop must not lose what was paid
// for, so nothing here is interrupted by one.
func (r *run) conclude(ctx context.Context, cause error) (*state.Run, error) {
	cause = errors.Join(cause, r.loader.load(ctx, true), r.loader.problems())
	if err := r.record(ctx, cause); err != nil {
		return &r.row, errors.Join(cause, err)
	}
	before := r.loader.problems()
	failed := r.loader.publishAll(ctx)
	if after := r.loader.problems(); failed != nil || before == nil && after != nil {
		// Those who can still be told are told that it did not end as it seemed to.
		cause = errors.Join(cause, failed, after)
		cause = errors.Join(cause, r.record(ctx, cause), r.loader.publishAll(ctx))
	}
	if r.row.Status == state.PausedBudget {
		return &r.row, nil
	}
	return &r.row, cause
}

// record writes what became of the run. A run whose process was asked to stop
// stays running on record: it is unfinished, and the next one goes on with it.
func (r *run) record(ctx context.Context, cause error) error {
	spend, err := r.Store.Spent(r.row.ID)
	if err != nil {
		return err
	}
	row := &r.row
	row.Requests, row.Credits, row.Refunded = spend.Requests, spend.Charged+spend.Unknown, spend.Refunded
	row.Waited = spend.Waited
	row.Missing = r.missed + int64(r.progress.Missing)
	row.Failures = int64(r.progress.Failures)
	row.Pages, row.Hits, row.NewHits = 0, 0, 0
	for _, s := range r.steps {
		row.Pages += int64(s.Pages)
		row.Hits += int64(s.Hits)
		row.NewHits += int64(s.NewHits)
	}
	row.Rows = merged(row.Rows, r.loader.taken())
	row.Status, row.Error = r.status(ctx, cause), ""
	if cause != nil {
		row.Error = cause.Error()
	}
	row.Ended = time.Time{}
	if row.Status != state.Running {
		row.Ended = time.Now()
	}
	return r.Store.Finish(*row)
}

// status tells empty, cut by a cap, interrupted and failed apart: half of the value
// of a record is that these never look alike.
func (r *run) status(ctx context.Context, cause error) state.Status {
	switch {
	case cause != nil && ctx.Err() != nil:
		return state.Running
	case cause != nil && isCap(cause) && r.loader.problems() == nil:
		return state.PausedBudget
	case cause != nil:
		return state.Failed
	case r.progress.Failures > 0:
		return state.Partial
	case r.row.Hits == 0:
		return state.OKEmpty
	}
	return state.OK
}

func merged(a, b map[string]int64) map[string]int64 {
	sum := maps.Clone(b)
	for name, n := range a {
		sum[name] += n
	}
	return sum
}

// doing names the call under way.
func (r *run) doing(what string) {
	r.progress.Doing = what
	r.Engine.show(r.snapshot())
}

// updated refreshes what watchers see.
func (r *run) updated() { r.doing("") }

func (r *run) snapshot() Progress {
	p := r.progress
	p.Searches = append([]state.Step(nil), r.steps...)
	p.Tasks = maps.Clone(r.progress.Tasks)
	return p
}
