package runs

import (
	"errors"

	"outlierd/sync/store"
)

// Forget removes videos, given by their ids or those of their channels, from the recorded hits, and
// erases the ids from the requests of runs. The records of scans do not change.
func Forget(tx *store.Tx, ids [][]byte) (err error) {
	for _, id := range ids {
		for _, statement := range []string{
			`DELETE FROM seen WHERE video = ?`,
			`UPDATE imported SET video = NULL, origin = '' WHERE video = ?`,
			`DELETE FROM run_hits WHERE video = ?`,
			`DELETE FROM run_hits WHERE channel = ?`,
			// Two keys would become one. Such a search is refused from now on, and needs none.
			`DELETE FROM watermarks WHERE instr(key, ?) > 0`,
		} {
			err = errors.Join(err, tx.Exec(statement, string(id)))
		}
	}
	for table, columns := range map[string][]string{
		"steps": {"item", "queries", "seeds", "params", "watermark"}, "runs": {"plan", "error"}, "pauses": {"why"},
	} {
		err = errors.Join(err, store.Erase(tx, table, ids, columns...))
	}
	return err
}
