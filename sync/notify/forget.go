package notify

import (
	"encoding/json"
	"errors"

	"outlierd/sync/state"
	"outlierd/sync/store"
)

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
