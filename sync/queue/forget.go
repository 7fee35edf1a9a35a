package queue

import "outlierd/sync/store"

// Forget removes queued calls about entities, and what is known of when they were asked about.
func Forget(tx *store.Tx, ids [][]byte) error {
	for _, id := range ids {
		for _, statement := range []string{
			`DELETE FROM queue WHERE entity = ?`,
			`DELETE FROM freshness WHERE entity = ?`,
		} {
			if _, err := tx.Exec(statement, string(id)); err != nil {
				return err
			}
		}
	}
	return nil
}
