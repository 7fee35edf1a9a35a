package ledger

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"outlierd/sync/store"
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
	Until  time.Time // zero if only [Unlatch] ends it
}

// SetLatch lets a latch fall for a key, until an instant or for good if it is zero.
// A latch that has fallen already keeps the time since when.
func SetLatch(tx *store.Tx, l Latch, key, reason string, until time.Time) error {
	_, err := tx.Exec(`INSERT INTO latches (latch, key, reason, since, until) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET reason = excluded.reason, until = excluded.until`,
		string(l), key, store.Bounded(reason), store.Micros(tx.Now()), store.Micros(until))
	if err != nil {
		return fmt.Errorf("set latch %s: %w", l, err)
	}
	return nil
}

// Unlatch lifts a latch of a key; nothing happens if it has not fallen.
func Unlatch(tx *store.Tx, l Latch, key string) error {
	if _, err := tx.Exec(`DELETE FROM latches WHERE latch = ? AND key = ?`, string(l), key); err != nil {
		return fmt.Errorf("lift latch %s: %w", l, err)
	}
	return nil
}

// Latch is the latch of a key if it has fallen, even if its time is over, which is
// for the caller to judge; nil if it has not. Without a key, as of a reader that has none, it
// is the last to fall of any key.
func (l *Ledger) Latch(kind Latch, key string) (*Latched, error) {
	latched := Latched{Latch: kind, Key: key}
	var since, until int64
	err := l.db.View(func(tx *store.Tx) error {
		return tx.Row(`SELECT reason, since, until FROM latches WHERE latch = ?1 AND (key = ?2 OR ?2 = '')
			ORDER BY since DESC LIMIT 1`, string(kind), key).Scan(&latched.Reason, &since, &until)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for latch %s: %w", kind, err)
	}
	latched.Since, latched.Until = store.Instant(since), store.Instant(until)
	return &latched, nil
}

// Liftable are the blocks of a key, and that of the clock unless its time is set, in the
// order in which they began.
func (l *Ledger) Liftable(key string) (all []Latched, err error) {
	for _, b := range []struct {
		kind Latch
		key  string
	}{{LatchCredits, key}, {LatchKey, key}, {LatchClock, ""}} {
		fallen, failed := l.Latch(b.kind, b.key)
		err = errors.Join(err, failed)
		if fallen != nil && (b.kind != LatchClock || fallen.Until.IsZero()) {
			all = append(all, *fallen)
		}
	}
	slices.SortFunc(all, func(a, b Latched) int { return a.Since.Compare(b.Since) })
	return all, err
}

// Lift lifts the blocks of a key. That of the clock is over from now on.
func Lift(tx *store.Tx, key string) error {
	_, err := tx.Exec(`DELETE FROM latches WHERE key = ? AND latch IN (?, ?)`, key, string(LatchCredits), string(LatchKey))
	if err == nil {
		_, err = tx.Exec(`UPDATE latches SET until = ? WHERE latch = ? AND until = 0`, store.Micros(time.Now()), string(LatchClock))
	}
	return err
}
