package notify

import (
	"encoding/json"
	"fmt"

	"outlierd/sync/state"
	"outlierd/sync/store"
)

// Forget removes messages, sent or not, that name one of these ids, and the rows of alerts whose key is one.
// Of a row with a key of several columns, only the hash of all of them is stored.
func Forget(s *state.Store, ids [][]byte) error {
	err := s.DB.Update(func(tx *store.Tx) error {
		for _, id := range ids {
			key, err := json.Marshal(string(id)) // as in readRow
			if err != nil {
				return err
			}
			if _, err := tx.Exec(`DELETE FROM notify_outbox WHERE instr(payload, ?) > 0`, string(id)); err != nil {
				return err
			}
			if _, err := tx.Exec(`DELETE FROM alert_rows WHERE key = ?`, idOf(string(key))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("erase ids from notifications: %w", err)
	}
	return nil
}
