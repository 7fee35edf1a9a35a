package engine

import (
	"context"
	"fmt"
	"math"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// # What a run may cost
//
// plan, lint, budget, what run says before it begins, the question whether it may cost that
// much, the cap of a run and its share of the month come from one function each for the two
// scarcities: [Engine.purchases] for what is bought, and [Engine.dataCalls] for what is free.
// A run that goes on is asked the same about what it has left, so that it never promises more
// than it did when it began.

// Cost is what a job may ask of the two scarcities, at worst.
type Cost struct {
	Credits  outlier.Credits `json:"credits"`  // if every answer arrives
	Lost     outlier.Credits `json:"cap"`      // if answers are lost and have to be asked for again: the run's cap
	Requests int             `json:"requests"` // if every answer arrives
}

// An item is what one open search asks for if every page is full.
type item struct {
	start outlier.Credits // of a scan that has still to be started, which is sent once
	looks int             // requests for a scan that are no pages
	whole bool            // all of it or nothing: a scan is started only if reading it fits, too
	price outlier.Credits // of a page
	pages int
}

func (i *item) credits() outlier.Credits { return i.start + outlier.Credits(i.pages)*i.price }

// least is the least of it that can be bought.
func (i *item) least() outlier.Credits {
	if i.whole {
		return i.credits()
	}
	return i.price
}

// items are what the open steps of a plan ask for, and once for each endpoint the page that
// may be wasted on learning what `from` counts.
func (e *Engine) items(plan frozen, steps []state.Step) (all []item, err error) {
	wasted := map[outlier.Operation]bool{}
	for i := range steps {
		step := &steps[i]
		if step.Stop != "" {
			continue
		}
		one, err := e.itemOf(plan, step)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
		if op := pagedBy(step); one.pages > 0 && !wasted[op] && e.mayWaste(plan, step) {
			wasted[op] = true
			all = append(all, item{price: one.price, pages: 1})
		}
	}
	return all, nil
}

// itemOf is what an open step has left to ask for. A scan is looked at for as long as it may
// last.
func (e *Engine) itemOf(plan frozen, step *state.Step) (item, error) {
	switch {
	case step.Op == outlier.OpTrendingFormats:
		return item{price: e.priceOf(step), pages: max(0, 1-step.Next)}, nil
	case step.Op != outlier.OpStartScan:
		return item{price: e.priceOf(step), pages: max(0, plan.limit(step)-step.Next)}, nil
	}
	started, err := e.paidScan(step)
	scan := item{price: e.priceOfReading(), pages: plan.readPages(), looks: 1 + looks(plan.Scan), whole: !started}
	if _, joins := plan.Joins[step.Ordinal]; !joins && !started {
		scan.start = e.priceOf(step)
	}
	return scan, err
}

// pagedBy is the endpoint that a step has its pages from. The results of a scan are read by a
// search.
func pagedBy(step *state.Step) outlier.Operation {
	if step.Op == outlier.OpStartScan {
		return outlier.OpSearch
	}
	return step.Op
}

// mayWaste reports whether a page of the step may be wasted on learning what `from` counts.
func (e *Engine) mayWaste(plan frozen, step *state.Step) bool {
	pages := plan.limit(step)
	if step.Op == outlier.OpStartScan {
		pages = plan.readPages()
	}
	return step.Op != outlier.OpTrendingFormats && pages > 1 && step.Reading == "" && e.countsUnknown(pagedBy(step))
}

// fit is how much of items can be had for so many credits, and how many pages that are.
func fit(items []item, room outlier.Credits) (c Cost, pages int) {
	left := max(0, room)
	for _, one := range items {
		if one.whole && one.credits() > left {
			continue
		}
		if !one.whole {
			one.pages = min(one.pages, int(left/max(1, one.price)))
		}
		left -= one.credits()
		c.Credits += one.credits()
		c.Requests += one.looks + one.pages
		pages += one.pages
	}
	return c, pages
}

// ifLost is what items cost if each page is asked for as often as a run would ask.
func ifLost(items []item) (sum outlier.Credits) {
	for _, one := range items {
		sum += one.start + outlier.Credits(one.pages)*one.price*maxAttempts
	}
	return sum
}

// purchases is what the open steps ask for at most for so many credits, and how many pages
// that are.
func (e *Engine) purchases(plan frozen, steps []state.Step, room outlier.Credits) (c Cost, pages int, err error) {
	items, err := e.items(plan, steps)
	c, pages = fit(items, room)
	c.Lost = min(ifLost(items), max(0, room))
	return c, pages, err
}

// least is the least that can be bought of what the open steps ask for; 0 if they ask for
// nothing.
func (e *Engine) least(plan frozen, steps []state.Step) (least outlier.Credits, err error) {
	items, err := e.items(plan, steps)
	for i := range items {
		if price := items[i].least(); least == 0 || price < least {
			least = price
		}
	}
	return least, err
}

// dataCalls is how many free calls a run makes at most after so many pages: those of earlier
// runs of the job that wait in the queue, and its own that do not wait there yet.
func (e *Engine) dataCalls(name string, plan frozen, steps []state.Step, pages int) (n int, err error) {
	if n, err = e.Store.Queued(state.Filter{Job: name}); err != nil {
		return 0, err
	}
	for i := range steps {
		if steps[i].Stop == "" { // what is wanted of the hits is queued once all searches have ended
			n += calls(plan, pages, len(steps))
			break
		}
	}
	for _, call := range plan.Fetch {
		more, err := e.Store.Unasked(name, call.Op, plan.IDs, plan.freshSince(call), plan.at())
		if err != nil {
			return 0, err
		}
		n += more
	}
	return n, nil
}

// calls is how many data calls are wanted of what so many pages of a run's searches bring at
// most.
func calls(plan frozen, pages, searches int) (n int) {
	for _, call := range plan.Enrich {
		hits := pages * pageSize
		if call.TopPerItem > 0 {
			hits = min(hits, call.TopPerItem*searches)
		}
		if call.Top > 0 {
			hits = min(hits, call.Top)
		}
		n += hits
	}
	return n
}

// cost is what a run that has not begun may ask for, within its own cap.
func (e *Engine) cost(spec *job.Spec, plan frozen, steps []state.Step) (Cost, error) {
	return e.costLeft(spec.Name, spec.Budget, plan, steps, state.Spend{})
}

// costLeft is what a run that has spent something may still ask for, within its own cap. A
// scan that was paid for is read, whatever number of requests that takes.
func (e *Engine) costLeft(name string, own job.JobBudget, plan frozen, steps []state.Step, spent state.Spend) (Cost, error) {
	c, pages, err := e.purchases(plan, steps, plan.cap(own)-spent.Charged-spent.Unknown-spent.Reserved)
	if err != nil {
		return c, err
	}
	for i := range steps {
		pages += steps[i].Pages
	}
	free, err := e.dataCalls(name, plan, steps, pages)
	c.Requests += free
	if plan.MaxRequests > 0 && plan.Scan == nil {
		c.Requests = min(c.Requests, max(0, plan.MaxRequests-int(spent.Requests)))
	}
	return c, err
}

// rest is what a run that is continued has left to do, and what that may cost: its open
// steps as they were meant when it began, within what its cap leaves.
func (e *Engine) rest(old *state.Run, own job.JobBudget) (open []state.Step, plan frozen, c Cost, err error) {
	if plan, err = thaw(old.Plan); err != nil {
		return nil, plan, c, err
	}
	steps, err := e.Store.Steps(old.ID)
	if err != nil {
		return nil, plan, c, err
	}
	spent, err := e.Store.Spent(old.ID)
	if err != nil {
		return nil, plan, c, err
	}
	if plan.Joins, err = e.joins(steps, plan.Again); err != nil {
		return nil, plan, c, err
	}
	for i := range steps {
		if steps[i].Stop == "" {
			open = append(open, steps[i])
		}
	}
	spent.Requests = max(spent.Requests, old.Requests)
	c, err = e.costLeft(old.Job, own, plan, steps, spent)
	return open, plan, c, err
}

// WorstCase is what a run of spec that begins now costs if every page is full. Nothing is
// sent; SQL is asked of the published tables.
func (e *Engine) WorstCase(ctx context.Context, spec *job.Spec) (Cost, error) {
	c, _, err := e.worstCase(ctx, spec, false)
	return c, err
}

// WorstCaseLater is what a run of spec that is to come costs if every page is full. Where
// SQL finds nothing now, one row is taken for granted, which is then reported.
func (e *Engine) WorstCaseLater(ctx context.Context, spec *job.Spec) (c Cost, assumed bool, err error) {
	return e.worstCase(ctx, spec, true)
}

func (e *Engine) worstCase(ctx context.Context, spec *job.Spec, later bool) (c Cost, assumed bool, err error) {
	in := e.inputs(ctx, spec, time.Now())
	in.Assume = later
	steps, plan, err := e.drawNow(spec, in)
	if err != nil {
		return c, false, err
	}
	c, err = e.cost(spec, plan, steps)
	return c, plan.assumed, err
}

// MayCost is the most that a run by hand of spec may cost, answers that are lost included:
// what is left of the cap of one that it continues, or else the cap of a new one, and no more
// than all other caps leave. later says that other runs come before it.
func (e *Engine) MayCost(ctx context.Context, spec *job.Spec, later bool) (outlier.Credits, error) {
	old, err := e.Continues(spec)
	if err != nil {
		return 0, err
	}
	if old == nil {
		in := e.inputs(ctx, spec, time.Now())
		in.Assume = later
		steps, plan, err := e.drawNow(spec, in)
		if err != nil {
			return 0, err
		}
		c, err := e.cost(spec, plan, steps)
		if err != nil {
			return 0, err
		}
		return e.affords(&state.Run{ID: "next", Job: spec.Name}, plan, spec.Budget, c)
	}
	_, plan, c, err := e.rest(old, spec.Budget)
	if err != nil {
		return 0, err
	}
	return e.affords(old, plan, spec.Budget, c)
}

// affords is the most that a run may cost, answers that are lost included: no more than all
// caps leave beside what it has set aside.
func (e *Engine) affords(run *state.Run, plan frozen, own job.JobBudget, c Cost) (outlier.Credits, error) {
	spent, err := e.Store.Spent(run.ID)
	if err != nil {
		return 0, err
	}
	leaves, err := e.leaves(run, plan, own)
	return min(c.Lost, leaves+spent.Held), err
}

// leaves is what the caps leave for a run now: its own, its job's, the day's and the cycle's.
func (e *Engine) leaves(run *state.Run, plan frozen, own job.JobBudget) (outlier.Credits, error) {
	least := outlier.Credits(math.MaxInt64)
	for _, c := range e.capsOf(run, plan, own)(e.Store.ServiceTime()) {
		held, err := e.Store.Held(c)
		if err != nil {
			return 0, err
		}
		least = min(least, max(0, c.Max-held))
	}
	return least, nil
}

// pace is the pace that counts: what was learned of it, or else what is configured.
func (e *Engine) pace() pace.Quota {
	if e.Pace != nil {
		now := e.Pace.Status()
		return pace.Quota{Requests: now.Limit, Window: now.Window}
	}
	return e.Config.Service.Limit
}

// PaceText is the pace that counts, for people, and what is configured where that is another.
func (e *Engine) PaceText() string {
	if e.Pace == nil {
		return e.Config.Service.Limit.String()
	}
	now := e.Pace.Status()
	if !now.Learned {
		return now.Pace()
	}
	return fmt.Sprintf("%s (service.limit is %s)", now.Pace(), e.Config.Service.Limit)
}

// Time is how long so many requests take at the pace that counts.
func (e *Engine) Time(requests int) time.Duration { return e.pace().Time(requests) }

// minutes is how long so many requests take, to the hundredth: less than a second.
func (e *Engine) minutes(requests int) float64 {
	return math.Round(e.Time(requests).Minutes()*100) / 100
}
