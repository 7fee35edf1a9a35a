package engine

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/journal"
	"outlierd/sync/load"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// Engine runs the jobs of one configuration. Its fields are its dependencies; all but Log, IDs and Rekey
// are required. Only one goroutine at a time may use an Engine, but any
// number may watch it. While that goroutine runs the schedule, others act between two of its turns; see
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

	waits  waits       // see [Engine.Waited]
	marked atomic.Bool // see [Engine.PublishSoon]
	turns  turns       // of the schedule, while this goroutine runs it
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
