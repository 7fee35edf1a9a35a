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
	"log/slog"
	"strings"
)

// Options configure a tracer.
type Options struct {
	Env     func(string) (string, bool) // the environment; OTEL_* variables configure the exporter
	Version string
	Redact  func(string) string // removes secrets from errors
	Log     *slog.Logger
}

// isWanted reports whether the environment names a collector and does not disable tracing.
func (o Options) isWanted() bool {
	get := func(variable string) string { text, _ := o.Env(variable); return text }
	endpoint := cmp.Or(get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), get("OTEL_EXPORTER_OTLP_ENDPOINT"))
	return endpoint != "" && !strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") && get("OTEL_TRACES_EXPORTER") != "none"
}
