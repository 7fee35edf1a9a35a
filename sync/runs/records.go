package runs

import (
	"errors"

	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

// Rename moves a job to a new name: its watermarks, its scans, its spending, when it was last due, a pause, pending
// follow-up runs and unfinished runs. Finished runs keep the old name. If it was done already, and no other rename has
// brought the old name back, Rename does nothing and returns true.
func Rename(tx *store.Tx, old, new string) (done bool, err error) {
	done, err = isRenamed(tx, old, new)
	if done || err != nil {
		return done, err
	}
	id, err := store.Value[int64](tx, `INSERT OR REPLACE INTO renames (old, new, at) VALUES (?, ?, ?) RETURNING id`,
		old, new, store.Micros(tx.Now()))
	if err != nil {
		return false, err
	}
	// A rename can be reverted, and then be done again.
	return false, errors.Join(handOver(tx, old, new, id), tx.Exec(`DELETE FROM renames WHERE old = ? AND new = ?`, new, old))
}

// isRenamed reports whether a job's rename has been carried out; see [Rename].
func isRenamed(tx *store.Tx, old, new string) (done bool, err error) {
	return store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM renames AS r WHERE old = ? AND new = ?
		AND NOT EXISTS (SELECT 1 FROM renames AS later WHERE later.new = r.old AND later.id > r.id))`, old, new)
}

func handOver(tx *store.Tx, old, new string, rename int64) error {
	last, err := noted(old).Get(tx)
	err = errors.Join(err, ledger.HandOver(tx, old, new, rename), moveNoted(tx, new, last), noted(old).Clear(tx))
	// The new name has a watermark of its own only if it was used before the rename was
	// declared. The later of the two has covered more.
	for _, statement := range []string{
		`DELETE FROM watermarks WHERE job = ?1 AND EXISTS (SELECT 1 FROM watermarks w WHERE w.job = ?2
			AND w.key = watermarks.key AND w.at >= watermarks.at)`,
		`UPDATE OR REPLACE watermarks SET job = ?2 WHERE job = ?1`,
		`UPDATE OR IGNORE scans SET job = ?2 WHERE job = ?1`,
		`UPDATE OR IGNORE runs SET job = ?2 WHERE job = ?1 AND ` + mayGoOn,
		`UPDATE OR REPLACE dues SET job = ?2 WHERE job = ?1`,
		`UPDATE OR IGNORE pauses SET job = ?2 WHERE job = ?1`,
		`DELETE FROM pauses WHERE job = ?1`,
	} {
		err = errors.Join(err, tx.Exec(statement, old, new))
	}
	return err
}

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
