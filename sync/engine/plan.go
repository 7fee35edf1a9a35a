package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"outlierd/outlier"
	"outlierd/sync/credit"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// pageSize is the largest the interface allows (Limits, Page size and paging): the
// price is per request, so a smaller page only makes a hit dearer.
const pageSize = 40

// frozen is what a run keeps of its job beside the steps. It is stored when the
// run begins and read when it resumes, so an edit of the file never changes a run
// that is half done.
type frozen struct {
	Overridden  bool            `json:"overridden,omitempty"`  // what a person wanted that once: it tells nothing of the file
	Flags       string          `json:"flags,omitempty"`       // by which it was overridden, as they are typed
	Backfill    *job.Dates      `json:"backfill,omitempty"`    // the dates of a backfill
	MoveCursor  bool            `json:"move_cursor,omitempty"` // and moves the job's cursors nevertheless
	Unsure      time.Time       `json:"unsure,omitzero"`       // the time that was believed when it was resolved, if it was not agreed on
	Pages       int             `json:"pages,omitempty"`       // per step; job.AllPages for as many as there are
	Window      string          `json:"window,omitempty"`      // published_at as it is meant whenever the job runs; "" if it asks for nothing, and in plans of earlier versions
	NewBelow    float64         `json:"new_below,omitempty"`
	ReuseFor    time.Duration   `json:"reuse_for,omitempty"`
	Sort        string          `json:"sort,omitempty"`
	Ascending   bool            `json:"ascending,omitempty"`
	Enrich      []frozenEnrich  `json:"enrich,omitempty"`
	EnrichWhere string          `json:"enrich_where,omitempty"` // parameters of the [outlier.HitFilter] that chooses hits; "" for all
	StopAfter   time.Duration   `json:"stop_after,omitempty"`
	MaxRequests int             `json:"max_requests,omitempty"`
	Cap         outlier.Credits `json:"cap"`            // the worst case when it began, answers that are lost included
	Most        outlier.Credits `json:"most,omitempty"` // the same if there were no per_run, which may be raised meanwhile

	Share   *outlier.Credits `json:"share,omitempty"`   // of the month, if it is less than the searches cost
	Rations map[int]int      `json:"rations,omitempty"` // pages that the share has for each step, by ordinal

	Ends map[int]int `json:"ends,omitempty"` // of a run that buys the rest of another: the pages with which each step ends, by ordinal

	Fetch []frozenEnrich `json:"fetch,omitempty"` // of a watch: about each of IDs
	IDs   []string       `json:"ids,omitempty"`
	Since time.Time      `json:"since,omitzero"` // of a watch: its due instant, or its start if a person began it

	Scan  *job.Scan          `json:"scan,omitempty"`
	Again bool               `json:"again,omitempty"` // scans are bought also where a live one of the same could be joined
	Joins map[int]string     `json:"joins,omitempty"` // scans to be joined, as it was when the run began, by the step's ordinal
	Reads map[int]frozenRead `json:"reads,omitempty"` // how each scan's results are read, by the step's ordinal

	assumed bool // SQL finds nothing now, and one row was taken for granted
}

type frozenEnrich struct {
	Op           outlier.Operation `json:"op"`
	Top          int               `json:"top,omitempty"`          // 0 means every hit
	TopPerItem   int               `json:"top_per_item,omitempty"` // of each step; 0 means every hit
	RefreshAfter time.Duration     `json:"refresh_after"`          // 0, of a watch: only what was received since it was due is fresh
	Value        float64           `json:"value"`
}

// frozenRead is a search of a scan's results, which lacks only the scan's id.
type frozenRead struct {
	Params  string   `json:"params"`
	Queries []string `json:"queries,omitempty"`
}

// freshFor is how old an answer may be before it is asked for again, where the job
// does not say. A transcript never changes.
var freshFor = map[outlier.Operation]time.Duration{
	outlier.OpChannelVideos: 7 * 24 * time.Hour,
	outlier.OpChannelShorts: 7 * 24 * time.Hour,
	outlier.OpTranscript:    100 * 365 * 24 * time.Hour,
	outlier.OpComments:      2 * 24 * time.Hour,
	outlier.OpDetails:       24 * time.Hour,
}

// freshForNamed is freshFor of what a job of channels or videos names: that is wanted each
// time the job is due, but for what never changes.
var freshForNamed = map[outlier.Operation]time.Duration{outlier.OpTranscript: freshFor[outlier.OpTranscript]}

// freshSince is when what a watch asks for must have been received not to be asked for
// again. It is reckoned from the due instant, so that a run that is continued asks for no
// more than it did before.
func (f *frozen) freshSince(call frozenEnrich) time.Time { return f.at().Add(-call.RefreshAfter) }

// at is when a watch judges what is fresh.
func (f *frozen) at() time.Time {
	if f.Since.IsZero() { // it began under an earlier version
		return time.Now()
	}
	return f.Since
}

func freeze(spec *job.Spec) frozen {
	return frozen{
		Overridden:  spec.Overridden,
		Flags:       spec.Flags,
		Backfill:    spec.Dates,
		MoveCursor:  spec.MoveCursor,
		Pages:       cmp.Or(spec.Pages, 1),
		NewBelow:    spec.NewBelow,
		ReuseFor:    spec.ReuseFor,
		Sort:        spec.EnrichSort.By,
		Ascending:   spec.EnrichSort.Ascending,
		Enrich:      frozenCalls(spec.Enrich, freshFor),
		Fetch:       frozenCalls(spec.Fetch, freshForNamed),
		StopAfter:   spec.StopAfter,
		MaxRequests: spec.Budget.MaxRequests,
		Scan:        spec.Scan,
		Again:       spec.Again,
	}
}

// frozenCalls are calls with all that the job leaves to the program, which has ages for it.
func frozenCalls(wanted []job.Enrich, ages map[outlier.Operation]time.Duration) []frozenEnrich {
	var all []frozenEnrich
	for _, e := range wanted {
		all = append(all, frozenEnrich{
			Op: e.Op, Top: e.Top, TopPerItem: e.TopPerItem,
			RefreshAfter: cmp.Or(e.RefreshAfter, ages[e.Op]), Value: cmp.Or(float64(e.Value), worth[e.Op]),
		})
	}
	return all
}

// teaches reports whether the run moves the job's cursors, and learns what holds for later
// runs. One that a person has overridden leaves all that as it was, unless they say so.
func (f *frozen) teaches() bool { return !f.Overridden || f.MoveCursor }

// resolve draws up the plan of a run that starts now, limited to what it may spend.
func (e *Engine) resolve(ctx context.Context, spec *job.Spec, trigger Trigger, now time.Time) ([]state.Step, frozen, error) {
	steps, plan, err := e.drawNow(spec, e.inputs(ctx, spec, now))
	if err == nil && trigger != Manual {
		err = e.ration(ctx, spec, &plan, steps, now)
	}
	return steps, plan, err
}

// drawInWords draws up the plan together with the words for the dates that it asks for.
func (e *Engine) drawInWords(spec *job.Spec, in job.Inputs) ([]state.Step, frozen, error) {
	steps, plan, err := e.draw(spec, in)
	if err == nil && len(steps) > 0 {
		plan.Window, err = e.published(spec, in)
	}
	return steps, plan, err
}

// draw turns a job into steps: after it, windows are dates, and lists and SQL are their
// members.
func (e *Engine) draw(spec *job.Spec, in job.Inputs) ([]state.Step, frozen, error) {
	plan := freeze(spec)
	work, err := spec.Resolve(in)
	if err != nil {
		return nil, plan, err
	}
	plan.IDs, plan.EnrichWhere, plan.assumed = work.IDs, work.Wanted.Encode(), work.Assumed
	if len(plan.Fetch) > 0 {
		plan.Since = in.Now
	}
	if spec.Dates != nil {
		if work.Asks, err = e.backfillAsks(spec, work.Asks); err != nil {
			return nil, plan, err
		}
	}
	var steps []state.Step
	for i, ask := range work.Asks {
		step, err := e.stepOf(spec, ask, in.Now)
		if err != nil {
			return nil, plan, err
		}
		if ask.Read != nil {
			if plan.Reads == nil {
				plan.Reads = map[int]frozenRead{}
			}
			plan.Reads[i] = frozenRead{Params: ask.Read.Params.Encode(), Queries: ask.Queries}
			if err := readable(plan.Reads[i]); err != nil && !work.Assumed {
				return nil, plan, fmt.Errorf("job %s: %w", spec.Name, err)
			}
		}
		step.Ordinal = i
		steps = append(steps, step)
	}
	plan.Joins = repeats(steps)
	return steps, plan, e.bound(spec, &plan, steps)
}

// bound sets what the run may cost at most.
func (e *Engine) bound(spec *job.Spec, plan *frozen, steps []state.Step) error {
	items, err := e.items(*plan, steps)
	plan.Most = ifLost(items)
	plan.Cap = plan.Most
	if per := spec.Budget.PerRun; per != nil {
		plan.Cap = min(plan.Cap, *per)
	}
	return err
}

// drawNow draws up the plan of a run that begins now, and joins the scans that are live.
// Which ones are, by the time of a later run, is not known.
func (e *Engine) drawNow(spec *job.Spec, in job.Inputs) ([]state.Step, frozen, error) {
	steps, plan, err := e.drawInWords(spec, in)
	if err != nil {
		return steps, plan, err
	}
	if plan.Joins, err = e.joins(steps, plan.Again); err != nil {
		return steps, plan, err
	}
	return steps, plan, e.bound(spec, &plan, steps)
}

// inputs are what resolving a job needs to know. SQL is asked once, however often the
// job is resolved with them.
func (e *Engine) inputs(ctx context.Context, spec *job.Spec, now time.Time) job.Inputs {
	type query struct{ sql, column string }
	answers := map[query][]string{}
	return job.Inputs{
		Now: now,
		Since: func(key string) (time.Time, error) {
			last, err := e.Store.Watermark(spec.Name, key)
			return earlier(last, now), err
		},
		IDs: func(sql, column string) (ids []string, err error) {
			if e.IDs == nil {
				return nil, fmt.Errorf("no published tables to ask")
			}
			ids, known := answers[query{sql, column}]
			if !known {
				ids, err = e.IDs(ctx, sql, column)
			}
			if err == nil {
				answers[query{sql, column}] = ids
			}
			return ids, err
		},
	}
}

// stepOf is the step that buys what ask asks for. Seeds that the job has bought
// lately are not bought again: their step is closed from the beginning.
func (e *Engine) stepOf(spec *job.Spec, ask job.Ask, now time.Time) (state.Step, error) {
	step := state.Step{
		Op: ask.Op, Item: ask.Item, Queries: ask.Queries, Seeds: ask.Seeds,
		Params: ask.Params.Encode(), Window: window(ask.Params, e.Config.Timezone), Watermark: ask.Watermark,
		Total: -1, Left: -1,
	}
	if spec.SeedsFresh == 0 || len(ask.Seeds) == 0 {
		return step, nil
	}
	bought, err := e.Store.Watermark(spec.Name, boughtKey(ask.Watermark))
	if err == nil && now.Before(bought.Add(spec.SeedsFresh)) && !bought.After(now.Add(state.Skew)) {
		step.Stop = stopFresh
	}
	return step, err
}

// window says which publication dates a search covers, for people: by their calendar.
func window(params url.Values, zone *time.Location) string {
	day := func(name string) string {
		t, err := time.Parse(time.RFC3339, params.Get(name))
		if err != nil {
			return ""
		}
		return t.In(zone).Format(time.DateOnly)
	}
	from, to := day("publishedAtFrom"), day("publishedAtTo")
	if from == "" && to == "" {
		return ""
	}
	return from + ".." + to
}

// priceOf is what one call of a step costs by the configured prices.
func (e *Engine) priceOf(step *state.Step) outlier.Credits {
	request, err := e.request(step.Op, step.Params)
	if err != nil {
		return 0 // the step cannot be performed, which taking its page reports
	}
	return request.Price
}

// priceOfReading is what a page of a scan's results costs: a search.
func (e *Engine) priceOfReading() outlier.Credits {
	return e.priceOf(&state.Step{Op: outlier.OpSearch})
}

// request makes the request of a step from its stored parameters, at the price that
// is configured.
func (e *Engine) request(op outlier.Operation, encoded string) (*outlier.Request, error) {
	params, err := url.ParseQuery(encoded)
	if err != nil {
		return nil, fmt.Errorf("read the stored parameters %q: %w", encoded, err)
	}
	request := outlier.PageRequest(op, params)
	if op == outlier.OpStartScan {
		request = outlier.StartScanRequest(params)
	}
	request.Price = e.Config.Service.Prices.Of(request)
	return request, nil
}

// cap is the most that the run may hold: its worst case, or what the job says if that is
// less. A per_run that was changed since the run began applies at once.
func (f *frozen) cap(own job.JobBudget) outlier.Credits {
	most := f.Cap
	if own.PerRun != nil {
		most = min(*own.PerRun, cmp.Or(f.Most, *own.PerRun)) // none was kept by earlier versions
	}
	if f.Share != nil {
		most = min(most, *f.Share)
	}
	return most
}

// pages is how many pages a step's search has at most, by the job, or where the run buys the
// rest of another, with those that it takes.
func (f *frozen) pages(step *state.Step) int {
	if f.Ends != nil {
		return f.Ends[step.Ordinal]
	}
	return f.Pages
}

// mostPages is the most that any search of the run has.
func (f *frozen) mostPages() int {
	most := f.Pages
	if f.Ends != nil {
		most = 0
	}
	for _, end := range f.Ends {
		most = max(most, end)
	}
	return most
}

// limit is pages, or less if the run's share of the month has fewer for it.
func (f *frozen) limit(step *state.Step) int {
	if f.Rations == nil || step.Scan != "" {
		return f.pages(step)
	}
	return min(f.pages(step), f.Rations[step.Ordinal])
}

// capsOf are the limits that a paid call of a run at the given service time has to
// keep, with the periods that are then current.
func (e *Engine) capsOf(run *state.Run, f frozen, own job.JobBudget) func(time.Time) []credit.Cap {
	budget, zone := e.Config.Budget, e.Config.Timezone
	var reserve outlier.Credits // which no run touches by itself
	if budget.Reserve != nil && !e.UseReserve {
		reserve = *budget.Reserve
	}
	return func(now time.Time) []credit.Cap {
		cycle := credit.Cycle(now, zone, budget.Renews)
		var caps []credit.Cap
		add := func(scope credit.Scope, period string, limit *outlier.Credits, reserve outlier.Credits) {
			if limit != nil {
				caps = append(caps, credit.Cap{Scope: scope, Period: period, Max: *limit - reserve, Reserve: reserve})
			}
		}
		add(credit.Run, run.ID, new(f.cap(own)), 0)
		add(credit.JobMonth, credit.JobCycle(run.Job, cycle), own.PerMonth, 0)
		add(credit.AllDay, credit.Day(now, zone), budget.PerDay, 0)
		add(credit.AllMonth, cycle, budget.PerMonth, reserve)
		return caps
	}
}

func (f frozen) encode() ([]byte, error) { return json.Marshal(f) }

func thaw(plan []byte) (frozen, error) {
	var f frozen
	if err := json.Unmarshal(plan, &f); err != nil {
		return f, fmt.Errorf("read the run's frozen plan: %w", err)
	}
	return f, nil
}
