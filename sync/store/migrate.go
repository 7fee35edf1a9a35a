package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// migrateFile upgrades the file to the latest version in one transaction, so that neither a kill nor a
// concurrent reader leaves or finds a version in between.
func migrateFile(ctx context.Context, db *sql.DB, path string, o Options) error {
	steps := o.Migrations
	have, err := readVersion(ctx, db, path, steps)
	if err != nil {
		return err
	}
	if have > len(steps) {
		return newerError(ctx, db, path, have, len(steps))
	}
	if have == len(steps) {
		return nil
	}
	if err := applySteps(ctx, db, steps, have); err != nil {
		return fmt.Errorf("upgrade %s from schema version %d to %d: %w", path, have, len(steps), err)
	}
	return nil
}

// markOf returns the mark of this program's files in SQLite's header, by the tables with which they began: a first
// step never changes once it is released, and the files of development versions before that have another mark, or
// none. Versions count from the first release.
func markOf(steps []string) int {
	var words []string
	for line := range strings.Lines(steps[0]) {
		code, _, _ := strings.Cut(line, "--")
		words = append(words, strings.Fields(code)...)
	}
	return int(crc32.ChecksumIEEE([]byte(strings.Join(words, " "))) >> 1) // SQLite's is signed
}

// readVersion returns the schema version of the file: 0 if it is empty. A file with tables but no
// version belongs to another program.
func readVersion(ctx context.Context, db *sql.DB, path string, steps []string) (have int, err error) {
	var id, tables int
	for pragma, value := range map[string]*int{
		`PRAGMA user_version`: &have, `PRAGMA application_id`: &id, `SELECT count(*) FROM sqlite_schema`: &tables,
	} {
		if err := db.QueryRowContext(ctx, pragma).Scan(value); err != nil {
			return 0, err
		}
	}
	switch {
	case have == 0 && tables > 0:
		return 0, &CorruptError{Path: path, Detail: "it is a database of another program"}
	case have > 0 && id != markOf(steps):
		return 0, fmt.Errorf("%s was written by a development version before 0.1.0, which this program cannot read; "+
			"use another data folder, and record what was spent in this cycle with 'outlierd budget adjust'; "+
			"the published tables of the old folder stay readable", path)
	}
	return have, nil
}

// VersionKey is the key in meta of the version of the program that opened the state last.
const VersionKey = "version"

// newerError returns the error for a file of a later schema version, with the version of the program
// that wrote it.
func newerError(ctx context.Context, db *sql.DB, path string, have, want int) error {
	wrote := "of unknown version"
	err := db.QueryRowContext(ctx, `SELECT value ->> '$' FROM meta WHERE key = ?`, VersionKey).Scan(&wrote)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return errors.Join(fmt.Errorf("%s has schema version %d, written by outlierd %s, and this program knows versions up to %d; "+
		"use that version or a later one", path, have, wrote, want), err)
}

// applySteps applies the steps after the first `have` ones.
func applySteps(ctx context.Context, db *sql.DB, steps []string, have int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for i, step := range steps[have:] {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return errors.Join(fmt.Errorf("step to %d: %w", have+i+1, err), tx.Rollback())
		}
	}
	mark := fmt.Sprintf(`PRAGMA user_version = %d; PRAGMA application_id = %d`, len(steps), markOf(steps))
	if _, err := tx.ExecContext(ctx, mark); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
