// Package facts reads from the state what planning needs to know about a job, and decides which
// unfinished runs are resumed.
//
// It only reads the state. Package engine, which performs runs, and package forecast, which
// predicts them, both get their plans here, so that a run does what was forecast.
//
// # Consistency
//
// The facts of a plan come from several tables and must be consistent: a page bought between two
// reads would count as done in one and as open in the other. A read-only process opens the state
// with [state.Peek], which uses one read transaction until it is closed. A process that has locked
// the folder is the only writer, and the goroutine that makes a plan also performs the runs. A
// transaction for each plan would add nothing, and would lock the file while the SQL of a job runs.
package facts

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// Reader reads facts. It neither sends requests nor writes.
type Reader struct {
	Config *job.Config
	Store  *state.Store
	Log    *slog.Logger // nil discards

	// IDs runs the SQL of a job over the published tables and returns one column of
	// the result, the first one for "". nil refuses every SQL.
	IDs func(ctx context.Context, sql, column string) ([]string, error)

	UseReserve bool // runs may spend the reserve of the budget
	Afresh     bool // start new runs instead of resuming unfinished ones
}

// Options say which run the facts are for.
type Options struct {
	At     time.Time // when it begins or is due
	Now    bool      // it begins now: it joins the scans that are live
	Assume bool      // where SQL finds nothing now, one row is assumed
	Share  *Month    // with `pace: even` it is limited to its share of this one; nil for no limit
	Calls  bool      // its data calls are counted
}

// Plan returns the plan of a run that has not begun.
func (r *Reader) Plan(ctx context.Context, spec *job.Spec, o Options) (*plan.Plan, error) {
	if spec.Rest != "" {
		return r.planRest(spec, o.Calls)
	}
	if o.Share != nil && !hasShare(r.Config.Budget, spec) {
		o.Share = nil
	}
	known, err := r.Facts(ctx, spec, o)
	if err != nil {
		return nil, err
	}
	p, err := plan.New(spec, known)
	if err == nil && o.Share != nil {
		wanted := p.Wants(spec.Budget)
		var share outlier.Credits
		if share, err = o.Share.shareOf(ctx, spec, wanted, o.At); share < wanted {
			p.Stored.Share = &share
		}
	}
	return p, err
}

// Facts returns what the plan of a run of spec depends on.
func (r *Reader) Facts(ctx context.Context, spec *job.Spec, o Options) (*plan.Facts, error) {
	since := func(key string) (time.Time, error) {
		last, err := r.Store.Watermarks.At(spec.Name, key)
		if o.At.Before(last) {
			last = o.At
		}
		return last, err
	}
	work, err := r.resolve(ctx, spec, o, since)
	if err != nil {
		return nil, err
	}
	if o.Share != nil {
		if err := r.orderTurns(spec.Name, work.Asks); err != nil {
			return nil, err
		}
	}
	f := factsWithoutJob(r.Config)
	f.Now, f.Work = o.At, work
	for i := range work.Asks {
		if err := r.addAsk(f, spec, i, o); err != nil {
			return nil, err
		}
	}
	if spec.Auto {
		if f.Market, err = r.market(ctx, spec, work, o.At); err != nil {
			return nil, err
		}
	}
	if o.Calls {
		watch := plan.Stored{Terms: spec.Terms, IDs: work.IDs, Since: o.At}
		err = r.addCalls(f, spec.Name, &watch)
	}
	return f, err
}

// Unknown returns the channels in the lists of spec whose ids the tables do not have; see [job.Resolved].
func (r *Reader) Unknown(ctx context.Context, spec *job.Spec, at time.Time) ([]string, error) {
	work, err := r.resolve(ctx, spec, Options{At: at}, nil)
	if unknown, ok := errors.AsType[*job.UnknownChannelsError](err); ok {
		return unknown.Channels, nil
	}
	return work.Unknown, err
}

// resolve returns what spec asks for. since returns when a watermark last moved, and is nil if none has.
func (r *Reader) resolve(ctx context.Context, spec *job.Spec, o Options, since func(string) (time.Time, error)) (
	job.Resolved, error) {
	if since == nil {
		since = func(string) (time.Time, error) { return time.Time{}, nil }
	}
	return spec.Resolve(job.Inputs{Now: o.At, Assume: o.Assume, Since: since, IDs: func(sql, column string) ([]string, error) {
		if r.IDs == nil {
			return nil, errors.New("there are no published tables to query")
		}
		return r.IDs(ctx, sql, column)
	}})
}

// factsWithoutJob returns the facts that do not depend on a job.
func factsWithoutJob(config *job.Config) *plan.Facts {
	return &plan.Facts{
		Prices: config.Service.Prices, Zone: config.Timezone,
		Paging: map[outlier.Operation]string{}, Live: map[int]string{},
		Bought: map[string]time.Time{}, Covered: map[string][]plan.Dates{},
		Unasked: map[outlier.Operation]int{}, Fresh: map[outlier.Operation]int{},
	}
}

// addAsk adds the facts about one search of the job.
func (r *Reader) addAsk(f *plan.Facts, spec *job.Spec, i int, o Options) (err error) {
	ask := &f.Work.Asks[i]
	if err := r.addPaging(f, ask.Query.Op()); err != nil {
		return err
	}
	if spec.SeedsFresh > 0 && len(ask.Seeds) > 0 {
		if f.Bought[ask.Watermark], err = boughtAt(r.Store.Watermarks, spec.Name, ask.Watermark, o.At); err != nil {
			return err
		}
	}
	if _, known := f.Covered[ask.Watermark]; spec.Backfill != nil && !known {
		if f.Covered[ask.Watermark], err = r.covered(spec, ask.Watermark); err != nil {
			return err
		}
	}
	if o.Now && ask.Query.Op() == outlier.OpStartScan {
		return r.addLive(f, i, &runs.Step{Query: ask.Query}, spec.Again)
	}
	return nil
}

// boughtAt returns when a job has bought seeds last; zero for never, or if a wrong clock has dated it later than now.
func boughtAt(in *runs.Watermarks, job, watermark string, now time.Time) (time.Time, error) {
	bought, err := in.At(job, BoughtKey(watermark))
	if bought.After(now.Add(ledger.Skew)) {
		bought = time.Time{}
	}
	return bought, err
}

// BoughtKey is the watermark of the last purchase of seeds. It moves with page one: if a cap
// prevents the other pages, page one is not bought again.
func BoughtKey(watermark string) string { return "bought: " + watermark }

// addPaging adds what `from` counts at the endpoint that a step is paged by.
func (r *Reader) addPaging(f *plan.Facts, op outlier.Operation) error {
	op = plan.PagedBy(op)
	if _, known := f.Paging[op]; known {
		return nil
	}
	p, err := Paging(r.Config, r.Store.Learned, op)
	f.Paging[op] = p.Reading
	return err
}

// addLive adds the id of a live scan that a step would only repeat, if there is one.
func (r *Reader) addLive(f *plan.Facts, ordinal int, step *runs.Step, again bool) error {
	live, err := r.Store.Scans.Live(ScanOf(step, again))
	if err == nil && live != nil && live.ScanID != "" && live.Step != step.ID {
		f.Live[ordinal] = live.ScanID
	}
	return err
}

// addCalls adds the counts of queued data calls and of those that a watch has to make.
func (r *Reader) addCalls(f *plan.Facts, name string, stored *plan.Stored) (err error) {
	if f.Queued, err = r.Store.Queue.Queued(queue.Filter{Job: name}); err != nil {
		return err
	}
	at := stored.JudgedAt(f.Now)
	for _, call := range stored.Fetch {
		since := stored.FreshSince(call, f.Now)
		if f.Unasked[call.Op], err = r.Store.Queue.Unasked(name, call.Op, stored.IDs, since, at); err != nil {
			return err
		}
		if f.Fresh[call.Op], err = r.Store.Queue.Fresh(call.Op, stored.IDs, since, at); err != nil {
			return err
		}
	}
	return nil
}

// Continue returns the plan of a run that has begun, with the progress of its steps. If calls is
// set, queued data calls are counted.
func (r *Reader) Continue(name string, stored plan.Stored, steps []runs.Step, calls bool) (
	*plan.Plan, error) {
	f := factsWithoutJob(r.Config)
	f.Now = time.Now()
	all := slices.Clone(steps)
	for i := range all {
		step := &all[i]
		var err error
		if step.Paid, err = paidScan(r.Store.Scans, step); err != nil {
			return nil, err
		}
		if err := r.addPaging(f, step.Query.Op()); err != nil {
			return nil, err
		}
		if step.Query.Op() == outlier.OpStartScan && step.Stop == "" {
			if err := r.addLive(f, step.Ordinal, step, stored.Again); err != nil {
				return nil, err
			}
		}
	}
	if calls {
		if err := r.addCalls(f, name, &stored); err != nil {
			return nil, err
		}
	}
	return plan.Continue(stored, all, f), nil
}

// Left returns what a resumed run still has to do and what that may cost: its steps as planned when
// it began, within what its cap leaves.
func (r *Reader) Left(old *runs.Run, own job.JobBudget) (p *plan.Plan, c plan.Cost, err error) {
	steps, err := r.Store.Steps.OfRun(old.ID)
	if err != nil {
		return nil, c, err
	}
	spent, err := spentBy(r.Store, old.ID)
	if err != nil {
		return nil, c, err
	}
	if p, err = r.Continue(old.Job, *old.Plan, steps, true); err != nil {
		return nil, c, err
	}
	return p, p.Cost(own, spent), nil
}

// spentBy returns what a run has used of its own caps.
func spentBy(s *state.Store, run string) (plan.Spent, error) {
	spent, err := s.Ledger.Spent(run)
	if err != nil {
		return plan.Spent{}, err
	}
	requests, err := ledger.Requests(s.DB, run)
	return plan.Spent{Credits: spent.Charged + spent.Unknown + spent.Reserved, Requests: int(requests)}, err
}

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
