// Package metrics exposes the metrics of a daemon to Prometheus.
//
// Gauges (the budget, the queue, the sinks, the rate limit) are read from the state at each scrape, by
// queries whose cost does not depend on the size of the state. Counters start from zero with the process:
// calls and credits are counted when their outcome is recorded, runs when they end, and rows when the
// warehouse accepts them.
//
// Labels are endpoints, sinks, tables and the jobs of the file, never content of answers.
package metrics

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/load"
	"outlierd/sync/runs"
)

// Metrics are the metrics of one process. A nil *Metrics counts nothing.
type Metrics struct {
	config   atomic.Pointer[job.Config]
	registry *prometheus.Registry

	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	spent    *prometheus.CounterVec
	refunded *prometheus.CounterVec

	reloaded   prometheus.Gauge
	reloadedAt prometheus.Gauge

	runs        *prometheus.CounterVec
	mu          sync.Mutex
	counted     map[string]bool // what was counted of runs, by their id and status
	runDuration *prometheus.HistogramVec

	rows    *prometheus.CounterVec
	commit  prometheus.Histogram
	publish *prometheus.HistogramVec
}

// New returns the metrics of a job file, or nil without `daemon.listen`. The versions are those of
// the program and of DuckDB.
func New(config *job.Config, version, duckdb string) *Metrics {
	if config.Daemon.Listen == "" {
		return nil
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: newCounters("api_requests_total", "Requests to the service, by how they ended: ok or the kind of error.", "endpoint", "outcome"),
		duration: newHistograms("api_request_duration_seconds", "Time from sending a request to the end of its answer.",
			[]float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, "endpoint"),
		spent:    newCounters("credits_spent_total", "Credits of calls that were charged, or whose outcome is unknown.", "job", "endpoint"),
		refunded: newCounters("credits_refunded_total", "Credits of calls that were provably not charged.", "job"),
		runs:     newCounters("runs_total", "Runs that ended or paused, each once for every status that it had then.", "job", "status"),
		counted:  map[string]bool{},
		runDuration: newHistograms("run_duration_seconds", "Time from the start of a run to its end, once it is not resumed any more.",
			[]float64{1, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600}, "job"),
		rows: newCounters("rows_written_total", "Rows of answers written into the warehouse.", "table"),
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "outlierd_warehouse_commit_duration_seconds", Help: "Time to write a batch of answers into the warehouse.",
			Buckets: []float64{.01, .05, .1, .5, 1, 5, 30, 120},
		}),
		publish: newHistograms("sink_publish_duration_seconds", "Time to publish a copy of the warehouse.",
			[]float64{.01, .05, .1, .5, 1, 5, 30, 120, 600}, "sink"),
	}
	m.reloaded = newGauge("config_last_reload_successful", "1 if the job file in use is the one on disk when it was read last, 0 if that was refused.")
	m.reloadedAt = newGauge("config_last_reload_success_timestamp_seconds", "When the job file in use was read.")
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "outlierd_build_info", Help: "1, with the versions of the program and of the DuckDB in it.",
		ConstLabels: prometheus.Labels{"version": version, "duckdb": duckdb},
	})
	build.Set(1)
	m.Use(config)
	m.registry.MustRegister(
		build, m.reloaded, m.reloadedAt, m.requests, m.duration, m.spent, m.refunded,
		m.runs, m.runDuration, m.rows, m.commit, m.publish,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Use switches the metrics to a changed job file.
func (m *Metrics) Use(config *job.Config) {
	if m != nil {
		m.config.Store(config)
		m.reloadedAt.Set(unixSeconds(time.Now()))
		m.Reloaded(true)
	}
}

// Reloaded records whether the job file on disk is in use, or was refused.
func (m *Metrics) Reloaded(ok bool) {
	if m != nil {
		m.reloaded.Set(oneIf(ok))
	}
}

func newGauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: "outlierd_" + name, Help: help})
}

func newCounters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "outlierd_" + name, Help: help}, labels)
}

func newHistograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "outlierd_" + name, Help: help, Buckets: buckets,
	}, labels)
}

// labelOf returns the label of a job: its name if it is in the file, "(once)" for requests without a job, and
// "(other)" for removed jobs. So there are two more labels than jobs. No job can have such a name.
func (m *Metrics) labelOf(name string) string {
	switch {
	case m.config.Load().Job(name) != nil:
		return name
	case strings.HasPrefix(name, "once:"):
		return "(once)"
	}
	return "(other)"
}

// countCall counts a call whose outcome was recorded.
func (m *Metrics) countCall(c ledger.Call, failed error) {
	op, name := string(c.Op), m.labelOf(c.Job)
	m.requests.WithLabelValues(op, outcomeLabel(failed)).Inc()
	if !c.SentAt.IsZero() && !c.AnsweredAt.Before(c.SentAt) {
		m.duration.WithLabelValues(op).Observe(c.AnsweredAt.Sub(c.SentAt).Seconds())
	}
	switch {
	case c.Price == 0:
	case c.Outcome == outlier.Refunded:
		m.refunded.WithLabelValues(name).Add(float64(c.Price))
	default:
		m.spent.WithLabelValues(name, op).Add(float64(c.Price))
	}
}

// outcomeLabel returns the label for how a call ended.
func outcomeLabel(failed error) string {
	e, ofService := errors.AsType[*outlier.Error](failed)
	switch {
	case failed == nil:
		return "ok"
	case ofService:
		return string(e.Kind)
	}
	return "other"
}

// RunEnded counts a run whose status is being recorded, once for each status: a run that waits
// repeatedly for the rate limit is paused once, and then ended. If superseded is set, the run is
// not resumed.
func (m *Metrics) RunEnded(r runs.Run, superseded bool) {
	if m == nil {
		return
	}
	name := m.labelOf(r.Job)
	if m.isFirst(r.ID + " " + string(r.Status)) {
		m.runs.WithLabelValues(name, string(r.Status)).Inc()
	}
	if (r.Status.EndedWell() || superseded) && m.isFirst(r.ID) { // it is recorded again if its publication fails
		m.runDuration.WithLabelValues(name).Observe(max(0, r.Ended.Sub(r.Started).Seconds()))
	}
}

// maxCounted is how much is remembered of the runs that were counted. Runs that ended so long ago do not end again.
const maxCounted = 10_000

// isFirst reports whether something about a run has not been counted yet, and marks it as counted.
func (m *Metrics) isFirst(what string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.counted) >= maxCounted {
		clear(m.counted)
	}
	known := m.counted[what]
	m.counted[what] = true
	return !known
}

// Observe counts a batch of the warehouse, or a publication of a copy.
func (m *Metrics) Observe(step load.Step) {
	switch {
	case m == nil:
	case step.Rows != nil:
		m.commit.Observe(step.Took.Seconds())
		for table, n := range step.Rows {
			m.rows.WithLabelValues(table).Add(float64(n))
		}
	default:
		m.publish.WithLabelValues(step.Sink).Observe(step.Took.Seconds())
	}
}
