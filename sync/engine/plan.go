package engine

import (
	"cmp"
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
	Pages     int            `json:"pages"` // per step; job.AllPages for as many as there are
	Sort      string         `json:"sort,omitempty"`
	Ascending bool           `json:"ascending,omitempty"`
	Enrich    []frozenEnrich `json:"enrich,omitempty"`
	StopAfter time.Duration  `json:"stop_after,omitempty"`
}

type frozenEnrich struct {
	Op           outlier.Operation `json:"op"`
	Top          int               `json:"top,omitempty"` // 0 means every hit
	RefreshAfter time.Duration     `json:"refresh_after"`
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

func freeze(spec *job.Spec) frozen {
	f := frozen{
		Pages:     spec.Search.Pages,
		Sort:      spec.EnrichSort.By,
		Ascending: spec.EnrichSort.Ascending,
		StopAfter: spec.StopAfter,
	}
	for _, e := range spec.Enrich {
		f.Enrich = append(f.Enrich, frozenEnrich{Op: e.Op, Top: e.Top, RefreshAfter: cmp.Or(e.RefreshAfter, freshFor[e.Op])})
	}
	return f
}

// resolve turns a job into the steps of a run that starts at the given time: after
// it, windows are dates and lists are their members.
func resolve(spec *job.Spec, now time.Time) ([]state.Step, error) {
	search := spec.Search.Resolve(now)
	request, err := search.Request(0, pageSize)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", spec.Name, err)
	}
	return []state.Step{{
		Op:      request.Op,
		Queries: search.Query,
		Params:  withoutPaging(request.Params),
		Window:  window(search),
		Total:   -1,
	}}, nil
}

// withoutPaging is a step's identity: the canonical parameters less those that
// move from page to page.
func withoutPaging(params url.Values) string {
	rest := url.Values{}
	for name, values := range params {
		if name != "from" && name != "size" {
			rest[name] = values
		}
	}
	return rest.Encode()
}

// window says which publication dates a search covers, for people.
func window(s outlier.Search) string {
	day := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return t.UTC().Format(time.DateOnly)
	}
	if s.PublishedAt.From == nil && s.PublishedAt.To == nil {
		return ""
	}
	return day(s.PublishedAt.From) + ".." + day(s.PublishedAt.To)
}

// Cost is what a job may ask of the two scarcities, at worst.
type Cost struct {
	Credits  outlier.Credits // if every answer arrives
	Lost     outlier.Credits // if answers are lost and have to be asked for again: the run's cap
	Requests int             // if every answer arrives
}

// WorstCase is what a fresh run of spec costs if nothing is known yet and every page
// is full. A search without an end has a cap of its own, or it would not be allowed.
func WorstCase(spec *job.Spec) Cost {
	plan := freeze(spec)
	limit := runCap(plan, spec.Budget)
	price := outlier.OpSearch.Price()
	pages := min(plan.Pages, int(limit/price))
	requests := pages
	for _, e := range plan.Enrich {
		hits := pages * pageSize
		if e.Top > 0 {
			hits = min(hits, e.Top)
		}
		requests += hits
	}
	return Cost{Credits: outlier.Credits(pages) * price, Lost: limit, Requests: requests}
}

// runCap is what one run may hold at most: what the job says, or what its pages cost
// if each of them needs as many attempts as there can be.
func runCap(f frozen, own job.JobBudget) outlier.Credits {
	if own.PerRun != nil {
		return *own.PerRun
	}
	return outlier.Credits(f.Pages) * maxAttempts * outlier.OpSearch.Price()
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
		add(credit.Run, run.ID, new(runCap(f, own)), 0)
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
