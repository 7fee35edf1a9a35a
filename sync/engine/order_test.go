package engine

import (
	"context"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/runs"
)

// keeping keeps the schedule while a test asks for something, until that returns.
func (w *workshop) keeping(test func(e *Engine)) {
	w.Helper()
	e, stop := w.open()
	defer stop()
	agenda, err := e.Agenda(time.Now())
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		e.Serve(ctx, agenda)
	}()
	time.Sleep(time.Millisecond)
	defer func() {
		cancel()
		<-over
	}()
	test(e)
}

// order asks for a run of a job by hand, and waits until it has begun.
func (w *workshop) order(e *Engine, o Order) *Ordered {
	w.Helper()
	o.Trigger = Manual
	ordered, err := e.Order(w.ctx, o)
	if err != nil {
		w.Fatal(err)
	}
	return ordered
}

// TestOrderIsServedByAnIdleSchedule: nothing is due, and a person need not wait for what is.
func TestOrderIsServedByAnIdleSchedule(t *testing.T) {
	t.Parallel()
	bubble(t, scheduledFile, func(w *workshop) {
		w.keeping(func(e *Engine) {
			time.Sleep(10 * time.Minute)
			asked := time.Now()
			o := w.order(e, Order{Spec: w.config.Job("by-hand")})
			row, err := o.Result()
			if err != nil || row.Status != runs.OK || row.ID != o.Run() || row.Pages != 1 || o.Joined() {
				t.Errorf("the run ended as %+v, %v", row, err)
			}
			if took := time.Since(asked); took > time.Second {
				t.Errorf("it took %s", took)
			}
			p, err := o.Progress()
			if err != nil || p.Run != row.ID || p.Spend.Charged != 2 {
				t.Errorf("progress %+v, %v", p, err)
			}
			if err := e.Between(w.ctx, func(context.Context) error { return context.DeadlineExceeded }); err != context.DeadlineExceeded {
				t.Errorf("what is called between two turns returned %v", err)
			}
		})
		if calls := w.calls(outlier.OpSearch); calls != 1 {
			t.Errorf("%d searches, want 1", calls)
		}
	})
}
