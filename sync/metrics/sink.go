package metrics

import (
	"context"
	"sync/atomic"
	"time"

	"outlierd/sinks"
)

// watched records whether the last call of the warehouse or of a copy succeeded, and what it holds.
type watched struct {
	name   string
	mark   atomic.Int64          // the last answer that it reported to have
	failed atomic.Pointer[error] // of its last call; nil if that succeeded
}

// recordMarks records the result of a call, after which it holds what the marks say.
func (w *watched) recordMarks(has sinks.Marks, err error) {
	if err != nil {
		w.failed.Store(&err)
		return
	}
	w.failed.Store(nil)
	w.mark.Store(has.Answers)
}

func (m *Metrics) watchSink(name string) *watched {
	w := &watched{name: name}
	m.sinks = append(m.sinks, w)
	return w
}

// Sinks returns the errors of the last calls of the warehouse and of the copies, by name; nil for one that
// works.
func (m *Metrics) Sinks() map[string]error {
	all := map[string]error{}
	for _, s := range m.sinks {
		all[s.name] = nil
		if failed := s.failed.Load(); failed != nil {
			all[s.name] = *failed
		}
	}
	return all
}

// Warehouse returns a warehouse whose rows are counted.
func (m *Metrics) Warehouse(w sinks.Warehouse) sinks.Warehouse {
	if m == nil {
		return w
	}
	return &warehouse{Warehouse: w, metrics: m, watched: m.watchSink("warehouse")}
}

type warehouse struct {
	sinks.Warehouse
	metrics *Metrics
	*watched
}

func (w *warehouse) Marks(ctx context.Context) (sinks.Marks, error) {
	has, err := w.Warehouse.Marks(ctx)
	w.recordMarks(has, err)
	return has, err
}

func (w *warehouse) Write(ctx context.Context, b sinks.Batch) error {
	began := time.Now()
	err := w.Warehouse.Write(ctx, b)
	if w.recordMarks(sinks.Marks{Answers: b.Hi}, err); err != nil {
		return err
	}
	w.metrics.commit.Observe(time.Since(began).Seconds())
	for _, part := range b.Parts {
		w.metrics.rows.WithLabelValues(part.Table.Name).Add(float64(part.Rows.NumRows()))
	}
	return nil
}

// Copy returns a copy of the warehouse, which is watched already, whose publications are measured.
func (m *Metrics) Copy(c sinks.Copy) sinks.Copy {
	if m == nil {
		return c
	}
	return &published{Copy: c, metrics: m, of: m.sinks[0], watched: m.watchSink(c.Name())}
}

type published struct {
	sinks.Copy
	metrics *Metrics
	of      *watched // the warehouse
	*watched
}

func (p *published) Shows(ctx context.Context) (sinks.Marks, error) {
	shows, err := p.Copy.Shows(ctx)
	p.recordMarks(shows, err)
	return shows, err
}

func (p *published) Publish(ctx context.Context) error {
	began := time.Now()
	err := p.Copy.Publish(ctx)
	if err == nil {
		p.metrics.publish.WithLabelValues(p.name).Observe(time.Since(began).Seconds())
		p.metrics.published.WithLabelValues(p.name).SetToCurrentTime()
	}
	p.recordMarks(sinks.Marks{Answers: p.of.mark.Load()}, err)
	return err
}
