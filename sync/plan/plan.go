// Package plan computes what a run will ask for and what that may cost: its steps, pages, prices,
// worst case and budget share.
//
// It is pure. [New] takes a job and its [Facts] and returns a [Plan]; the same facts give the same
// plan. It uses no store, clock or network, so that lint, plan, run, up, the forecast and the tests
// call the same function and cannot disagree.
//
// What a run keeps of its plan is [Stored]: it is written as JSON in the run's record when
// the run begins and read when it resumes, so an edit of the file never changes a run that
// is half done. [Continue] makes the plan of such a run again.
package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
)

// Facts are the inputs of a plan besides its job. A missing fact is unknown: the zero Facts with
// Work and Prices are those of a job that never ran.
type Facts struct {
	Now    time.Time      // when the run begins or is due
	Prices outlier.Prices // as changed by the configuration
	Zone   *time.Location // of dates that are shown to people
	Work   job.Resolved   // what the job asks for at Now

	Paging  map[outlier.Operation]string // what `from` counts, "page" or "offset", by endpoint
	Bought  map[string]time.Time         // when the job bought the same seeds last, by watermark
	Covered map[string][]Dates           // dates that a backfill leaves out, by watermark
	Live    map[int]string               // ids of scans that a step would only repeat, by ordinal
	Market  *Market                      // of a job with `schedule: auto`; nil if a person decides

	Queued  int                       // data calls of the job that are queued
	Unasked map[outlier.Operation]int // ids of a watch that are neither fresh nor queued
	Fresh   map[outlier.Operation]int // ids of a watch that need no call
}

// Plan is what a run will do.
type Plan struct {
	Stored  Stored // what the run keeps of it
	Steps   []Step
	Assumed bool // SQL finds nothing now, and one row was assumed

	facts  *Facts
	prices []outlier.Credits // of one call of each step
}

// New returns the plan of a run of spec that begins at facts.Now. Each thing that the job asks for
// is a step; for a backfill, each window of its dates that is not covered already. The only error
// is a backfill with too many windows.
func New(spec *job.Spec, facts *Facts) (*Plan, error) {
	p := &Plan{Stored: Stored{Terms: spec.Terms}, Assumed: facts.Work.Assumed, facts: facts}
	f := &p.Stored
	f.Pages = cmp.Or(f.Pages, 1)
	f.IDs, f.EnrichWhere, f.Unknown = facts.Work.IDs, facts.Work.Wanted.Encode(), facts.Work.Unknown
	if len(f.Fetch) > 0 {
		f.Since = facts.Now
	}
	asks := facts.Work.Asks
	if spec.Backfill != nil {
		var err error
		if asks, err = backfillAsks(spec, asks, facts); err != nil {
			return nil, err
		}
	}
	if facts.Market != nil {
		asks = p.decideAsks(spec, asks)
	}
	if spec.Scan != nil {
		f.Reads = map[int]string{}
	}
	for i, ask := range asks {
		p.Steps = append(p.Steps, stepOf(spec, i, ask, facts))
		if spec.Scan != nil {
			f.Reads[i] = ask.Read.Encode()
		}
	}
	p.prepareSteps()
	p.Bound(spec.Budget)
	return p, nil
}

// stepOf returns the step that buys what ask asks for. Seeds that the job has bought recently are
// not bought again: their step is closed from the beginning.
func stepOf(spec *job.Spec, ordinal int, ask job.Ask, facts *Facts) Step {
	step := Step{
		Ordinal: ordinal, Query: ask.Query, Item: ask.Item, Queries: ask.Queries, Seeds: ask.Seeds,
		Window: formatWindow(ask.Query, facts.Zone), Watermark: ask.Watermark, Total: -1, Left: -1,
	}
	bought, known := facts.Bought[ask.Watermark]
	if spec.SeedsFresh > 0 && len(ask.Seeds) > 0 && known && bought.After(job.FreshSince(facts.Now, spec.SeedsFresh)) {
		step.Stop = StopFresh
	}
	return step
}

// formatWindow formats the publication dates that a search covers for people, in their time zone.
func formatWindow(query outlier.Query, zone *time.Location) string {
	from, to := query.Published()
	if from.IsZero() && to.IsZero() {
		return ""
	}
	day := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.In(zone).Format(time.DateOnly)
	}
	return day(from) + ".." + day(to)
}

// prepareSteps computes the prices and joins of the steps.
func (p *Plan) prepareSteps() {
	p.prices = make([]outlier.Credits, len(p.Steps))
	for i := range p.Steps {
		p.prices[i] = p.Steps[i].Query.Price(p.facts.Prices)
	}
	p.Stored.Joins = findJoins(p.Steps, p.facts.Live)
}

// findJoins returns the open steps that join a scan instead of starting one, by ordinal, with the id
// of that scan; "" if an earlier step has yet to start it.
func findJoins(steps []Step, live map[int]string) map[int]string {
	joined, begun := map[int]string{}, map[string]bool{}
	for i := range steps {
		step := &steps[i]
		if step.Query.Op() != outlier.OpStartScan || step.Stop != "" {
			continue
		}
		params := step.Query.Params()
		same := ScanIdentity(params.Get("findBy"), params.Get("mode"), params["query"])
		if begun[same] {
			joined[step.Ordinal] = ""
		}
		begun[same] = true
		if scan := live[step.Ordinal]; scan != "" {
			joined[step.Ordinal] = scan
		}
	}
	return joined
}

// Bound sets the maximum that the run may cost.
func (p *Plan) Bound(own job.JobBudget) {
	p.Stored.Most = ifLost(p.items())
	if own.MaxCredits != nil {
		p.Stored.Most = min(p.Stored.Most, *own.MaxCredits)
	}
	p.Stored.Cap, p.Stored.PerMonth = p.Stored.Most, own.PerMonth
	if own.PerRun != nil {
		p.Stored.Cap = min(p.Stored.Cap, *own.PerRun)
	}
}

// Continue returns the plan of a run that has begun, from the progress of its steps.
func Continue(stored Stored, steps []Step, facts *Facts) *Plan {
	p := &Plan{Stored: stored, Steps: steps, facts: facts}
	p.prepareSteps()
	return p
}

// Open returns the plan of the open steps only.
func (p *Plan) Open() *Plan {
	var open []Step
	for i := range p.Steps {
		if p.Steps[i].Stop == "" {
			open = append(open, p.Steps[i])
		}
	}
	return Continue(p.Stored, open, p.facts)
}

// Freshness returns how many calls a watch makes for the ids that it names, and how many it saves
// because the data is fresh.
func (p *Plan) Freshness() (calls, fresh int) {
	for _, call := range p.Stored.Fetch {
		calls += len(p.Stored.IDs) - p.facts.Fresh[call.Op]
		fresh += p.facts.Fresh[call.Op]
	}
	return calls, fresh
}

// Attempts is how often a run requests a page whose answer is lost.
const Attempts = 3

// Reasons for which the plan itself closes a step, before anything is sent.
const (
	StopFresh = "fresh" // the job bought the same seeds recently
	StopShare = "share" // the run's budget share has no page for it, or no more
)

// backfillAsks replaces what a job asks for by the windows of a backfill, newest first, without the
// dates that are already covered.
func backfillAsks(spec *job.Spec, asks []job.Ask, facts *Facts) (all []job.Ask, err error) {
	for from, to := range spec.Backfill.Windows(facts.Zone) {
		for _, ask := range asks {
			for _, gap := range findGaps(Dates{from, to}, facts.Covered[ask.Watermark]) {
				dated := ask
				dated.Query = ask.Query.PublishedIn(gap.From, gap.To)
				all = append(all, dated)
			}
		}
		if len(all) > job.MaxAsks {
			return nil, fmt.Errorf("job %s: the backfill makes more than %d searches; "+
				"take fewer dates or --each month", spec.Name, job.MaxAsks)
		}
	}
	return all, nil
}

// findGaps returns the parts of whole that are not covered, newest first.
func findGaps(whole Dates, covered []Dates) (left []Dates) {
	covered = slices.Clone(covered)
	slices.SortFunc(covered, func(a, b Dates) int { return b.To.Compare(a.To) })
	end := whole.To
	for _, c := range covered {
		if c.To.Before(whole.From) {
			break
		}
		if c.To.Before(end) {
			left = append(left, Dates{c.To.Add(time.Second), end})
		}
		if before := c.From.Add(-time.Second); before.Before(end) {
			end = before
		}
	}
	if !end.Before(whole.From) {
		left = append(left, Dates{whole.From, end})
	}
	return left
}

// Dates is a range of publication dates in whole seconds, including both ends.
type Dates struct{ From, To time.Time }
