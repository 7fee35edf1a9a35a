package metrics

import (
	"context"
	"sync/atomic"
	"time"

	"outlierd/sinks"
)

// sink counts the rows that a sink accepts.
type sink struct {
	sinks.Sink
	metrics *Metrics
	mark    atomic.Int64          // the last answer that it reported to have
	failed  atomic.Pointer[error] // of its last call; nil if that succeeded
}

// Sink returns a sink whose rows are counted.
func (m *Metrics) Sink(s sinks.Sink) sinks.Sink {
	if m == nil {
		return s
	}
	counted := &sink{Sink: s, metrics: m}
	m.sinks = append(m.sinks, counted)
	return counted
}

// Sinks returns the errors of the sinks' last calls, by name; nil for a sink that works.
func (m *Metrics) Sinks() map[string]error {
	all := map[string]error{}
	for _, s := range m.sinks {
		all[s.Name()] = nil
		if failed := s.failed.Load(); failed != nil {
			all[s.Name()] = *failed
		}
	}
	return all
}

// noted records whether a call of the sink succeeded.
func (s *sink) noted(err error) error {
	if err == nil {
		s.failed.Store(nil)
	} else {
		s.failed.Store(&err)
	}
	return err
}

func (s *sink) Watermark(ctx context.Context) (int64, error) {
	mark, err := s.Sink.Watermark(ctx)
	if err == nil {
		s.mark.Store(mark)
	}
	return mark, s.noted(err)
}

func (s *sink) Write(ctx context.Context, b sinks.Batch) error {
	began := time.Now()
	if err := s.noted(s.Sink.Write(ctx, b)); err != nil {
		return err
	}
	s.metrics.commit.WithLabelValues(s.Name()).Observe(time.Since(began).Seconds())
	for _, part := range b.Parts {
		s.metrics.rows.WithLabelValues(s.Name(), part.Table.Name).Add(float64(part.Rows.NumRows()))
	}
	s.mark.Store(b.Hi)
	return nil
}

func (s *sink) Publish(ctx context.Context, ops *sinks.Ops) error {
	began := time.Now()
	if err := s.noted(s.Sink.Publish(ctx, ops)); err != nil {
		return err
	}
	s.metrics.publish.WithLabelValues(s.Name()).Observe(time.Since(began).Seconds())
	s.metrics.published.WithLabelValues(s.Name()).SetToCurrentTime()
	return nil
}
