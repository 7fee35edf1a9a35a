package engine

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sinks"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// Engine runs the jobs of one configuration. Its fields are its dependencies; all
// but Log, IDs, Rekey and the choices of the command line are required. One goroutine at a
// time may work with it, and any number may watch. While that one keeps the schedule, others
// ask it for what they need; see [Engine.Order] and [Engine.Between].
type Engine struct {
	Config *job.Config
	Store  *state.Store // nil if only the prices of jobs that never ran are asked for
	Client *outlier.Client
	Pace   *pace.Limiter
	Sinks  []sinks.Sink
	Log    *slog.Logger // nil discards

	// IDs runs the SQL of a job over the published tables and returns one column of
	// the result, the first one for "". nil refuses every SQL.
	IDs func(ctx context.Context, sql, column string) ([]string, error)

	// Rekey reads the key anew, as a file may hold another one by now. nil keeps the key.
	Rekey func() (outlier.Key, error)

	UseReserve bool // let runs spend the part of the budget that is kept back
	Afresh     bool // begin new runs where unfinished ones could be continued

	unread    string        // why the key could not be read again, as the log has it
	unrefused string        // fingerprint of the key, if no refusal of it is on record; "" if that is not known
	believed  journal.Limit // what the limiter believed last, less what changes with every call

	beat atomic.Pointer[time.Time] // see [Engine.Beat]

	current  atomic.Pointer[sight] // of the run under way, one that somebody waits for before others, or of the last one
	waits    waits                 // see [Engine.Waited]
	requests requests              // of other goroutines, while this one keeps the schedule
}

// Facts reads what plans need to know, by the choices of the command line.
func (e *Engine) Facts() *facts.Reader {
	return &facts.Reader{
		Config: e.Config, Store: e.Store, Log: e.log(), IDs: e.IDs, UseReserve: e.UseReserve, Afresh: e.Afresh,
	}
}

func (e *Engine) log() *slog.Logger {
	if e.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return e.Log
}

// Trigger says what started a run.
type Trigger string

const (
	Manual    Trigger = runs.Manual
	Scheduled Trigger = "schedule"
	CatchUp   Trigger = "catch-up" // a due instant that passed while no process kept the schedule
	After     Trigger = "after"    // the pages of another job's run were published
)

// Progress is what a run has done and has left, for people who watch it.
type Progress struct {
	Job, Run string
	Started  time.Time
	Searches []runs.Step
	Pages    int                       // each search may take at most; job.AllPages if only the budget bounds it
	Tasks    map[outlier.Operation]int // data calls done, by endpoint
	Done     int                       // data calls answered, also with "no such thing"
	Queued   int                       // data calls left
	Fresh    map[time.Duration]int     // data calls not made, by how old an answer may be; see [FreshFor]
	Missing  int
	Failures int
	Spend    ledger.Spend
	Pace     pace.Status
	Doing    string    // the call under way: "search page 2", "transcript dQw4w9WgXcQ"
	Until    time.Time // when the run goes on if it waits for a scan; else zero
	PerRun   *outlier.Credits

	// Left is how long what is known to be left takes, at least: pages and data calls
	// share the pace that the limiter has learned. Progress is shown of runs that a command
	// performs, beside which no other job makes calls; what a daemon has left to do is for
	// package forecast.
	Left time.Duration
}

// calls are those known to be left.
func (p *Progress) calls() int {
	calls := p.Queued
	for _, s := range p.Searches {
		if s.Stop == "" && s.Query.Op() != outlier.OpStartScan && p.Pages != job.AllPages {
			calls += p.Pages - s.Next
		}
	}
	return calls
}

// Progress is the state of the run under way, or of the last one.
func (e *Engine) Progress() (Progress, error) {
	if s := e.current.Load(); s != nil {
		return e.progress(s)
	}
	return Progress{Pace: e.Pace.Status()}, nil
}

// A sight is what other goroutines see of a run. It changes by whole values, so that none of
// them sees half an update.
type sight struct {
	latest atomic.Pointer[Progress]

	mu   sync.Mutex
	of   *Progress // what is known of it: the spending and the queue were read when it was the latest
	full Progress
}

// progress is what is seen of a run. The state is only asked when there is news.
func (e *Engine) progress(s *sight) (p Progress, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if latest := s.latest.Load(); s.of != latest {
		p = *latest
		if p.Spend, err = e.Store.Ledger.Spent(p.Run); err != nil {
			return p, err
		}
		if p.Queued, err = e.Store.Queue.Queued(queue.Filter{Job: p.Job}); err != nil {
			return p, err
		}
		s.of, s.full = latest, p
	}
	p = s.full
	p.Pace, p.Left = e.Pace.Status(), e.Pace.ETA(p.calls())
	return p, nil
}
