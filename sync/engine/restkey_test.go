package engine

import (
	"errors"
	"testing"

	"outlierd/sync/facts"
	"outlierd/sync/runs"
)

// TestKeyOrdersRestOnce: an order of the rest of a run that is repeated with its key is recognized, too.
func TestKeyOrdersRestOnce(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		w.keeping(func(e *Engine, _ func()) {
			spec := w.config.Job("short")
			of := w.ends(w.order(e, Order{Spec: spec}), runs.OK)
			order := Order{Spec: facts.RestSpec(w.config, of), Key: runs.NewKey("rest", "rest {}"), Trigger: Manual}
			row := w.ends(w.order(e, order), runs.OK)
			_, err := e.Order(w.ctx, order)
			if repeated, ok := errors.AsType[*RepeatedError](err); !ok || repeated.Run.ID != row.ID {
				t.Errorf("the order is repeated with error %v, want that its run is %s", err, row.ID)
			}
		})
	})
}
