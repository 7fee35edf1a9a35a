package runs

import (
	"fmt"
	"time"

	"outlierd/sync/store"
)

// sinksDown is where meta keeps since when no sink works.
const sinksDown = "sinks down since"

// SinksDownSince is since when no sink works, as [Runs.SetSinksDown] recorded last; zero
// if one does. A time in the future, as after the clock was set back, counts as now.
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
		return time.Time{}, fmt.Errorf("since when does no sink work: %w", err)
	}
	if now := time.Now(); since.After(now) {
		since = now
	}
	return since, nil
}

// SetSinksDown records since when no sink works; zero says that one does.
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
