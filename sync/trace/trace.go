// Package trace exports the traces of runs to an OpenTelemetry collector.
//
// A trace is made from the records of a run after it has ended: a span for the run, one below it
// for each search, and one for each request. So nothing is measured during a run, a request counts
// once its outcome is recorded, and a run that was killed and resumed has one trace. Ids are
// derived from the run's id: spans that are sent twice, such as after a failed run was resumed, are
// the same.
//
// Runs never wait for a collector. Traces that it does not accept are dropped, which is logged once
// an hour.
package trace

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

const (
	maxWaiting = 256             // runs whose traces are being sent; more are dropped
	batch      = 512             // spans that are sent at once
	logEvery   = time.Hour       // how often dropped traces are logged
	closeTime  = 3 * time.Second // how long traces are still sent when the program ends
)

// Options configure a tracer.
type Options struct {
	Store   *state.Store                // has the records of runs
	Env     func(string) (string, bool) // the environment; OTEL_* variables name the collector
	Version string
	Redact  func(string) string // removes secrets from errors
	Log     *slog.Logger
}

// A Tracer exports the traces of runs. A nil Tracer does nothing.
type Tracer struct {
	options Options
	to      *collector
	ctx     context.Context // of sending, until stop
	stop    context.CancelFunc
	sending errgroup.Group
	turn    sync.Mutex // of one trace at a time
	dropped rate.Sometimes
}

// New returns a tracer, or nil if the environment names no collector or disables tracing.
func New(o Options) *Tracer {
	to := newCollector(o.Env, o.Version)
	if to == nil {
		return nil
	}
	t := &Tracer{options: o, to: to, dropped: rate.Sometimes{Interval: logEvery}}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.sending.SetLimit(maxWaiting)
	return t
}

// RunEnded sends the trace of a run in the background. It may be called in the transaction that records the end. A
// superseded run is not resumed, whatever its status.
func (t *Tracer) RunEnded(r runs.Run, superseded bool) {
	if t == nil || r.Status.Open() && !superseded {
		return
	}
	sends := t.sending.TryGo(func() error {
		if err := t.sendRun(r.ID, superseded); err != nil {
			t.logFailure(fmt.Errorf("trace of run %s: %w", r.ID, err))
		}
		return nil
	})
	if !sends {
		t.logFailure(fmt.Errorf("%d traces wait already", maxWaiting))
	}
}

// Close waits for what is being sent, for at most three seconds.
func (t *Tracer) Close() error {
	if t == nil {
		return nil
	}
	defer time.AfterFunc(closeTime, t.stop).Stop()
	err := t.sending.Wait()
	t.stop()
	return err
}

func (t *Tracer) logFailure(err error) {
	t.dropped.Do(func() { t.options.Log.Warn("traces dropped", "err", t.options.Redact(err.Error())) })
}

// sendRun sends the spans of a run, from its records.
func (t *Tracer) sendRun(id string, superseded bool) error {
	t.turn.Lock()
	defer t.turn.Unlock()
	// Readers do not see the end of the run before the transaction that records it has ended.
	if err := t.options.Store.DB.Update(func(*store.Tx) error { return nil }); err != nil {
		return err
	}
	run, err := t.options.Store.Runs.Get(id)
	if err != nil || run == nil || run.Status.Open() && !superseded {
		return err
	}
	steps, err := t.options.Store.Steps.OfRun(run.ID)
	if err != nil {
		return err
	}
	calls, err := t.options.Store.Calls.OfRun(run.ID)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(spansOf(run, steps, calls, t.options.Redact), batch) {
		if err := t.to.send(t.ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// spansOf returns the spans of a run, of its searches that have made calls, and of the requests that were sent. redact
// removes secrets from errors.
func spansOf(run *runs.Run, steps []runs.Step, calls []ledger.Call, redact func(string) string) []span {
	root := newSpan(run, "", "run", run.Started, cmp.Or(run.Ended, time.Now()),
		"outlierd.trigger", run.Trigger, "outlierd.status", string(run.Status),
		"outlierd.pages", run.Pages, "outlierd.hits", run.Hits, "outlierd.new_hits", run.NewHits,
		"outlierd.requests", run.Requests, "outlierd.credits", int64(run.Credits),
		"outlierd.waited_s", run.Waited.Seconds())
	if run.Status == runs.Failed {
		root.Status = failedWith(redact(run.Error))
	}
	type period struct{ from, to time.Time }
	asked := map[int64]period{} // by step, from the first call to the last answer
	for i := range calls {
		c := &calls[i]
		p, known := asked[c.Step]
		if !known {
			p.from = cmp.Or(c.SentAt, c.AnsweredAt)
		}
		if c.AnsweredAt.After(p.to) {
			p.to = c.AnsweredAt
		}
		asked[c.Step] = p
	}
	all, parents := []span{root}, map[int64]string{}
	for i := range steps {
		step := &steps[i]
		p, known := asked[step.ID]
		if !known {
			continue
		}
		s := newSpan(run, fmt.Sprint("step ", step.ID), string(step.Query.Op()), p.from, p.to,
			"outlierd.op", string(step.Query.Op()), "outlierd.queries", step.Queries, "outlierd.seeds", step.Seeds,
			"outlierd.pages", int64(step.Pages), "outlierd.hits", int64(step.Hits), "outlierd.stop_reason", step.Stop)
		s.Parent, parents[step.ID] = root.ID, s.ID
		all = append(all, s)
	}
	for i := range calls {
		c := &calls[i]
		if c.SentAt.IsZero() {
			continue
		}
		s := newSpan(run, fmt.Sprint("call ", c.ID), string(c.Op), c.SentAt, cmp.Or(c.AnsweredAt, c.SentAt),
			"outlierd.op", string(c.Op), "outlierd.attempt", int64(c.Attempt), "outlierd.credits", int64(c.Price),
			"outlierd.outcome", string(c.Outcome), "outlierd.waited_s", c.Waited.Seconds())
		if c.Entity != "" {
			s.add("outlierd.entity", c.Entity)
		}
		if c.Status > 0 {
			s.add("http.response.status_code", int64(c.Status))
		}
		if c.Outcome != outlier.Charged && c.Status != 404 {
			s.Status = failedWith(redact(c.Error))
		}
		s.Kind, s.Parent = kindClient, cmp.Or(parents[c.Step], root.ID)
		all = append(all, s)
	}
	return all
}
