package engine

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// Forecast is what would happen from now to the turn of the billing cycle, as far as
// configuration, state and caps tell. It is drawn up by what a run is drawn up by, so
// the two cannot disagree; nothing is sent, and nothing changes.
type Forecast struct {
	At      time.Time     `json:"at"`
	Cycle   CycleForecast `json:"cycle"`
	Jobs    []JobForecast `json:"jobs"`
	Orphans []Orphan      `json:"orphans,omitempty"`
	Refused []Refusal     `json:"refused,omitempty"` // why the service refuses calls for now
	Pace    string        `json:"pace"`              // that is believed in, and that minutes are counted at

	Paging []PagingForecast `json:"paging,omitempty"` // of the endpoints that the jobs told want several pages of
}

// PagingForecast is what is believed of `from` at an endpoint.
type PagingForecast struct {
	Op      outlier.Operation `json:"operation"`
	Counts  string            `json:"counts"`            // "page", "offset", or "" while it is not known
	Because string            `json:"because,omitempty"` // what has shown it
	Since   time.Time         `json:"since,omitzero"`    // when
}

// CycleForecast is the budget of the billing cycle, and how it is going to end.
type CycleForecast struct {
	From      time.Time        `json:"from"`
	To        time.Time        `json:"to"`
	Cap       *outlier.Credits `json:"cap"` // of runs on a schedule: budget.per_month less the reserve
	Reserve   outlier.Credits  `json:"reserve"`
	Held      outlier.Credits  `json:"held"`      // spent, reserved and unknown
	Wanted    outlier.Credits  `json:"wanted"`    // by all runs to come, if they go as earlier ones did
	Worst     outlier.Credits  `json:"worst"`     // of all runs to come, if every page is full, whatever the caps of all jobs leave
	Projected outlier.Credits  `json:"projected"` // held at the end
	LastsTo   time.Time        `json:"lasts_to,omitzero"`
}

// JobForecast is the next run of one job.
type JobForecast struct {
	Job       string           `json:"job"`
	After     string           `json:"after,omitempty"` // the job that fires it
	Disabled  bool             `json:"disabled,omitempty"`
	Due       []time.Time      `json:"due,omitempty"`              // the next three
	Runs      int              `json:"runs"`                       // due before the cycle turns
	Continues string           `json:"continues,omitempty"`        // the run that it goes on with; all below is what that one has left
	Standing  runs.Status      `json:"continues_status,omitempty"` // how that run stands
	Searches  []SearchForecast `json:"searches,omitempty"`
	Calls     int              `json:"calls,omitempty"`        // of a watch: data calls to make
	Fresh     int              `json:"fresh,omitempty"`        // of a watch: ids times kinds of data that need no call
	Where     []string         `json:"enrich_where,omitempty"` // which hits something is fetched for; empty for all
	Worst     Estimate         `json:"worst"`                  // and Worst.Lost is the run's cap
	Expected  Estimate         `json:"expected"`               // from what earlier runs brought, and what the caps leave; the worst case if there were none
	Basis     int              `json:"basis"`                  // how many runs Expected is drawn from
	Share     *outlier.Credits `json:"share,omitempty"`        // with budget.pace: even, the fair share if it is less than wanted
	Round     int              `json:"round,omitempty"`        // with a share: each search comes round every so many runs
	Cuts      []Cut            `json:"cuts,omitempty"`         // caps that leave less than the worst case
	Changes   []string         `json:"changes,omitempty"`      // since the last run
	Limited   *Limited         `json:"limited,omitempty"`      // what `pages` cut off in each of the latest runs
	Assumed   bool             `json:"assumed,omitempty"`      // its SQL finds nothing now: it costs what one row would, or what it came to before
	Problem   string           `json:"problem,omitempty"`      // why the job cannot be run; with Continues, not before a person has done something

	aside outlier.Credits // what the run that it goes on with has set aside: held already, whatever it reads
	whole outlier.Credits // what a run costs at worst that no share limits
	each  float64         // what such a run costs, as far as is known
	rest  outlier.Credits // what this run is expected to cost, whatever the caps of today leave
	least outlier.Credits // the least that it can buy
}

// Estimate is a cost together with the time that its requests take.
type Estimate struct {
	plan.Cost
	Minutes float64 `json:"minutes"` // if nothing else is under way
}

// SearchForecast is one search of the next run.
type SearchForecast struct {
	Op      outlier.Operation `json:"operation"`
	Item    string            `json:"item,omitempty"`
	Queries []string          `json:"queries,omitempty"`
	Seeds   []string          `json:"seeds,omitempty"`
	Window  string            `json:"window,omitempty"` // publication dates
	Pages   int               `json:"pages"`            // at most
	Credits outlier.Credits   `json:"credits"`          // at most, if no answer is lost
	Skipped string            `json:"skipped,omitempty"`
	Joins   string            `json:"joins,omitempty"` // id of the scan that is not started a second time; "this run" if a search before it starts it
}

// Cut says that a cap leaves less than a run may need.
type Cut struct {
	Cap    string          `json:"cap"`
	Max    outlier.Credits `json:"max"`
	Held   outlier.Credits `json:"held"`
	Leaves outlier.Credits `json:"leaves"`
	Wants  outlier.Credits `json:"wants"` // the run, if there were no cap
}

// Orphan is a job that is on record and not in the file.
type Orphan struct {
	Job        string `json:"job"`
	Queued     int    `json:"queued"`
	Unfinished string `json:"unfinished,omitempty"` // its unfinished run
	Watermarks int    `json:"watermarks"`
}

// Forecast tells what the jobs named would do, or all jobs.
func (e *Engine) Forecast(ctx context.Context, names ...string) (*Forecast, error) {
	now := time.Now()
	f := &Forecast{At: now, Pace: e.PaceText()}
	var err error
	if f.Refused, err = e.refusals(); err != nil {
		return nil, err
	}
	from, turn := ledger.CycleBounds(e.Store.Ledger.ServiceTime(), e.Config.Timezone, e.Config.Budget.Renews)
	f.Cycle.From, f.Cycle.To = from, turn
	d := &demands{calendar: plan.NewCalendar(e.Config, now, turn)}
	for i := range e.Config.Jobs {
		spec := &e.Config.Jobs[i]
		job, err := e.forecast(ctx, spec, now, d)
		if err != nil {
			return nil, err
		}
		wanted, worst := job.wanted()
		left, err := e.jobLeft(spec)
		if err != nil {
			return nil, err
		}
		f.Cycle.Wanted += min(wanted, left)
		f.Cycle.Worst += min(worst, left)
		if len(names) == 0 || slices.Contains(names, spec.Name) {
			f.Jobs = append(f.Jobs, *job)
		}
	}
	if err := e.pagings(f); err != nil {
		return nil, err
	}
	if f.Orphans, err = e.orphans(); err != nil {
		return nil, err
	}
	return f, e.project(&f.Cycle)
}

// pagings adds what is believed of the endpoints of which several pages are wanted.
func (e *Engine) pagings(f *Forecast) error {
	for _, job := range f.Jobs {
		for _, search := range job.Searches {
			op := search.Op
			if op == outlier.OpStartScan {
				op = outlier.OpSearch // reads it
			}
			if search.Pages < 2 || slices.ContainsFunc(f.Paging, func(p PagingForecast) bool { return p.Op == op }) {
				continue
			}
			p, err := e.Paging(op)
			if err != nil {
				return err
			}
			f.Paging = append(f.Paging, PagingForecast{Op: op, Counts: p.Reading, Because: p.Evidence, Since: p.Learned})
		}
	}
	return nil
}

// wanted is what the runs of a job would spend until the cycle turns if each got all that
// it asks for, and what they would spend at worst. What a run that goes on has left comes on
// top of those that are due, but for what it has set aside.
func (f *JobForecast) wanted() (expected, worst outlier.Credits) {
	expected = outlier.Credits(math.Round(float64(f.Runs) * f.each))
	worst = outlier.Credits(f.Runs) * f.whole
	if f.Continues != "" {
		expected += max(0, f.rest-f.aside)
		worst += max(0, f.Worst.Credits-f.aside)
	}
	return expected, max(worst, expected)
}

// jobLeft is what a job's own cap leaves of the cycle.
func (e *Engine) jobLeft(spec *job.Spec) (outlier.Credits, error) {
	if spec.Budget.PerMonth == nil {
		return math.MaxInt64, nil
	}
	cycle := ledger.Cycle(e.Store.Ledger.ServiceTime(), e.Config.Timezone, e.Config.Budget.Renews)
	held, err := e.Store.Ledger.Held(ledger.Cap{Scope: ledger.ScopeJobMonth, Period: ledger.JobCycle(spec.Name, cycle)})
	return max(0, *spec.Budget.PerMonth-held), err
}

// daysLeave is what the cap of a day leaves until the cycle turns.
func (e *Engine) daysLeave(c *CycleForecast) (outlier.Credits, error) {
	most, now := e.Config.Budget.PerDay, e.Store.Ledger.ServiceTime()
	if most == nil {
		return math.MaxInt64, nil
	}
	today, err := e.Store.Ledger.Held(ledger.Cap{Scope: ledger.ScopeDay, Period: ledger.Day(now, e.Config.Timezone)})
	days := outlier.Credits((c.To.Sub(now) + 24*time.Hour - 1) / (24 * time.Hour))
	return max(0, days**most-today), err
}

// project says how the cycle ends if its runs go as earlier ones did.
func (e *Engine) project(c *CycleForecast) error {
	budget, now := e.Config.Budget, e.Store.Ledger.ServiceTime()
	balance, err := e.Store.Ledger.Balance(ledger.Cap{Scope: ledger.ScopeMonth, Period: ledger.Cycle(now, e.Config.Timezone, budget.Renews)})
	if err != nil {
		return err
	}
	held := balance.Taken()
	days, err := e.daysLeave(c)
	if err != nil {
		return err
	}
	c.Wanted, c.Worst = min(c.Wanted, days), min(c.Worst, days)
	c.Held, c.Projected = held, held+c.Wanted
	if budget.PerMonth == nil {
		return nil
	}
	if budget.Reserve != nil {
		c.Reserve = *budget.Reserve
	}
	most := *budget.PerMonth + balance.Bought() - c.Reserve
	c.Cap, c.Projected = &most, max(held, min(c.Projected, most))
	// Who is served first leaves nothing for the last days; shares are cut so that they last.
	if left := most - held; c.Wanted > left && left >= 0 && budget.Pace != job.PaceEven {
		c.LastsTo = now.Add(time.Duration(float64(c.To.Sub(now)) * float64(left) / float64(c.Wanted)))
	}
	return nil
}

// forecast is the next run of one job.
func (e *Engine) forecast(ctx context.Context, spec *job.Spec, now time.Time, d *demands) (*JobForecast, error) {
	f := &JobForecast{Job: spec.Name, After: spec.After, Disabled: spec.Disabled, Runs: d.calendar.Runs(spec, now)}
	for due := spec.Next(now, e.Config.Timezone); !due.IsZero() && len(f.Due) < 3; due = spec.Next(due, e.Config.Timezone) {
		f.Due = append(f.Due, due)
	}
	old, err := e.Continues(spec)
	if err != nil {
		return nil, err
	}
	var p *plan.Plan
	if old != nil {
		p, err = e.continuation(ctx, f, spec, old, now)
	} else {
		p, err = e.foresee(ctx, spec, f, now, d)
	}
	if err != nil {
		f.Problem = err.Error()
		return f, ctx.Err()
	}
	return f, e.fill(f, spec, p)
}

// continuation is what the run that a job goes on with has left. Those after it begin anew;
// if it is not known what they ask for, they are taken to cost as little as the rest.
func (e *Engine) continuation(ctx context.Context, f *JobForecast, spec *job.Spec, old *runs.Run, now time.Time) (*plan.Plan, error) {
	spent, err := e.Store.Ledger.Spent(old.ID)
	if err != nil {
		return nil, err
	}
	f.Continues, f.Standing, f.aside = old.ID, old.Status, spent.Held
	if later, unknown := e.draw(ctx, spec, drawing{at: now, assume: true}); unknown == nil {
		f.whole = later.Wants(spec.Budget)
	}
	p, cost, err := e.rest(old, spec.Budget)
	if err != nil {
		return nil, err
	}
	f.Worst.Cost = cost
	return p.Open(), nil
}

// foresee draws up the plan of the next run of a job as it will be when it is due, if
// nothing else is spent until then. One that is due after the cycle has turned, or only
// by hand, takes no share of this cycle. SQL finds something by then, or has found it in
// earlier runs.
func (e *Engine) foresee(ctx context.Context, spec *job.Spec, f *JobForecast, now time.Time, all *demands) (*plan.Plan, error) {
	d := drawing{at: now, now: true, assume: true, share: f.Runs > 0 && e.shares(), calls: true}
	if due := e.nextOf(spec, now); !due.IsZero() {
		d.at, d.now = due, false
	}
	p, err := e.draw(ctx, spec, d)
	if err != nil {
		return nil, err
	}
	f.whole, f.Assumed = p.Wants(spec.Budget), p.Assumed
	if d.share {
		if err := e.limit(ctx, all, spec, p, d.at); err != nil {
			return nil, err
		}
	}
	f.Share = p.Frozen.Share
	f.Worst.Cost = p.Cost(spec.Budget, plan.Spent{})
	return p, nil
}

// fill adds to a forecast what follows from the steps of the run.
func (e *Engine) fill(f *JobForecast, spec *job.Spec, p *plan.Plan) (err error) {
	f.Round = p.Round()
	if len(p.Frozen.Enrich) > 0 {
		f.Where = enrichWhere(&p.Frozen, true)
	}
	f.Searches = searchForecasts(p, f.Worst.Credits)
	f.Calls, f.Fresh = p.Freshness()
	for _, add := range []func() error{
		func() error { return e.expect(f, spec, p) },
		func() error { return e.cuts(f, spec, p.Frozen) },
		func() error { f.curb(); return nil },
		func() error { return e.changed(f, spec, p) },
		func() error { return e.unsettled(f) },
	} {
		if err := add(); err != nil {
			return err
		}
	}
	if f.Limited, err = e.Limited(spec); err != nil {
		return err
	}
	f.Worst.Minutes, f.Expected.Minutes = e.minutes(f.Worst.Requests), e.minutes(f.Expected.Requests)
	return nil
}

// searchForecasts are the searches one by one. Of one without an end, most is the end.
func searchForecasts(p *plan.Plan, most outlier.Credits) []SearchForecast {
	var all []SearchForecast
	for i := range p.Steps {
		step := &p.Steps[i]
		s := SearchForecast{
			Op: step.Op, Item: step.Item, Queries: step.Queries, Seeds: step.Seeds, Window: step.Window, Skipped: step.Stop,
		}
		if step.Stop == "" {
			s.Pages, s.Credits = p.LeftOf(i, most)
			if scan, joins := p.Frozen.Joins[step.Ordinal]; joins {
				s.Joins = cmp.Or(scan, "this run")
			}
		}
		all = append(all, s)
	}
	return all
}

// cuts are the caps that leave less than the next run may need beside what is set aside
// for it.
func (e *Engine) cuts(f *JobForecast, spec *job.Spec, frozen plan.Frozen) error {
	var wanted outlier.Credits // without a cap
	for _, search := range f.Searches {
		wanted += search.Credits
	}
	wanted = max(0, max(wanted, f.Worst.Credits)-f.aside)
	run := &runs.Run{ID: cmp.Or(f.Continues, "next"), Job: spec.Name}
	at := e.Store.Ledger.ServiceTime()
	if f.Continues == "" && len(f.Due) > 0 && f.Due[0].After(at) {
		at = f.Due[0]
	}
	for _, c := range e.capsOf(run, frozen, spec.Budget)(at) {
		held, err := e.Store.Ledger.Held(c)
		if err != nil {
			return err
		}
		if c.Scope == ledger.ScopeRun && frozen.Share != nil {
			continue // the share tells it
		}
		if leaves := max(0, c.Max-held); leaves < wanted {
			f.Cuts = append(f.Cuts, Cut{Cap: c.String(), Max: c.Max, Held: held, Leaves: leaves, Wants: wanted})
		}
	}
	return nil
}

// orphans are jobs on record that the file does not have.
func (e *Engine) orphans() ([]Orphan, error) {
	names, err := e.Store.Jobs()
	if err != nil {
		return nil, err
	}
	var all []Orphan
	for _, name := range names {
		if e.Config.Job(name) != nil {
			continue
		}
		orphan := Orphan{Job: name}
		marks, err := e.Store.Runs.Watermarks(name)
		if err != nil {
			return nil, err
		}
		orphan.Watermarks = len(marks)
		if orphan.Queued, err = e.Store.Queue.Queued(queue.Filter{Job: name}); err != nil {
			return nil, err
		}
		old, err := e.Store.Runs.Unfinished(name)
		if err != nil {
			return nil, err
		}
		if len(old) > 0 {
			orphan.Unfinished = old[len(old)-1].ID
		}
		if orphan.Watermarks+orphan.Queued > 0 || len(old) > 0 {
			all = append(all, orphan)
		}
	}
	return all, nil
}

// WorstCycle is what the scheduled runs of a cycle of 31 days cost together if every page is
// full and days and jobs keep to their caps, whatever that of the cycle leaves. The cycle from
// July to August stands for all: no clock changes in it.
func (e *Engine) WorstCycle(ctx context.Context) (sum outlier.Credits, err error) {
	begin := time.Date(2026, time.July, e.Config.Budget.Renews, 0, 0, 0, 0, e.Config.Timezone)
	calendar := plan.NewCalendar(e.Config, begin.Add(-time.Second), begin.AddDate(0, 0, 31))
	for i := range e.Config.Jobs {
		spec := &e.Config.Jobs[i]
		rows := calendar.Runs(spec, begin.Add(-time.Second))
		if spec.Disabled || rows == 0 {
			continue
		}
		cost, _, err := e.WorstCaseLater(ctx, spec)
		if ctx.Err() != nil {
			return 0, err
		}
		if err != nil {
			continue // it cannot run, which is said elsewhere
		}
		all := outlier.Credits(rows) * cost.Credits
		if most := spec.Budget.PerMonth; most != nil {
			all = min(all, *most)
		}
		sum += all
	}
	if most := e.Config.Budget.PerDay; most != nil {
		sum = min(sum, 31**most)
	}
	return sum, nil
}
