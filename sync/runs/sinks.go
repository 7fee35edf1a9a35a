package runs

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"outlierd/sync/store"
)

// sinksDown is the key in meta of the time since which no sink works.
const sinksDown = "sinks down since"

// SinksDownSince returns since when no sink works, as last recorded by [Runs.SetSinksDown]; zero if
// one does. A time in the future, such as after the clock was set back, counts as now.
func (rs *Runs) SinksDownSince() (since time.Time, err error) {
	var text string
	err = rs.db.View(func(tx *store.Tx) error {
		text, err = tx.Meta(sinksDown)
		return err
	})
	if err == nil && text != "" {
		since, err = time.Parse(time.RFC3339Nano, text)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read since when no sink has worked: %w", err)
	}
	if now := time.Now(); since.After(now) {
		since = now
	}
	return since, nil
}

// SetSinksDown records since when no sink works; zero means that one does.
func (rs *Runs) SetSinksDown(since time.Time) error {
	err := rs.db.Update(func(tx *store.Tx) error {
		if since.IsZero() {
			return tx.SetMeta(sinksDown, "")
		}
		return tx.SetMeta(sinksDown, since.UTC().Format(time.RFC3339Nano))
	})
	if err != nil {
		return fmt.Errorf("record since when no sink works: %w", err)
	}
	return nil
}

// SinkState is the state of a sink, as last recorded by the process that writes to it.
type SinkState struct {
	Mark      int64     `json:"mark"`               // journal id of the last published answer
	Published time.Time `json:"published,omitzero"` // when it was last published
	Error     string    `json:"error,omitempty"`    // why the sink is disabled; "" if it is not
	Since     time.Time `json:"since,omitzero"`     // when it was disabled
	Lacks     int64     `json:"lacks,omitempty"`    // rebuilt without answers up to this one; 0 if it has all
	Places    []string  `json:"places,omitempty"`   // where a lake has been, see [Runs.SinkAt]
}

// sinkKey is the prefix of the key in meta of a sink's state.
const sinkKey = "sink: "

// Sink returns the recorded state of a sink, or the zero value.
func (rs *Runs) Sink(name string) (s SinkState, err error) {
	err = rs.db.View(func(tx *store.Tx) error {
		s, err = sinkState(tx, name)
		return err
	})
	if err != nil {
		return s, fmt.Errorf("read how far sink %s is: %w", name, err)
	}
	return s, nil
}

func sinkState(tx *store.Tx, name string) (s SinkState, err error) {
	text, err := tx.Meta(sinkKey + name)
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &s)
	}
	return s, err
}

// SinkPublished records that a sink has published all answers up to a journal id, and is not disabled.
// The record need not be durable at once, because the sink has its own watermark.
func (rs *Runs) SinkPublished(name string, mark int64) error {
	return rs.setSink(name, func(s *SinkState, now time.Time) {
		*s = SinkState{Mark: mark, Published: now, Lacks: s.Lacks, Places: s.Places}
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

// SinkLacks records up to which answer a sink has no rows because it was rebuilt without them; 0 means
// that it has all.
func (rs *Runs) SinkLacks(name string, upTo int64) error {
	return rs.setSink(name, func(s *SinkState, _ time.Time) { s.Lacks = upTo })
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
		s, err := sinkState(tx, name)
		if err != nil {
			return err
		}
		change(&s, tx.Now().UTC())
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		return tx.SetMeta(sinkKey+name, string(text))
	})
	if err != nil {
		return fmt.Errorf("record how far sink %s is: %w", name, err)
	}
	return nil
}
