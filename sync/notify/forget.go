package notify

import (
	"fmt"

	"outlierd/sync/state"
	"outlierd/sync/store"
)

// Forget removes messages, sent or not, and rows of alerts that name one of these ids.
func Forget(s *state.Store, ids [][]byte) error {
	err := s.DB.Update(func(tx *store.Tx) error {
		for _, id := range ids {
			for _, statement := range []string{
				`DELETE FROM notify_outbox WHERE instr(payload, ?) > 0`,
				`DELETE FROM alert_rows WHERE instr(key, ?) > 0`,
			} {
				if _, err := tx.Exec(statement, string(id)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("erase ids from notifications: %w", err)
	}
	return nil
}
