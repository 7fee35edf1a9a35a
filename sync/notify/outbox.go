package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"outlierd/sync/job"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// The outbox is limited: events that a target has not accepted for too long, and the oldest ones beyond a
// maximum, are dropped and logged. Delivered events are kept for a while, so that they are not written
// again.
const (
	keepWaiting   = 7 * 24 * time.Hour
	keepDelivered = 30 * 24 * time.Hour
	maxWaiting    = 1000 // per target
)

// receivers returns the targets that get events. A mail has one for each recipient: a server may refuse one of them,
// and that delays no other.
func receivers(targets []job.Target) (all []job.Target) {
	for _, t := range targets {
		switch {
		case t.Off:
		case t.Kind == job.TargetMail:
			one := t
			for _, to := range t.Mail.To {
				one.Name, one.Mail.To = t.Name+" "+to, []string{to}
				all = append(all, one)
			}
		default:
			all = append(all, t)
		}
	}
	return all
}

// putEvents writes events into the outbox for those of the named targets that want them, in the transaction that
// records their cause, so that neither exists without the other. It does not write an event again whose id is already
// there.
func (w *Watcher) putEvents(tx *store.Tx, names []string, events ...Event) error {
	for _, t := range receivers(w.config.Targets) {
		if name, _, _ := strings.Cut(t.Name, " "); !slices.Contains(names, name) {
			continue
		}
		written := false
		for _, e := range events {
			if !wantsEvent(&t, &e) {
				continue
			}
			is, err := w.writeEvent(tx, t.Name, e)
			if err != nil {
				return fmt.Errorf("put the event %s of target %s in the outbox: %w", e.Kind, t.Name, err)
			}
			written = written || is
		}
		if !written {
			continue
		}
		if err := w.dropOldest(tx, t.Name); err != nil {
			return fmt.Errorf("bound the outbox of target %s: %w", t.Name, err)
		}
	}
	return nil
}

// writeEvent writes an event, and reports whether it was new.
func (w *Watcher) writeEvent(tx *store.Tx, target string, e Event) (written bool, err error) {
	payload, err := json.Marshal(e.cleanForSending(w.config.Service.Key.Redact))
	if err != nil {
		return false, err
	}
	now := store.Micros(tx.Now())
	rows, err := tx.Change(`INSERT INTO notify_outbox (event, kind, target, payload, created, next_try)
		VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, e.ID, string(e.Kind), target, string(payload), now, now)
	return rows > 0, err
}

// dropOldest drops the oldest events of a target beyond [maxWaiting].
func (w *Watcher) dropOldest(tx *store.Tx, target string) error {
	n, err := tx.Change(`DELETE FROM notify_outbox WHERE delivered = 0 AND target = ?1 AND id <= (
		SELECT id FROM notify_outbox WHERE delivered = 0 AND target = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`,
		target, maxWaiting)
	if n > 0 {
		w.log.Error("notifications dropped", "target", target, "events", n,
			"err", fmt.Sprintf("more than %d are waiting", maxWaiting))
	}
	return err
}

// wantsEvent reports whether a target receives an event.
func wantsEvent(t *job.Target, e *Event) bool {
	switch {
	case t.Kind == job.TargetHealthchecks:
		_, pinged := pingSuffix(e.Kind)
		return pinged
	case e.Kind == Started, e.again:
		return false
	case e.Kind == Alert, e.Kind == Report:
		return true
	case len(t.Events) == 0:
		return e.Kind != Published
	}
	return slices.Contains(t.Events, string(e.Kind))
}

// idOf returns the id of an event: a hash of parts that say what it is about.
func idOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// waiting is an event that a target has not accepted yet.
type waiting struct {
	id    int64
	event Event
	tries int
	next  time.Time
}

// nextFor returns the oldest event of a target that is due now, or else the one that is due first; nil if
// there is none. An event that was never tried is due. So is one that would wait for longer than any
// back-off: the clock was ahead when it was recorded.
func nextFor(in store.Reader, target string, now time.Time) (*waiting, error) {
	var w waiting
	found, err := store.Scan(in, []any{&w.id, store.JSON(&w.event), &w.tries, store.Time(&w.next)},
		`SELECT id, payload, tries, iif(tries = 0 OR next_try > ?3, 0, next_try) AS next
		FROM notify_outbox WHERE delivered = 0 AND target = ?1
		ORDER BY next > ?2, iif(next > ?2, next, id), id LIMIT 1`,
		target, store.Micros(now), store.Micros(now.Add(maxBackoff)))
	if err != nil || !found {
		return nil, err
	}
	return &w, nil
}

// settleEvent records that a target has accepted an event.
func settleEvent(in store.Writer, id int64) error {
	return in.Exec(`UPDATE notify_outbox SET delivered = ?, tries = tries + 1 WHERE id = ?`,
		store.Micros(time.Now()), id)
}

// postponeEvent records an attempt that failed.
func postponeEvent(in store.Writer, id int64, until time.Time) error {
	return in.Exec(`UPDATE notify_outbox SET next_try = ?, tries = tries + 1 WHERE id = ?`,
		store.Micros(until), id)
}

// expireBefore deletes events that are old at the given time, see [ledger.Ledger.CertainTime], and returns how many
// of them were not delivered. Events with a time in the local clock's future, recorded while it was ahead,
// count as new.
func expireBefore(tx *store.Tx, certain time.Time) (lost int, err error) {
	err = errors.Join(
		tx.Exec(`UPDATE notify_outbox SET created = ?1 WHERE delivered = 0 AND created > ?1`, store.Micros(tx.Now())),
		tx.Exec(`DELETE FROM notify_outbox WHERE delivered > 0 AND delivered < ?`, store.Micros(certain.Add(-keepDelivered))))
	lost, failed := tx.Change(`DELETE FROM notify_outbox WHERE delivered = 0 AND created < ?`,
		store.Micros(certain.Add(-keepWaiting)))
	return lost, errors.Join(err, failed)
}

// lastState returns the last state of a subject that targets were notified of, "" for none, and since when.
func lastState(in store.Reader, subject string) (state string, since time.Time, err error) {
	_, err = store.Scan(in, []any{&state, store.Time(&since)}, `SELECT state, since FROM notify_episodes WHERE subject = ?`, subject)
	return state, since, err
}

// setState records the state that targets were notified of.
func setState(in store.Writer, subject, state string) error {
	return in.Exec(`INSERT INTO notify_episodes (subject, state, since) VALUES (?, ?, ?)
		ON CONFLICT (subject) DO UPDATE SET state = excluded.state, since = excluded.since`,
		subject, state, store.Micros(time.Now()))
}

const maxRecent = 1000

// Notification is an event and the targets that are notified of it.
type Notification struct {
	Event
	Targets string // their names
	Waits   bool   // a target has not accepted it yet
}

// Recent returns the newest events since a time, at most most of them, newest first. It omits those of
// runs that started or succeeded. It reads only the last [maxRecent] rows of the outbox, so its cost
// does not depend on the number of events in a month.
func Recent(db *store.Store, since time.Time, most int) (all []Notification, err error) {
	type row struct {
		payload, targets string
		waits            bool
	}
	err = db.View(func(tx *store.Tx) error {
		rows, err := store.List(tx, func(r *row) []any { return []any{&r.payload, &r.targets, &r.waits} },
			`SELECT max(payload), group_concat(substr(target, 1, instr(target || ' ', ' ') - 1), ', ' ORDER BY id),
				min(delivered) = 0 FROM (SELECT * FROM notify_outbox ORDER BY id DESC LIMIT `+strconv.Itoa(maxRecent)+`)
				WHERE created >= ? AND kind NOT IN (?, ?, ?) GROUP BY event ORDER BY max(id) DESC LIMIT ?`,
			store.Micros(since), string(Published), string(Started), string(Test), most)
		for i := 0; err == nil && i < len(rows); i++ {
			names := slices.Compact(strings.Split(rows[i].targets, ", ")) // a mail has a row for each recipient
			one := Notification{Targets: strings.Join(names, ", "), Waits: rows[i].waits}
			err = json.Unmarshal([]byte(rows[i].payload), &one.Event)
			all = append(all, one)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the sent notifications: %w", err)
	}
	return all, nil
}

// Forget removes messages, sent or not, that name one of these ids, and the rows of alerts whose key is one.
// Of a row with a key of several columns, only the hash of all of them is stored.
func Forget(s *state.Store, ids [][]byte) error {
	return s.DB.Update(func(tx *store.Tx) (err error) {
		for _, id := range ids {
			key, failed := json.Marshal(string(id)) // as in readRow
			err = errors.Join(err, failed, tx.Exec(`DELETE FROM notify_outbox WHERE instr(payload, ?) > 0`, string(id)),
				tx.Exec(`DELETE FROM alert_rows WHERE key = ?`, idOf(string(key))))
		}
		return err
	})
}
