package queue

import "outlierd/sync/store"

// Forget removes the queued calls about entities and the record of when they were last requested.
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
