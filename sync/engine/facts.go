package engine

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// # Facts for a plan
//
// A plan is drawn up by package plan, which knows no store and no clock. Here is read what it
// needs to know. Without a store the facts are those of a job that never ran, which is what
// lint prices.

// drawing says of which run a plan is drawn up.
type drawing struct {
	at     time.Time // when it begins or is due
	now    bool      // it begins now: it joins the scans that are live
	assume bool      // where SQL finds nothing now, one row is taken for granted
	share  bool      // it may be limited to its budget share
	calls  bool      // its data calls are counted

	ids func(sql, column string) ([]string, error) // what its SQL finds; [Engine.factsFor] asks the published tables
}

// findsNothing stands for SQL that is not asked.
func findsNothing(string, string) ([]string, error) { return nil, nil }

// draw draws up the plan of a run that is still to begin.
func (e *Engine) draw(ctx context.Context, spec *job.Spec, d drawing) (*plan.Plan, error) {
	facts, err := e.factsFor(ctx, spec, d)
	if err != nil {
		return nil, err
	}
	return plan.New(spec, facts)
}

// factsFor are facts for which SQL asks the published tables.
func (e *Engine) factsFor(ctx context.Context, spec *job.Spec, d drawing) (*plan.Facts, error) {
	d.ids = func(sql, column string) ([]string, error) {
		if e.IDs == nil {
			return nil, fmt.Errorf("no published tables to ask")
		}
		return e.IDs(ctx, sql, column)
	}
	return e.facts(spec, d)
}

// facts are what the plan of a run of spec needs to know.
func (e *Engine) facts(spec *job.Spec, d drawing) (*plan.Facts, error) {
	work, err := spec.Resolve(e.inputs(spec, d))
	if err != nil {
		return nil, err
	}
	f := e.terms()
	f.Now, f.Work = d.at, work
	for i := range work.Asks {
		if err := e.addAsk(f, spec, i, d); err != nil {
			return nil, err
		}
	}
	if d.calls {
		watch := plan.Frozen{Fetch: plan.FetchCalls(spec), IDs: work.IDs, Since: d.at}
		err = e.addCalls(f, spec.Name, &watch)
	}
	return f, err
}

// terms are facts that do not depend on a job.
func (e *Engine) terms() *plan.Facts {
	return &plan.Facts{
		Prices: e.Config.Service.Prices, Zone: e.Config.Timezone,
		Paging: map[outlier.Operation]string{}, Live: map[int]string{},
		Bought: map[string]time.Time{}, Searched: map[string]time.Time{}, Covered: map[string][]plan.Dates{},
		Unasked: map[outlier.Operation]int{}, Fresh: map[outlier.Operation]int{},
	}
}

// addAsk adds what is known of one search that the job asks for.
func (e *Engine) addAsk(f *plan.Facts, spec *job.Spec, i int, d drawing) (err error) {
	ask := &f.Work.Asks[i]
	if err := e.addPaging(f, ask.Op); err != nil || e.Store == nil {
		return err
	}
	if spec.SeedsFresh > 0 && len(ask.Seeds) > 0 {
		bought, err := e.Store.Runs.Watermark(spec.Name, boughtKey(ask.Watermark))
		if err != nil {
			return err
		}
		if !bought.After(d.at.Add(ledger.Skew)) { // else by a clock that was wrong
			f.Bought[ask.Watermark] = bought
		}
	}
	if _, known := f.Covered[ask.Watermark]; spec.Dates != nil && !known {
		if f.Covered[ask.Watermark], err = e.coveredDates(spec, ask.Watermark); err != nil {
			return err
		}
	}
	if d.share {
		if f.Searched[ask.Watermark], err = e.Store.Runs.LastSearched(spec.Name, ask.Watermark); err != nil {
			return err
		}
	}
	if d.now && ask.Op == outlier.OpStartScan {
		return e.addLive(f, i, &runs.Step{Params: ask.Params.Encode()}, spec.Again)
	}
	return nil
}

// addPaging adds what `from` counts at the endpoint that a step has its pages from.
func (e *Engine) addPaging(f *plan.Facts, op outlier.Operation) error {
	if op == outlier.OpStartScan {
		op = outlier.OpSearch // reads it
	}
	if _, known := f.Paging[op]; known {
		return nil
	}
	if e.Store == nil {
		f.Paging[op] = e.configuredPaging()
		return nil
	}
	p, err := e.Paging(op)
	f.Paging[op] = p.Reading
	return err
}

// addLive adds the scan of another step that a step would only repeat, if there is one.
func (e *Engine) addLive(f *plan.Facts, ordinal int, step *runs.Step, again bool) error {
	live, err := e.Store.Runs.LiveScan(wishOf(step, again))
	if err == nil && live != nil && live.ScanID != "" && live.Step != step.ID {
		f.Live[ordinal] = live.ScanID
	}
	return err
}

// addCalls adds which data calls wait, and which a watch has to make.
func (e *Engine) addCalls(f *plan.Facts, name string, frozen *plan.Frozen) (err error) {
	if e.Store == nil {
		for _, call := range frozen.Fetch {
			f.Unasked[call.Op] = len(frozen.IDs)
		}
		return nil
	}
	if f.Queued, err = e.Store.Queue.Queued(queue.Filter{Job: name}); err != nil {
		return err
	}
	now := time.Now()
	at := frozen.JudgedAt(now)
	for _, call := range frozen.Fetch {
		since := frozen.FreshSince(call, now)
		if f.Unasked[call.Op], err = e.Store.Queue.Unasked(name, call.Op, frozen.IDs, since, at); err != nil {
			return err
		}
		if f.Fresh[call.Op], err = e.Store.Queue.Fresh(call.Op, frozen.IDs, since, at); err != nil {
			return err
		}
	}
	return nil
}

// inputs are what resolving a job needs to know.
func (e *Engine) inputs(spec *job.Spec, d drawing) job.Inputs {
	return job.Inputs{
		Now: d.at, Assume: d.assume,
		Since: func(key string) (time.Time, error) {
			if e.Store == nil {
				return time.Time{}, nil
			}
			last, err := e.Store.Runs.Watermark(spec.Name, key)
			return earlier(last, d.at), err
		},
		IDs: d.ids,
	}
}

// continued is the plan of a run that has begun, as far as its steps have come. calls adds
// which data calls wait.
func (e *Engine) continued(name string, frozen plan.Frozen, steps []runs.Step, calls bool) (*plan.Plan, error) {
	f := e.terms()
	f.Now = time.Now()
	all := make([]plan.Step, len(steps))
	for i := range steps {
		step := &steps[i]
		paid, err := e.paidScan(step)
		if err != nil {
			return nil, err
		}
		all[i] = plannedStep(step, paid)
		if err := e.addPaging(f, step.Op); err != nil {
			return nil, err
		}
		if step.Op == outlier.OpStartScan && step.Stop == "" {
			if err := e.addLive(f, step.Ordinal, step, frozen.Again); err != nil {
				return nil, err
			}
		}
	}
	if calls {
		if err := e.addCalls(f, name, &frozen); err != nil {
			return nil, err
		}
	}
	return plan.Continue(frozen, all, f), nil
}

// plannedStep is a step of a run as package plan knows it.
func plannedStep(s *runs.Step, paid bool) plan.Step {
	return plan.Step{
		Ordinal: s.Ordinal, Op: s.Op, Item: s.Item, Queries: s.Queries, Seeds: s.Seeds,
		Params: s.Params, Window: s.Window, Watermark: s.Watermark, Scan: s.Scan, Paid: paid,
		Next: s.Next, Pages: s.Pages, Reading: s.Reading, Stop: s.Stop, Left: s.Left,
	}
}

// stepsOf are the steps of a plan as a run that has not begun has them on record.
func stepsOf(p *plan.Plan) []runs.Step {
	all := make([]runs.Step, len(p.Steps))
	for i := range p.Steps {
		s := &p.Steps[i]
		all[i] = runs.Step{
			Ordinal: s.Ordinal, Op: s.Op, Item: s.Item, Queries: s.Queries, Seeds: s.Seeds,
			Params: s.Params, Window: s.Window, Watermark: s.Watermark, Total: -1, Stop: s.Stop, Left: s.Left,
		}
	}
	return all
}

// priceOf is what one call of a step costs by the configured prices.
func (e *Engine) priceOf(step *runs.Step) outlier.Credits {
	return plan.Price(e.Config.Service.Prices, step.Op, step.Params)
}

// holdForReading is what is set aside to read the results of a scan.
func (e *Engine) holdForReading(f *plan.Frozen) outlier.Credits {
	return outlier.Credits(f.ReadPages()) * plan.PriceOfReading(e.Config.Service.Prices)
}

// stored reads the parameters of a step.
func stored(encoded string) (url.Values, error) {
	params, err := url.ParseQuery(encoded)
	if err != nil {
		return nil, fmt.Errorf("read the stored parameters %q: %w", encoded, err)
	}
	return params, nil
}
