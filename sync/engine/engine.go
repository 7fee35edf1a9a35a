package engine

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/load"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// Engine runs the jobs of one configuration. Its fields are its dependencies; all but Log, IDs and Rekey
// are required. Only one goroutine at a time may use an Engine, but any
// number may watch it. While that goroutine runs the schedule, others send it requests; see
// [Engine.Order] and [Engine.Between].
type Engine struct {
	Config *job.Config
	Store  *state.Store // nil if only prices of jobs without history are needed
	Client *outlier.Client
	Pace   *pace.Limiter
	Line   load.Line    // what answers are loaded into; the zero value for nothing
	Log    *slog.Logger // nil discards

	// IDs runs the SQL of a job on the published tables and returns one column of the result; "" means
	// the first one. If IDs is nil, all SQL is refused.
	IDs func(ctx context.Context, sql, column string) ([]string, error)

	// Rekey reads the key again, which may have changed in its file. If Rekey is nil, the key is kept.
	Rekey func() (outlier.Key, error)

	key atomic.Pointer[outlier.Key] // of the client while the schedule is running, for readers

	unread   string        // last logged reason why the key could not be read again
	believed journal.Limit // the limiter's last recorded belief, without what changes with every call

	beat heartbeat // see [Engine.Beat]

	current  atomic.Pointer[run] // the run in progress, preferably an urgent one, or of the last run
	waits    waits               // see [Engine.Waited]
	marked   atomic.Bool         // see [Engine.PublishSoon]
	requests requests            // from other goroutines, while this one runs the schedule
}

// Reading returns an engine for another goroutine that reads: with the given state and job file, and without
// what only runs use.
func (e *Engine) Reading(s *state.Store, config *job.Config) *Engine {
	return &Engine{Config: config, Store: s, Pace: e.Pace, Log: e.Log, IDs: e.IDs,
		Client: &outlier.Client{URL: e.Client.URL, Key: *cmp.Or(e.key.Load(), &e.Client.Key)}}
}

// Facts returns a reader of what plans depend on.
func (e *Engine) Facts() *facts.Reader {
	return &facts.Reader{Config: e.Config, Store: e.Store, Log: e.log(), IDs: e.IDs}
}

func (e *Engine) log() *slog.Logger {
	if e.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return e.Log
}

// A Trigger is what started a run.
type Trigger string

const (
	Manual    Trigger = runs.Manual
	Scheduled Trigger = "schedule"
	CatchUp   Trigger = "catch-up" // a due time that passed while no schedule was running
	After     Trigger = runs.After // the pages of another job's run were published
)

// Progress is what a run has done and what it has left, for display.
type Progress struct {
	Job, Run string
	Started  time.Time
	Searches Searches
	Pages    int                       // maximum for each search; job.AllPages if only the budget limits it
	Tasks    map[outlier.Operation]int // data calls done, by operation
	Done     int                       // data calls answered, including by "not found"
	Queued   int                       // data calls left
	Fresh    map[time.Duration]int     // data calls skipped as fresh, by maximum age; see [FreshFor]
	Missing  int
	Failures int
	Spend    ledger.Spend
	Pace     pace.Status
	Doing    string    // the call in progress: "search page 2", "transcript dQw4w9WgXcQ"
	Until    time.Time // when the run continues if it waits for a scan; else zero
	PerRun   *outlier.Credits

	// Left is the minimum time that the known pages and data calls take at the current rate limit. It
	// assumes that no other job makes calls, as while a command performs a run. Package forecast
	// estimates what a daemon has left to do.
	Left time.Duration
}

// Searches is what the searches of a run have brought so far, together.
type Searches struct {
	All, Ended int
	Scan       bool // the run waits for one, or is about to start it
	Pages      int
	Left       int // pages that may follow; 0 if only the budget limits them
	Hits, New  int
}

// addSteps adds the steps of a run with at most so many pages for each search.
func (s *Searches) addSteps(steps []runs.Step, most int) {
	for i := range steps {
		step := &steps[i]
		isOpen, isScan := step.Stop == "", step.Query.Op() == outlier.OpStartScan
		s.All, s.Pages, s.Hits, s.New = s.All+1, s.Pages+step.Pages, s.Hits+step.Hits, s.New+step.NewHits
		switch {
		case !isOpen:
			s.Ended++
		case isScan:
			s.Scan = true
		case most != job.AllPages:
			s.Left += most - step.Next
		}
	}
}

// Progress returns the progress of the run in progress, or of the last one.
func (e *Engine) Progress() (Progress, error) {
	if r := e.current.Load(); r != nil {
		return progressOf(r)
	}
	return Progress{Pace: e.Pace.Status()}, nil
}

// progressOf returns the progress of a run.
func progressOf(r *run) (p Progress, err error) {
	e := r.engine
	p = *r.view.Load()
	steps, err := e.Store.Steps.OfRun(p.Run)
	if err != nil {
		return p, err
	}
	p.Searches.addSteps(steps, p.Pages)
	if p.Spend, err = e.Store.Ledger.Spent(p.Run); err != nil {
		return p, err
	}
	p.Queued, err = e.Store.Queue.Queued(queue.Filter{Job: p.Job})
	p.Pace, p.Left = e.Pace.Status(), e.Pace.ETA(p.Queued+p.Searches.Left)
	return p, err
}
