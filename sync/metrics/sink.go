package metrics

import (
	"maps"

	"outlierd/sync/load"
)

// Observe counts a step of the warehouse or of a copy.
func (m *Metrics) Observe(step load.Step) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	answers := step.Answers
	if step.Err != nil {
		answers = m.sinks[step.Sink].Answers // as before
	}
	m.sinks[step.Sink] = load.Step{Answers: answers, Err: step.Err}
	switch {
	case step.Took == 0:
	case step.Rows != nil:
		m.commit.Observe(step.Took.Seconds())
		for table, n := range step.Rows {
			m.rows.WithLabelValues(table).Add(float64(n))
		}
	default:
		m.publish.WithLabelValues(step.Sink).Observe(step.Took.Seconds())
		m.published.WithLabelValues(step.Sink).SetToCurrentTime()
	}
}

// Sinks returns why the warehouse and the copies do not work, by name; nil for one that works.
func (m *Metrics) Sinks() map[string]error {
	all := map[string]error{}
	for name, last := range m.lastSteps() {
		all[name] = last.Err
	}
	return all
}

// lastSteps returns what the last steps of the warehouse and of the copies have shown, by name.
func (m *Metrics) lastSteps() map[string]load.Step {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.sinks)
}
