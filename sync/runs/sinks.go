package runs

import (
	"fmt"
	"slices"
	"time"

	"outlierd/sync/store"
)

// Sinks is the record of how far sinks are.
type Sinks struct{ db *store.Store }

// SinkState is the state of a sink, as last recorded by the process that writes to it.
type SinkState struct {
	Mark      int64     `json:"mark"`               // journal id of the last published answer
	Published time.Time `json:"published,omitzero"` // when it was last published
	Error     string    `json:"error,omitempty"`    // why the sink is disabled; "" if it is not
	Since     time.Time `json:"since,omitzero"`     // when it was disabled
	Places    []string  `json:"places,omitempty"`   // where a lake or the backups have been, see [Sinks.AddPlace]
}

// BackupSink is the name of the state of the daemon's backups, which is that of a sink: when the last good one was
// made, since when they fail, and where they have been.
const BackupSink = "backup"

func sinkNamed(name string) store.Cell[SinkState] { return store.Cell[SinkState]{Key: "sink: " + name} }

// State returns the recorded state of a sink, or the zero value.
func (ss *Sinks) State(name string) (s SinkState, err error) {
	err = ss.db.View(func(tx *store.Tx) error { s, err = sinkNamed(name).Get(tx); return err })
	return s, err
}

// SetPublished records that a sink has published all answers up to a journal id, and is not disabled.
// The record need not be durable at once, because the sink has its own watermark.
func (ss *Sinks) SetPublished(name string, mark int64) error {
	return ss.setSink(name, func(s *SinkState, now time.Time) {
		*s = SinkState{Mark: mark, Published: now, Places: s.Places}
	})
}

// AddPlace adds a place to those in which a sink has kept tables, unless it is known. It is durable before
// the sink receives rows.
func (ss *Sinks) AddPlace(name, place string) error {
	known, err := ss.State(name)
	if err != nil || slices.Contains(known.Places, place) {
		return err
	}
	return ss.setSink(name, func(s *SinkState, _ time.Time) { s.Places = append(s.Places, place) })
}

// SetDisabled records that a sink is disabled, and why.
func (ss *Sinks) SetDisabled(name string, cause error) error {
	return ss.setSink(name, func(s *SinkState, now time.Time) {
		if s.Error == "" {
			s.Since = now
		}
		s.Error = store.Bounded(cause.Error())
	})
}

func (ss *Sinks) setSink(name string, change func(*SinkState, time.Time)) error {
	err := ss.db.Update(func(tx *store.Tx) error {
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
