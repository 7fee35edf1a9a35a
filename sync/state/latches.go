package state

import (
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Latch is a refusal that stands for every later call of its kind, until something
// outside changes. Those of the service are named after the HTTP status.
type Latch string

// The latches.
const (
	LatchCredits Latch = "402"   // paid calls: there are no credits left
	LatchKey     Latch = "401"   // all calls: the key is refused
	LatchClock   Latch = "clock" // paid calls: nobody but this machine's clock tells the time; of no key. A person's word ends it, for the day of its Until
)

// Latched is a latch that has fallen.
type Latched struct {
	Latch  Latch
	Key    string // fingerprint of the key that met the refusal
	Reason string
	Since  time.Time
	Until  time.Time // zero if only [Tx.Unlatch] ends it
}

// SetLatch lets a latch fall for a key, until an instant or for good if it is zero.
// A latch that has fallen already keeps the time since when.
func (t *Tx) SetLatch(l Latch, key, reason string, until time.Time) error {
	_, err := t.exec(`INSERT INTO latches (latch, key, reason, since, until) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET reason = excluded.reason, until = excluded.until`,
		string(l), key, bounded(reason), micros(t.now), micros(until))
	if err != nil {
		return fmt.Errorf("set latch %s: %w", l, err)
	}
	return nil
}

// Unlatch lifts a latch of a key; nothing happens if it has not fallen.
func (t *Tx) Unlatch(l Latch, key string) error {
	if _, err := t.exec(`DELETE FROM latches WHERE latch = ? AND key = ?`, string(l), key); err != nil {
		return fmt.Errorf("lift latch %s: %w", l, err)
	}
	return nil
}

// Latch is the latch of a key if it has fallen, even if its time is over, which is
// for the caller to judge; nil if it has not. Without a key, as of a reader that has none, it
// is the last to fall of any key.
func (s *Store) Latch(l Latch, key string) (*Latched, error) {
	latched := Latched{Latch: l, Key: key}
	var since, until int64
	err := s.view(func() error {
		return s.row(`SELECT reason, since, until FROM latches WHERE latch = ?1 AND (key = ?2 OR ?2 = '')
			ORDER BY since DESC LIMIT 1`, string(l), key).Scan(&latched.Reason, &since, &until)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for latch %s: %w", l, err)
	}
	latched.Since, latched.Until = instant(since), instant(until)
	return &latched, nil
}
