//go:build !otlp

package trace

import (
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// A Tracer does nothing without the build tag otlp.
type Tracer struct{}

// New returns nil. If the environment names a collector, it logs that this program sends no traces.
func New(o Options) *Tracer {
	if o.isWanted() {
		o.Log.Warn("traces not sent: this program was built without them; build it with -tags otlp, " +
			"or set OTEL_TRACES_EXPORTER=none")
	}
	return nil
}

// Start does nothing.
func (*Tracer) Start(*state.Store) {}

// RunEnded does nothing.
func (*Tracer) RunEnded(runs.Run, bool) {}

// Close does nothing.
func (*Tracer) Close() error { return nil }
