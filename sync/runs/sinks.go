package runs

import (
	"fmt"
	"slices"
	"time"

	"outlierd/sync/store"
)

// sinksDown is the time since which no sink works.
var sinksDown = store.Cell[time.Time]{Key: "sinks down since"}

// SinksDownSince returns since when no sink works, as last recorded by [Runs.SetSinksDown]; zero if
// one does. A time in the future, such as after the clock was set back, counts as now.
func (rs *Runs) SinksDownSince() (since time.Time, err error) {
	err = rs.db.View(func(tx *store.Tx) error { since, err = sinksDown.Get(tx); return err })
	if now := time.Now(); since.After(now) {
		since = now
	}
	return since, err
}

// SetSinksDown records since when no sink works; zero means that one does.
func (rs *Runs) SetSinksDown(since time.Time) error {
	return rs.db.Update(func(tx *store.Tx) error { return sinksDown.Set(tx, since.UTC()) })
}

// SinkState is the state of a sink, as last recorded by the process that writes to it.
type SinkState struct {
	Mark      int64     `json:"mark"`               // journal id of the last published answer
	Published time.Time `json:"published,omitzero"` // when it was last published
	Error     string    `json:"error,omitempty"`    // why the sink is disabled; "" if it is not
	Since     time.Time `json:"since,omitzero"`     // when it was disabled
	Places    []string  `json:"places,omitempty"`   // where a lake or the backups have been, see [Runs.SinkAt]
}

// BackupSink is the name of the state of the daemon's backups, which is that of a sink: when the last good one was
// made, since when they fail, and where they have been.
const BackupSink = "backup"

func sinkNamed(name string) store.Cell[SinkState] { return store.Cell[SinkState]{Key: "sink: " + name} }

// Sink returns the recorded state of a sink, or the zero value.
func (rs *Runs) Sink(name string) (s SinkState, err error) {
	err = rs.db.View(func(tx *store.Tx) error { s, err = sinkNamed(name).Get(tx); return err })
	return s, err
}

// SinkPublished records that a sink has published all answers up to a journal id, and is not disabled.
// The record need not be durable at once, because the sink has its own watermark.
func (rs *Runs) SinkPublished(name string, mark int64) error {
	return rs.setSink(name, func(s *SinkState, now time.Time) {
		*s = SinkState{Mark: mark, Published: now, Places: s.Places}
	})
}

// SinkAt adds a place to those in which a sink has kept tables, unless it is known. It is durable before
// the sink receives rows.
func (rs *Runs) SinkAt(name, place string) error {
	known, err := rs.Sink(name)
	if err != nil || slices.Contains(known.Places, place) {
		return err
	}
	return rs.setSink(name, func(s *SinkState, _ time.Time) { s.Places = append(s.Places, place) })
}

// SinkDisabled records that a sink is disabled, and why.
func (rs *Runs) SinkDisabled(name string, cause error) error {
	return rs.setSink(name, func(s *SinkState, now time.Time) {
		if s.Error == "" {
			s.Since = now
		}
		s.Error = store.Bounded(cause.Error())
	})
}

func (rs *Runs) setSink(name string, change func(*SinkState, time.Time)) error {
	err := rs.db.Update(func(tx *store.Tx) error {
		s, err := sinkNamed(name).Get(tx)
		if err != nil {
			return err
		}
		change(&s, tx.Now().UTC())
		return sinkNamed(name).Set(tx, s)
	})
	if err != nil {
		return fmt.Errorf("record how far sink %s is: %w", name, err)
	}
	return nil
}
