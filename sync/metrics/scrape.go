package metrics

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"outlierd/internal/machine"
	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/facts"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// Sources are what metrics are read from at a scrape.
type Sources struct {
	Store  *state.Store
	Pace   *pace.Limiter
	Waited func() map[string]time.Duration // how long calls were delayed since the start, by reason
	Beat   func() time.Time                // when the scheduler last made progress
	Log    *slog.Logger
}

// Handler returns the handler of scrapes. Calls are counted from now on.
func (m *Metrics) Handler(from Sources) http.Handler {
	from.Store.Ledger.Observe = m.countCall
	m.registry.MustRegister(&scrape{from, m})
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(from.Log.Handler(), slog.LevelWarn), ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: 2, Timeout: 20 * time.Second,
	})
}

// scrape reads the state.
type scrape struct {
	Sources
	metrics *Metrics
}

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("outlierd_"+name, help, labels, nil)
}

var (
	limitRequests = newDesc("api_limit_requests", "Requests that the rate limit is assumed to allow this client in a window.")
	limitWindow   = newDesc("api_limit_window_seconds", "The window of the rate limit.")
	limitLeft     = newDesc("api_limit_remaining", "Requests that may be sent now.")
	limitReset    = newDesc("api_limit_reset_timestamp_seconds", "When the next request may be sent.")
	waited        = newDesc("api_wait_seconds_total", "Time that requests were delayed: for the learned limit, a refusal, or another attempt.", "reason")
	budget        = newDesc("budget_credits", "Credits of the day and of the billing cycle: used, and where there is a cap, its limit and what is left of it for scheduled runs.", "scope", "state")
	blocked       = newDesc("calls_blocked", "1 while calls are refused: the key, lack of credits, or a clock that was not confirmed.", "reason")
	nextFire      = newDesc("job_next_fire_timestamp_seconds", "When the next run of a job with a schedule starts; missing while it is paused.", "job")
	paused        = newDesc("job_paused", "1 while the schedule of the job is paused, or that of a job that it comes after.", "job")
	tasks         = newDesc("tasks", "Queued data calls.", "job", "endpoint")
	success       = newDesc("run_last_success_timestamp_seconds", "When a run of the job last ended as ok or ok_empty.", "job")
	sinkUp        = newDesc("sink_up", "0 while the sink is disabled because it, or the warehouse, fails.", "sink")
	sinkLag       = newDesc("sink_lag_responses", "Answers that the sink has not published.", "sink")
	published     = newDesc("published_timestamp_seconds", "When a sink was last published.", "sink")
	unknownFields = newDesc("response_unknown_fields_total", "Fields of answers that differ from the interface, since the state was created.", "endpoint")
	backedUp      = newDesc("backup_last_success_timestamp_seconds", "When the daemon made its last good backup; missing without `backup`, 0 if there is none.")
	free          = newDesc("disk_free_bytes", "Free space on the disk of the data folder.")
	heartbeat     = newDesc("scheduler_heartbeat_timestamp_seconds", "When the scheduler last made progress.")
)

// Describe implements [prometheus.Collector]. What is not described beforehand is checked at each scrape.
func (s *scrape) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector]. What cannot be read is left out and logged.
func (s *scrape) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for d, read := range map[*prometheus.Desc]func() error{
		tasks:   func() error { return s.setQueue(gauge) },
		budget:  func() error { return s.setBudget(gauge) },
		blocked: func() error { return s.setBlocks(gauge) },
		sinkLag: func() error { return s.setSinks(gauge) },
		paused:  func() error { return s.setJobs(gauge) },
		backedUp: func() error {
			if s.metrics.config.Load().Backup == nil {
				return nil
			}
			last, err := s.Store.Sinks.State(runs.BackupSink)
			gauge(backedUp, unixSeconds(last.Published))
			return err
		},
		free: func() error {
			room, err := s.Store.DB.Free()
			if room != machine.Unknown {
				gauge(free, float64(room))
			}
			return err
		},
		unknownFields: func() error {
			return s.countDrift(func(op outlier.Operation, n int64) {
				to <- prometheus.MustNewConstMetric(unknownFields, prometheus.CounterValue, float64(n), string(op))
			})
		},
	} {
		if err := read(); err != nil {
			to <- prometheus.NewInvalidMetric(d, err)
		}
	}
	limit := s.Pace.Status()
	gauge(limitRequests, float64(limit.Limit))
	gauge(limitWindow, limit.Window.Seconds())
	gauge(limitLeft, float64(limit.Remaining))
	gauge(limitReset, unixSeconds(limit.Reset))
	for reason, d := range s.Waited() {
		to <- prometheus.MustNewConstMetric(waited, prometheus.CounterValue, d.Seconds(), reason)
	}
	if beat := s.Beat(); !beat.IsZero() {
		gauge(heartbeat, unixSeconds(beat))
	}
}

type set func(d *prometheus.Desc, v float64, labels ...string)

// setJobs sets the gauges of the jobs of the file.
func (s *scrape) setJobs(gauge set) error {
	config, now := s.metrics.config.Load(), time.Now()
	pauses, err := s.Store.Schedule.Pauses(now)
	if err != nil {
		return err
	}
	for i := range config.Jobs {
		spec := &config.Jobs[i]
		last, err := s.Store.Runs.LastSuccess(spec.Name)
		if err != nil {
			return err
		}
		if !last.IsZero() {
			gauge(success, unixSeconds(last), spec.Name)
		}
		rests := facts.PausedBy(config, spec, pauses) != nil
		gauge(paused, oneIf(rests), spec.Name)
		if due := spec.Coming(now, config.Timezone); !rests && !due.IsZero() {
			gauge(nextFire, unixSeconds(spec.Begins(due, config.Timezone)), spec.Name)
		}
	}
	return nil
}

// setQueue counts queued calls. Counts of removed jobs are added up under one label.
func (s *scrape) setQueue(gauge set) error {
	counts, err := s.Store.Queue.Counts()
	sums := map[[2]string]int{}
	for _, c := range counts {
		sums[[2]string{s.metrics.labelOf(c.Job), string(c.Op)}] += c.Calls
	}
	for labels, n := range sums {
		gauge(tasks, float64(n), labels[:]...)
	}
	return err
}

func (s *scrape) setBudget(gauge set) error {
	caps, now := facts.Caps{Config: s.metrics.config.Load(), Books: s.Store.Books}, s.Store.Clock.Now()
	var failed error
	for scope, read := range map[string]func(time.Time) (facts.CapBalance, error){"day": caps.OfDay, "month": caps.OfMonth} {
		period, err := read(now)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		gauge(budget, float64(period.Held), scope, "used")
		if most := period.Raised(); most != nil {
			gauge(budget, float64(*most), scope, "limit")
			gauge(budget, float64(*period.Left), scope, "left")
		}
	}
	return failed
}

func (s *scrape) setBlocks(gauge set) error {
	stands, err := s.Store.Blocks.Standing(s.metrics.config.Load().Service.Key.Fingerprint(), s.Store.Clock.Now())
	if err != nil {
		return err
	}
	for kind, reason := range map[ledger.BlockKind]string{
		ledger.BlockKey: "key", ledger.BlockCredits: "credits", ledger.BlockClock: "clock",
	} {
		is := slices.ContainsFunc(stands, func(b ledger.Block) bool { return b.Kind == kind })
		gauge(blocked, oneIf(is), reason)
	}
	return nil
}

func (s *scrape) setSinks(gauge set) error {
	end, err := s.Store.Journal.End()
	for _, sink := range s.metrics.config.Load().Sinks {
		now, failed := s.Store.Sinks.State(sink.Kind)
		if err = errors.Join(err, failed); err != nil {
			return err
		}
		gauge(sinkUp, oneIf(now.Error == ""), sink.Kind)
		gauge(sinkLag, float64(max(0, end-now.Mark)), sink.Kind)
		if !now.Published.IsZero() {
			gauge(published, unixSeconds(now.Published), sink.Kind)
		}
	}
	return err
}

func (s *scrape) countDrift(count func(outlier.Operation, int64)) error {
	all, err := s.Store.Learned.Drift()
	sums := map[outlier.Operation]int64{}
	for _, d := range all {
		sums[d.Op] += d.Count
	}
	for op, n := range sums {
		count(op, n)
	}
	return err
}

func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
