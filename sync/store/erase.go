package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
)

// Erased replaces a forgotten id.
const Erased = "forgotten"

// Without returns a text with [Erased] in place of ids.
func Without(text string, ids [][]byte) string {
	clean := []byte(text)
	for _, id := range ids {
		clean = bytes.ReplaceAll(clean, id, []byte(Erased))
	}
	return string(clean)
}

// Erase replaces ids by [Erased] in these columns of a table.
func Erase(tx *Tx, table string, ids [][]byte, columns ...string) (err error) {
	for _, column := range columns {
		for _, id := range ids {
			err = errors.Join(err, tx.Exec(`UPDATE `+table+` SET `+column+` = iif(typeof(`+column+`) = 'blob',
				CAST(replace(`+column+`, ?1, ?2) AS BLOB), replace(`+column+`, ?1, ?2)) WHERE instr(`+column+`, ?1) > 0`,
				string(id), Erased))
		}
	}
	return err
}

// EraseMeta replaces ids by [Erased] in the values of the table meta, such as the jobs of the last schedule.
func EraseMeta(tx *Tx, ids [][]byte) error { return Erase(tx, "meta", ids, "value") }

// inMemory is the size up to which [Store.Compact] works in memory, in bytes. A larger file needs
// space for a copy of itself in the folder for temporary files.
const inMemory = 256 << 20

// Compact rewrites the file, so that neither it nor its log contains deleted or replaced data that
// a program could read from the raw bytes.
func (s *Store) Compact(ctx context.Context) error {
	info, err := os.Stat(s.Path())
	if err != nil {
		return err
	}
	kind := "memory"
	if info.Size() > inMemory {
		kind = "file"
	}
	for _, statement := range []string{
		`PRAGMA temp_store = ` + kind, `VACUUM`, `PRAGMA temp_store = memory`,
	} {
		if err := s.Execute(statement); err != nil {
			return fmt.Errorf("rewrite %s: %w", s.Path(), err)
		}
	}
	// The log is copied into the file and truncated. That waits a moment for readers, which need the old content of both.
	s.mu.Lock()
	defer s.mu.Unlock()
	db := s.conn.db
	var busy, pages, copied int
	_, err = db.ExecContext(ctx, `PRAGMA busy_timeout = 2000`)
	if err == nil {
		err = db.QueryRowContext(ctx, `PRAGMA wal_checkpoint(truncate)`).Scan(&busy, &pages, &copied)
	}
	if err == nil {
		_, err = db.ExecContext(ctx, `PRAGMA busy_timeout = 0`)
	}
	if err == nil && busy != 0 {
		return fmt.Errorf("rewrite %s: another program reads it, so the old content stays in it and in its log; "+
			"close that program and run again", s.Path())
	}
	if err != nil {
		return s.explainError(fmt.Errorf("rewrite %s: %w", s.Path(), err))
	}
	return nil
}
