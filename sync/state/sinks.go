package state

import (
	"fmt"
	"time"
)

// sinksDown is where meta keeps since when no sink works.
const sinksDown = "sinks down since"

// SinksDownSince is since when no sink works, as [Store.SetSinksDown] was told last; zero
// if one does. A time in the future, as after the clock was set back, counts as now.
func (s *Store) SinksDownSince() (since time.Time, err error) {
	var text string
	err = s.view(func() error {
		text, err = (&Tx{s: s}).meta(sinksDown)
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
func (s *Store) SetSinksDown(since time.Time) error {
	err := s.Update(func(tx *Tx) error {
		if since.IsZero() {
			_, err := tx.exec(`DELETE FROM meta WHERE key = ?`, sinksDown)
			return err
		}
		return tx.setMeta(sinksDown, since.UTC().Format(time.RFC3339Nano))
	})
	if err != nil {
		return fmt.Errorf("record since when no sink works: %w", err)
	}
	return nil
}
