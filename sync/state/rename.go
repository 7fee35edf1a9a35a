package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// account is the name under which the spending of a job adds up: that which the job
// had when it was first seen. A new name is no fresh budget.
func (s *Store) account(job string) (string, error) {
	account := job
	err := s.row(`SELECT account FROM jobs WHERE job = ?`, job).Scan(&account)
	if errors.Is(err, sql.ErrNoRows) {
		return job, nil
	}
	return account, err
}

// Rename lets a job go on under a new name: its watermarks, its tasks in the queue,
// its scans, what it has spent, since when it is known, when it was last due and a run
// that may go on. What is over keeps the old name. Carrying it out again does nothing,
// so that `was` may stay in the file, and another job may take the old name later.
//
// The queue goes first, in pieces. A process that is killed meanwhile has renamed nothing
// else, and the next one moves the rest.
func (s *Store) Rename(ctx context.Context, old, new string) error {
	if old == new || old == "" || new == "" {
		return fmt.Errorf("rename job %q to %q: two different names are needed", old, new)
	}
	done, err := s.Renamed(old, new)
	if done || err != nil {
		return err
	}
	if err := s.renameQueued(ctx, old, new); err != nil {
		return fmt.Errorf("rename job %s to %s: %w", old, new, err)
	}
	err = s.Update(func(tx *Tx) error {
		result, err := tx.exec(`INSERT INTO renames (old, new, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, old, new, micros(tx.now))
		if err != nil || !changed(result) {
			return err
		}
		id, err := result.LastInsertId()
		if err != nil {
			return err
		}
		if err := tx.handOver(old, new, id); err != nil {
			return err
		}
		// So that it can be taken back, and done again.
		_, err = tx.exec(`DELETE FROM renames WHERE old = ? AND new = ?`, new, old)
		return err
	})
	if err != nil {
		return fmt.Errorf("rename job %s to %s: %w", old, new, err)
	}
	return nil
}

// Renamed reports whether a job's change of name has been carried out; see [Store.Rename].
func (s *Store) Renamed(old, new string) (done bool, err error) {
	err = s.view(func() error {
		return s.row(`SELECT EXISTS (SELECT 1 FROM renames WHERE old = ? AND new = ?)`, old, new).Scan(&done)
	})
	if err != nil {
		return false, fmt.Errorf("was job %s renamed to %s: %w", old, new, err)
	}
	return done, nil
}

func (t *Tx) handOver(old, new string, rename int64) error {
	if err := t.handOverAccount(old, new, rename); err != nil {
		return err
	}
	if err := t.handOverFirstSeen(old, new); err != nil {
		return err
	}
	// The new name has a watermark of its own only if it was used before the rename was
	// written down; the later of the two has covered more.
	for _, statement := range []string{
		`DELETE FROM watermarks WHERE job = ?1 AND EXISTS (SELECT 1 FROM watermarks w WHERE w.job = ?2 AND w.key = watermarks.key AND w.at >= watermarks.at)`,
		`UPDATE OR REPLACE watermarks SET job = ?2 WHERE job = ?1`,
		`UPDATE OR IGNORE scans SET job = ?2 WHERE job = ?1`,
		`UPDATE OR IGNORE runs SET job = ?2 WHERE job = ?1 AND ` + mayGoOn,
		`UPDATE OR REPLACE owed SET job = ?2 WHERE job = ?1`,
	} {
		if _, err := t.exec(statement, old, new); err != nil {
			return err
		}
	}
	return nil
}

// renameQueued moves the calls of a job to its new name. A wish that the new name has, too,
// goes.
func (s *Store) renameQueued(ctx context.Context, old, new string) error {
	const shared = ` AND (EXISTS (SELECT 1 FROM queue q WHERE q.op = ?3 AND q.entity = ?4 AND q.job = ?2)
		OR EXISTS (SELECT 1 FROM queue_others n WHERE n.op = ?3 AND n.entity = ?4 AND n.job = ?2))`
	for _, table := range []struct{ name, drop string }{
		{"queue", ""},
		{"queue_others", `DELETE FROM queue_others WHERE job = ?1 AND op = ?3 AND entity = ?4` + shared},
	} {
		move := `UPDATE ` + table.name + ` SET job = ?2 WHERE job = ?1 AND op = ?3 AND entity = ?4`
		err := s.InPieces(ctx, func(tx *Tx, most int) (int, error) {
			type call struct{ op, entity string }
			calls, err := list(s, func(c *call) []any { return []any{&c.op, &c.entity} }, wants(table.name), old, "", most)
			for _, c := range calls {
				if table.drop != "" {
					_, err = tx.exec(table.drop, old, new, c.op, c.entity)
				}
				if err == nil {
					_, err = tx.exec(move, old, new, c.op, c.entity)
				}
				if err != nil {
					break
				}
			}
			return len(calls), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// handOverAccount gives the account and the last due instant of the old name to the
// new one, and the old name fresh ones for whoever bears it next. A new name that
// has spent already keeps its own account.
func (t *Tx) handOverAccount(old, new string, rename int64) error {
	account, err := t.accountAfter(old, new)
	if err != nil {
		return err
	}
	due, err := t.lastDue(old)
	if err != nil {
		return err
	}
	ownDue, err := t.lastDue(new)
	if err != nil {
		return err
	}
	if _, err := t.exec(`DELETE FROM jobs WHERE job IN (?, ?)`, old, new); err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO jobs (job, account, last_due, after_run) VALUES (?1, ?2, ?3, 0),
		(?4, ?5, 0, (SELECT coalesce(max(id), 0) FROM runs))`, new, account, max(due, ownDue), old, fmt.Sprintf("%s~%d", old, rename))
	return err
}

func (t *Tx) accountAfter(old, new string) (string, error) {
	own, err := t.s.account(new)
	if err != nil {
		return "", err
	}
	var spent bool
	err = t.row(`SELECT EXISTS (SELECT 1 FROM attempts WHERE price > 0 AND account = ?)`, own).Scan(&spent)
	if err != nil || spent {
		return own, err
	}
	return t.s.account(old)
}

func (t *Tx) handOverFirstSeen(old, new string) error {
	before, err := t.meta(firstSeen + old)
	if err != nil || before == "" {
		return err
	}
	if err := t.setMeta(firstSeen+new, before); err != nil {
		return err
	}
	_, err = t.exec(`DELETE FROM meta WHERE key = ?`, firstSeen+old)
	return err
}
