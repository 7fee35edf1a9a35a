package store

import (
	"bytes"
	"context"
	"fmt"
	"os"
)

// Erased stands in the place of an id that was forgotten.
const Erased = "forgotten"

// Without is a text with [Erased] in the place of ids.
func Without(text string, ids [][]byte) string {
	clean := []byte(text)
	for _, id := range ids {
		clean = bytes.ReplaceAll(clean, id, []byte(Erased))
	}
	return string(clean)
}

// Erase puts [Erased] in the place of ids, wherever they stand in these columns of a table.
func Erase(tx *Tx, table string, ids [][]byte, columns ...string) error {
	for _, column := range columns {
		for _, id := range ids {
			_, err := tx.Exec(`UPDATE `+table+` SET `+column+` = replace(`+column+`, ?1, ?2) WHERE instr(`+column+`, ?1) > 0`,
				string(id), Erased)
			if err != nil {
				return fmt.Errorf("erase ids from %s of %s: %w", column, table, err)
			}
		}
	}
	return nil
}

// inMemory is the size up to which [Store.Compact] works in memory, in bytes. A larger file needs room
// for a copy of itself where the machine keeps temporary files.
const inMemory = 256 << 20

// Compact writes the file anew, with nothing left in it or in its log of what was deleted or replaced,
// where a program that reads bytes would find it. From then on [Store.GiveBack] works, also on a file that
// an earlier version made.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.Flush(); err != nil {
		return err
	}
	info, err := os.Stat(s.Path())
	if err != nil {
		return err
	}
	kind := "memory"
	if info.Size() > inMemory {
		kind = "file"
	}
	for _, statement := range []string{
		`PRAGMA temp_store = ` + kind, `PRAGMA auto_vacuum = incremental`, `VACUUM`, `PRAGMA wal_checkpoint(truncate)`, `PRAGMA temp_store = memory`,
	} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return s.explain(fmt.Errorf("rewrite %s: %w", s.Path(), err))
		}
	}
	return nil
}
