package engine

import (
	"context"
	"fmt"
)

// Cancel stops a run between two calls, for all who wait for it, and returns when it has stopped. As
// after a kill, a later run of the job can resume what was left.
func (e *Engine) Cancel(ctx context.Context, id string) error {
	return e.Between(ctx, func(ctx context.Context) error {
		e.requests.mu.Lock()
		w := e.requests.scheduler.worker
		e.requests.mu.Unlock()
		if w != nil {
			if r := w.runByID(id); r != nil {
				r.end(ctx, &CancelledError{})
				return nil
			}
		}
		return fmt.Errorf("run %s is not in progress", id)
	})
}
