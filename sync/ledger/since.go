package ledger

import (
	"fmt"
	"time"

	"outlierd/sync/store"
)

// LastCall returns the id of the newest attempt, or 0.
func (l *Ledger) LastCall() (id int64, err error) {
	err = l.db.View(func(tx *store.Tx) error {
		return tx.Row(`SELECT coalesce(max(id), 0) FROM attempts`).Scan(&id)
	})
	if err != nil {
		return 0, fmt.Errorf("look for the newest call: %w", err)
	}
	return id, nil
}

// CallsAfter returns at most most attempts after an id, oldest first, without what the journal says
// about their answers.
func (l *Ledger) CallsAfter(id int64, most int) ([]Call, error) {
	return l.list(` WHERE id > ? AND op <> '`+adjustment+`' ORDER BY id LIMIT ?`, id, most)
}

// CallByID returns the attempt with this id, in the form of [Ledger.CallsAfter]; an empty list if
// there is none.
func (l *Ledger) CallByID(id int64) ([]Call, error) { return l.list(` WHERE id = ?`, id) }

func (l *Ledger) list(condition string, args ...any) (all []Call, err error) {
	err = l.db.View(func(tx *store.Tx) error {
		rows, err := store.List(tx, (*callRow).columns, callColumns+condition, args...)
		for _, r := range rows {
			r.SentAt, r.AnsweredAt = store.Instant(r.sent), store.Instant(r.answered)
			r.Waited = time.Duration(r.waited) * time.Microsecond
			all = append(all, r.Call)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list calls: %w", err)
	}
	return all, nil
}
