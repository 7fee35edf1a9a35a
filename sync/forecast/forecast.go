// Package forecast computes what would happen: what the next runs cost and find, how the billing
// cycle ends, when queued calls are made, and what blocks them.
//
// It sends and changes nothing. Package facts makes its plans, as it makes those of runs, so that runs
// do what was forecast.
package forecast

import (
	"cmp"
	"context"
	"math"
	"net/url"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// Reader computes forecasts from the state and the learned pace.
type Reader struct {
	*facts.Reader

	Pace *pace.Limiter // if nil, time is counted at the configured pace, and there is no queue
	Key  string        // fingerprint of the key whose blocks apply; "" for any
	Kept bool          // 'outlierd up' is running, and resumes waiting runs by itself
}

// Forecast is what would happen until the end of the billing cycle, according to configuration, state
// and caps.
type Forecast struct {
	At      time.Time      `json:"at"`
	Cycle   Cycle          `json:"cycle"`
	Jobs    []Job          `json:"jobs"`
	Orphans []string       `json:"orphans,omitempty"` // jobs with cursors that are not in the job file
	Refused []ledger.Block `json:"refused,omitempty"` // why the service refuses calls now
	Pace    string         `json:"pace"`              // learned or configured; minutes are computed from it

	Paging []journal.Paging `json:"paging,omitempty"` // of the endpoints from which jobs want several pages
}

// Cycle is the budget of the billing cycle, and its projected end.
type Cycle struct {
	From      time.Time        `json:"from"`
	To        time.Time        `json:"to"`
	Cap       *outlier.Credits `json:"cap"` // of scheduled runs: budget.per_month minus the reserve
	Reserve   outlier.Credits  `json:"reserve"`
	Held      outlier.Credits  `json:"held"`      // spent, reserved and unknown
	Wanted    outlier.Credits  `json:"wanted"`    // by all later runs if they cost as much as earlier ones
	Worst     outlier.Credits  `json:"worst"`     // the same if every page is full, without caps
	Projected outlier.Credits  `json:"projected"` // held at the end of the cycle
	LastsTo   time.Time        `json:"lasts_to,omitzero"`
}

// Job is the next run of one job.
type Job struct {
	Job        string             `json:"job"`
	After      string             `json:"after,omitempty"` // the job that starts it
	Disabled   bool               `json:"disabled,omitempty"`
	Due        []time.Time        `json:"due,omitempty"`        // the next three due times
	Begins     time.Time          `json:"begins,omitzero"`      // the first of these, if jitter delays it
	Paused     *runs.Pause        `json:"paused,omitempty"`     // of the job or its parent
	Runs       int                `json:"runs"`                 // due before the cycle ends, or to follow one
	Continues  string             `json:"continues,omitempty"`  // the unfinished run that it resumes
	Unfinished []facts.Unfinished `json:"unfinished,omitempty"` // what becomes of each unfinished run
	Searches   []Search           `json:"searches,omitempty"`
	Calls      int                `json:"calls,omitempty"`        // data calls to make, for a watch
	Fresh      int                `json:"fresh,omitempty"`        // calls skipped as fresh, for a watch
	Where      []string           `json:"enrich_where,omitempty"` // hits to fetch data for; empty for all
	Worst      Estimate           `json:"worst"`                  // Worst.Lost is the run's cap
	Expected   Estimate           `json:"expected"`               // from earlier runs; Worst if there were none
	Basis      int                `json:"basis"`                  // number of runs from which Expected is computed
	Auto       *plan.Auto         `json:"auto,omitempty"`         // what `schedule: auto` decides for the run
	Share      *outlier.Credits   `json:"share,omitempty"`        // with `pace: even`, if it is less than wanted
	Round      int                `json:"round,omitempty"`        // with a share: runs until each search is made
	Cuts       []Cut              `json:"cuts,omitempty"`         // caps that leave less than the worst case needs
	Changes    []string           `json:"changes,omitempty"`      // since the last run
	Limited    *Limited           `json:"limited,omitempty"`      // what `pages` left out in each of the latest runs
	Assumed    bool               `json:"assumed,omitempty"`      // SQL finds nothing now, and one row is assumed
	Unknown    []string           `json:"unknown,omitempty"`      // channels whose ids are not known; see [job.Resolved]
	Problem    string             `json:"problem,omitempty"`      // why it cannot run, and what to do

	later bool            // the resumed run waits for a due time after the end of the cycle
	held  outlier.Credits // the hold of the resumed run, which is counted already
	whole outlier.Credits // worst-case cost of a run without a share
	each  float64         // expected cost of such a run
	rest  outlier.Credits // expected cost of this run without the caps
	least outlier.Credits // its smallest purchase

	follows int // runs that follow those of its parent which have begun, see countFollowing
}

// Estimate is a cost together with the time that its requests take.
type Estimate struct {
	plan.Cost
	Minutes float64 `json:"minutes"` // if no other job runs
}

// Search is one search of the next run.
type Search struct {
	Op      outlier.Operation `json:"operation"`
	Item    string            `json:"item,omitempty"`
	Queries []string          `json:"queries,omitempty"`
	Seeds   []string          `json:"seeds,omitempty"`
	Window  string            `json:"window,omitempty"` // publication dates
	Pages   int               `json:"pages"`            // maximum
	Credits outlier.Credits   `json:"credits"`          // maximum if no answer is lost
	Skipped string            `json:"skipped,omitempty"`

	Filters    []string   `json:"filters,omitempty"`    // in the words of the file, without publication dates
	Sort       string     `json:"sort,omitempty"`       // the same; of a scan, how its results are read
	Parameters url.Values `json:"parameters,omitempty"` // as they are sent, without `from`
	Read       url.Values `json:"read,omitempty"`       // of a scan: the parameters that read its results

	// Joins is the id of the scan that is joined instead of starting one; "this run" if an earlier
	// search of the run starts that scan.
	Joins string `json:"joins,omitempty"`
}

// Cut is a cap that leaves less than a run may need.
type Cut struct {
	Cap    string          `json:"cap"`
	Max    outlier.Credits `json:"max"`
	Held   outlier.Credits `json:"held"`
	Leaves outlier.Credits `json:"leaves"`
	Wants  outlier.Credits `json:"wants"` // what the run needs without the cap
}

// Forecast returns what the named jobs would do, or all jobs.
func (r *Reader) Forecast(ctx context.Context, names ...string) (*Forecast, error) {
	now := time.Now()
	f := &Forecast{At: now, Pace: r.PaceText()}
	var err error
	if f.Refused, err = r.Refusals(); err != nil {
		return nil, err
	}
	from, turn := r.Caps().CycleBounds()
	f.Cycle.From, f.Cycle.To = from, turn
	c := &calculation{Reader: r, now: now}
	if err := c.readRuns(turn); err != nil {
		return nil, err
	}
	for i := range r.Config.Jobs {
		spec := &r.Config.Jobs[i]
		next, err := c.forecastJob(ctx, spec)
		if err != nil {
			return nil, err
		}
		wanted, worst := next.costOfCycle()
		left, err := r.Caps().LeftOfJob(spec, r.Store.Clock.Now())
		if err != nil {
			return nil, err
		}
		f.Cycle.Wanted += min(wanted, left)
		f.Cycle.Worst += min(worst, left)
		if len(names) == 0 || slices.Contains(names, spec.Name) {
			f.Jobs = append(f.Jobs, *next)
		}
	}
	if err := r.addPaging(f); err != nil {
		return nil, err
	}
	if f.Orphans, err = r.findOrphans(); err != nil {
		return nil, err
	}
	return f, projectCycle(&f.Cycle, r.Caps())
}

// addPaging adds how `from` is believed to count at the endpoints whose jobs want several pages.
func (r *Reader) addPaging(f *Forecast) error {
	for _, job := range f.Jobs {
		for _, search := range job.Searches {
			op := plan.PagedBy(search.Op)
			if search.Pages < 2 || slices.ContainsFunc(f.Paging, func(p journal.Paging) bool { return p.Op == op }) {
				continue
			}
			p, err := facts.Paging(r.Config, r.Store.Learned, op)
			if err != nil {
				return err
			}
			f.Paging = append(f.Paging, p)
		}
	}
	return nil
}

// costOfCycle returns what the runs of a job would spend until the end of the cycle without limits, expected
// and in the worst case. It adds the rest of an unfinished run that continues by then, less its hold, to the runs that
// are due.
func (f *Job) costOfCycle() (expected, worst outlier.Credits) {
	expected = outlier.Credits(math.Round(float64(f.Runs) * f.each))
	worst = outlier.Credits(f.Runs) * f.whole
	if f.Continues != "" && !f.later {
		expected += max(0, f.rest-f.held)
		worst += max(0, f.Worst.Credits-f.held)
	}
	return expected, max(worst, expected)
}

// projectCycle computes the end of the cycle if its runs cost as much as earlier ones.
func projectCycle(c *Cycle, caps *facts.Caps) error {
	now := caps.Clock.Now()
	shared, err := sharedCaps(caps, now)
	if err != nil {
		return err
	}
	month, day := shared[0], shared[1]
	if day.Max != nil {
		left := max(0, outlier.Credits(ledger.Days(now, c.To, caps.Config.Timezone))**day.Max-day.Held)
		c.Wanted, c.Worst = min(c.Wanted, left), min(c.Worst, left)
	}
	c.Held, c.Projected, c.Reserve = month.Held, month.Held+c.Wanted, month.Kept
	if month.Max == nil {
		return nil
	}
	most := *month.Raised() - month.Kept
	c.Cap, c.Projected = &most, max(c.Held, min(c.Projected, most))
	// Without shares, the first runs leave nothing for the last days. Shares last until the end.
	if left := most - c.Held; c.Wanted > left && left >= 0 && caps.Config.Budget.Pace != job.PaceEven {
		c.LastsTo = now.Add(time.Duration(float64(c.To.Sub(now)) * float64(left) / float64(c.Wanted)))
	}
	return nil
}

// calculation is what the forecasts of all jobs share.
type calculation struct {
	*Reader
	now        time.Time
	month      *facts.Month // the rest of the cycle
	pending    []runs.Due
	unfinished []facts.Unfinished
}

func (c *calculation) readRuns(turn time.Time) (err error) {
	if c.month, err = c.Reader.Reader.Month(job.NewCalendar(c.Config, c.now, turn), c.now); err != nil {
		return err
	}
	if c.pending, err = c.Store.Schedule.Dues(); err != nil {
		return err
	}
	c.unfinished, err = c.unfinishedRuns()
	return err
}

// forecastJob returns the next run of one job.
func (c *calculation) forecastJob(ctx context.Context, spec *job.Spec) (*Job, error) {
	f := &Job{Job: spec.Name, After: spec.After, Disabled: spec.Disabled}
	zone, from := c.Config.Timezone, c.now
	if f.Paused = facts.PausedBy(c.Config, spec, c.month.Pauses); f.Paused != nil {
		from = f.Paused.Until
	} else {
		f.follows = c.countFollowing(spec)
	}
	f.Runs = f.follows + c.month.RunsOf(spec, c.now)
	for due := spec.Coming(from, zone); !from.IsZero() && !due.IsZero() && len(f.Due) < 3; due = spec.Next(due, zone) {
		f.Due = append(f.Due, due)
	}
	if len(f.Due) > 0 && spec.Jitter > 0 {
		f.Begins = spec.Begins(f.Due[0], zone)
	}
	for i := range c.unfinished {
		if c.unfinished[i].Spec == spec {
			f.Unfinished = append(f.Unfinished, c.unfinished[i])
		}
	}
	p, err := c.planJob(ctx, f, spec)
	if err != nil {
		f.Problem = err.Error()
		return f, ctx.Err()
	}
	return f, c.addSteps(f, spec, p)
}

// countFollowing returns how many runs of a job with `after` will be made because those of its parent have begun:
// those that are recorded as pending, and one for each scheduled run that is still searching, of the parent or of
// a job that the parent comes after.
func (c *calculation) countFollowing(spec *job.Spec) (n int) {
	for of := range c.Config.Chain(spec) {
		for i := range c.unfinished {
			u := &c.unfinished[i]
			if of != spec && u.Spec == of && u.Continues() && u.Run.Trigger != runs.Manual && !u.Run.Due.IsZero() &&
				u.Run.Status.Open() && slices.ContainsFunc(u.Steps, func(s runs.Step) bool { return s.Stop == "" }) {
				n++
			}
		}
		if of.After == "" || of.Disabled {
			break
		}
		for _, p := range c.pending {
			if p.Job == of.Name {
				n++
			}
		}
	}
	return n
}

// planJob returns the plan of what the job does next: the rest of an unfinished run, or a new one at the time when
// it is due, if nothing else is spent until then. One that is due in the next cycle, or only by hand, has no share
// of this cycle. SQL is assumed to find rows by then. If the plan of a new run is unknown, later runs are assumed
// to cost as much as the rest.
func (c *calculation) planJob(ctx context.Context, f *Job, spec *job.Spec) (*plan.Plan, error) {
	old, o := facts.Continued(f.Unfinished), facts.Options{At: c.now, Assume: true, Calls: true}
	if old < 0 {
		if due := nextOf(c.Config, spec, c.now); f.follows == 0 && !due.IsZero() {
			o.At = due
		}
		o.Now = o.At.Equal(c.now)
		if f.Runs > 0 {
			o.Share = c.month
		}
	}
	p, err := c.Plan(ctx, spec, o)
	if err == nil {
		whole := *p
		whole.Stored.Share = nil
		f.whole = whole.Wants(spec.Budget)
	}
	if old >= 0 {
		run := &f.Unfinished[old].Run
		spent, err := c.Store.Ledger.Spent(run.ID)
		if err == nil {
			f.Continues, f.held = run.ID, spent.Held
			f.later = f.Runs == 0 && f.Unfinished[old].Fate == facts.Wait && c.waitsForLater(spec, run)
			p, f.Worst.Cost, err = c.Left(run, spec.Budget)
		}
		if err != nil {
			return nil, err
		}
		return p.Open(), nil
	}
	if err == nil {
		f.Assumed, f.Share = p.Assumed, p.Stored.Share
		f.Worst.Cost = p.Cost(spec.Budget, plan.Spent{})
	}
	return p, err
}

// waitsForLater reports whether an unfinished run waits for a due time of its job that has not passed yet.
func (c *calculation) waitsForLater(spec *job.Spec, run *runs.Run) bool {
	return !run.Status.Open() && !nextOf(c.Config, spec, c.now).IsZero() &&
		!slices.ContainsFunc(c.pending, func(d runs.Due) bool { return d.Job == spec.Name })
}

// addSteps adds to a forecast what depends on the steps of the run.
func (c *calculation) addSteps(f *Job, spec *job.Spec, p *plan.Plan) error {
	f.Round, f.Unknown = p.Round(), p.Stored.Unknown
	if len(p.Stored.Enrich) > 0 {
		f.Where = job.Conditions(p.Stored.HitParams())
	}
	f.Searches, f.Auto = searchForecasts(p, f.Worst.Credits), p.Stored.Auto
	f.Calls, f.Fresh = p.Freshness()
	h, err := ReadHistory(c.Store, spec)
	if err != nil {
		return err
	}
	f.Limited = h.Limited(spec, c.Config.Service.Prices)
	f.addExpected(h, spec, p, c.Config.Service.Prices)
	if err := c.addCuts(f, spec, p); err != nil {
		return err
	}
	if err := c.addChanges(f, spec, p, h); err != nil {
		return err
	}
	f.Worst.Minutes, f.Expected.Minutes = c.minutesFor(f.Worst.Requests), c.minutesFor(f.Expected.Requests)
	return c.addUnsettled(f, p)
}

// searchForecasts returns the forecasts of the searches. A search without an end is limited by most.
func searchForecasts(p *plan.Plan, most outlier.Credits) []Search {
	var all []Search
	var expected []int
	if p.Stored.Auto != nil {
		expected = p.Stored.Auto.Expected()
	}
	for i := range p.Steps {
		step := &p.Steps[i]
		s := Search{
			Op: step.Query.Op(), Item: step.Item, Queries: step.Queries, Seeds: step.Seeds,
			Window: step.Window, Skipped: step.Stop, Parameters: step.Query.Params(),
		}
		found := step.Query // what returns the hits
		if _, scan := p.Stored.Reads[step.Ordinal]; scan {
			found = p.Stored.ReadOf(step.Ordinal)
			s.Read = found.Params()
		}
		s.Filters, s.Sort = job.FiltersAndSort(found)
		if step.Stop == "" {
			s.Pages, s.Credits = p.LeftOf(i, most)
			if expected != nil {
				s.Credits = s.Credits / outlier.Credits(max(1, s.Pages)) * outlier.Credits(expected[step.Ordinal])
				s.Pages = expected[step.Ordinal]
			}
			if scan, joins := p.Stored.Joins[step.Ordinal]; joins {
				s.Joins = cmp.Or(scan, "this run")
			}
		}
		all = append(all, s)
	}
	return all
}

// addCuts adds the caps that leave less than the next run may need in addition to its hold, and limits the
// estimate to what they leave.
func (c *calculation) addCuts(f *Job, spec *job.Spec, p *plan.Plan) error {
	f.rest = f.Expected.Credits
	var wanted outlier.Credits // without the cap
	for _, search := range f.Searches {
		if p.Stored.Share == nil { // else they take turns
			wanted += search.Credits
		}
	}
	wanted = max(0, max(wanted, f.Worst.Credits)-f.held)
	run := &runs.Run{ID: cmp.Or(f.Continues, "next"), Job: spec.Name}
	at := c.Store.Clock.Now()
	if f.Continues == "" && len(f.Due) > 0 && f.Due[0].After(at) {
		at = f.Due[0]
	}
	for _, one := range c.Caps().CapsOf(run, p.Stored, spec.Budget, at) {
		held, err := c.Store.Ledger.Held(one)
		if err != nil {
			return err
		}
		if one.Scope == ledger.ScopeRun && p.Stored.Share != nil {
			continue // reported as Share
		}
		leaves := max(0, one.Max-held)
		if leaves >= wanted {
			continue
		}
		f.Cuts = append(f.Cuts, Cut{Cap: one.String(), Max: one.Max, Held: held, Leaves: leaves, Wants: wanted})
		f.Expected.LimitTo(leaves+f.held, f.least)
	}
	return nil
}

// findOrphans returns the jobs with cursors that are not in the job file. One that a job of the file was called is not
// one of them: the next run renames it.
func (r *Reader) findOrphans() (names []string, err error) {
	marks, err := r.Store.Watermarks.List("")
	for _, m := range marks {
		renamed := slices.ContainsFunc(r.Config.Jobs, func(spec job.Spec) bool { return spec.Was == m.Job })
		if r.Config.Job(m.Job) == nil && !renamed && !job.IsOnce(m.Job) && !slices.Contains(names, m.Job) {
			names = append(names, m.Job)
		}
	}
	return names, err
}
