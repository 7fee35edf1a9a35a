package serve

import (
	"math"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
)

// Order requests a run: POST /v1/runs.
type Order struct {
	job.Asked
	Version string         `json:"version"` // of the job in the command's file; see [job.Spec.Version]
	Trigger engine.Trigger `json:"trigger"` // manual, or after for a job that comes after another
	Due     time.Time      `json:"due,omitzero"`

	Continues  string `json:"continues,omitempty"` // the unfinished run to continue; "" for a new one. Without a job its record says the rest
	Rest       string `json:"rest,omitempty"`      // the run whose rest to buy
	Afresh     bool   `json:"afresh,omitempty"`    // do not continue an unfinished run
	UseReserve bool   `json:"use_reserve,omitempty"`

	MaxCredits *outlier.Credits `json:"max_credits,omitempty"` // cap of the run, beside that of its job
}

// checkOrder returns an error for an order that no command sends.
func (o *Order) checkOrder() error {
	switch {
	case o.Rest != "":
		return nil
	case o.Job == "" && o.Once == nil && o.Continues == "":
		return requestMistake("order a run: job, once, continues or rest must say which")
	case o.Trigger != engine.Manual && o.Trigger != engine.After:
		return requestMistake("order a run: trigger must be %s or %s, got %q", engine.Manual, engine.After, o.Trigger)
	}
	return nil
}

// Event is one line of the answer to an order. It has the run, and one of the other fields.
type Event struct {
	Run      string    `json:"run"`
	Joined   bool      `json:"joined,omitempty"` // in the first event: the run was already in progress
	Progress *Progress `json:"progress,omitempty"`
	Ended    *Ended    `json:"ended,omitempty"` // the last event
}

// Ended says how a run ended, or why there is no reason to wait any longer, for example because a
// scheduled run will be continued after an outage. The run's record is in the state.
type Ended struct {
	Status runs.Status `json:"status,omitempty"` // "" if the run is not recorded
	Why    string      `json:"why,omitempty"`    // the reason for the status
	Error  *Failure    `json:"error,omitempty"`
}

// Progress is [engine.Progress] for a command.
type Progress struct {
	Job      string                    `json:"job"`
	Started  time.Time                 `json:"started"`
	Searches []search                  `json:"searches,omitempty"`
	Pages    int                       `json:"pages"` // maximum per search; -1 if only the budget limits it
	Calls    map[outlier.Operation]int `json:"calls,omitempty"`
	Done     int                       `json:"done"`
	Queued   int                       `json:"queued"`
	Fresh    []fresh                   `json:"skipped_fresh,omitempty"`
	Missing  int                       `json:"missing,omitempty"`
	Failures int                       `json:"failures,omitempty"`
	Charged  outlier.Credits           `json:"charged"`
	Unknown  outlier.Credits           `json:"unknown,omitempty"`
	PerRun   *outlier.Credits          `json:"per_run,omitempty"`
	Doing    string                    `json:"doing,omitempty"`
	Until    time.Time                 `json:"until,omitzero"`
	Left     float64                   `json:"left_seconds"`
	Pace     limit                     `json:"pace"`
}

type search struct {
	Op      outlier.Operation `json:"op"`
	Item    string            `json:"item,omitempty"`
	Queries []string          `json:"queries,omitempty"`
	Seeds   []string          `json:"seeds,omitempty"`
	Next    int               `json:"next"`
	Pages   int               `json:"pages"`
	Hits    int               `json:"hits"`
	New     int               `json:"new"`
	Stop    string            `json:"stop,omitempty"`
}

// fresh is the number of calls that were skipped because there is an answer younger than the given number
// of seconds.
type fresh struct {
	Seconds float64 `json:"seconds"`
	Calls   int     `json:"calls"`
}

type limit struct {
	Requests  int       `json:"requests"`
	Window    float64   `json:"window_seconds"`
	Remaining int       `json:"remaining"`
	Reset     time.Time `json:"reset"`
	Learned   bool      `json:"learned,omitempty"`
}

// progressOf encodes the engine's progress.
func progressOf(p engine.Progress) *Progress {
	out := &Progress{
		Job: p.Job, Started: p.Started, Pages: p.Pages, Calls: p.Tasks, Done: p.Done, Queued: p.Queued,
		Missing: p.Missing, Failures: p.Failures, Charged: p.Spend.Charged, Unknown: p.Spend.Unknown,
		PerRun: p.PerRun, Doing: p.Doing, Until: p.Until, Left: p.Left.Seconds(),
		Pace: limit{p.Pace.Limit, p.Pace.Window.Seconds(), p.Pace.Remaining, p.Pace.Reset, p.Pace.Learned},
	}
	if p.Pages == job.AllPages {
		out.Pages = -1
	}
	for i := range p.Searches {
		s := &p.Searches[i]
		out.Searches = append(out.Searches, search{
			s.Query.Op(), s.Item, s.Queries, s.Seeds, s.Next, s.Pages, s.Hits, s.NewHits, s.Stop})
	}
	for age, calls := range p.Fresh {
		out.Fresh = append(out.Fresh, fresh{age.Seconds(), calls})
	}
	return out
}

// ofEngine decodes the progress to the form of this process's engine.
func (p *Progress) ofEngine(run string) engine.Progress {
	out := engine.Progress{
		Job: p.Job, Run: run, Started: p.Started, Pages: p.Pages, Tasks: p.Calls, Done: p.Done,
		Queued: p.Queued, Missing: p.Missing,
		Failures: p.Failures, Spend: ledger.Spend{Charged: p.Charged, Unknown: p.Unknown}, PerRun: p.PerRun,
		Doing: p.Doing, Until: p.Until, Left: toDuration(p.Left), Fresh: map[time.Duration]int{},
		Pace: pace.Status{Limit: p.Pace.Requests, Window: toDuration(p.Pace.Window), Remaining: p.Pace.Remaining,
			Reset: p.Pace.Reset, Learned: p.Pace.Learned},
	}
	if p.Pages < 0 {
		out.Pages = job.AllPages
	}
	for _, s := range p.Searches {
		out.Searches = append(out.Searches, runs.Step{
			Query: outlier.UncheckedQuery(s.Op, ""), Item: s.Item, Queries: s.Queries, Seeds: s.Seeds,
			Next: s.Next, Pages: s.Pages, Hits: s.Hits, NewHits: s.New, Stop: s.Stop})
	}
	for _, f := range p.Fresh {
		out.Fresh[toDuration(f.Seconds)] = f.Calls
	}
	return out
}

func toDuration(n float64) time.Duration { return time.Duration(math.Round(n * float64(time.Second))) }
