package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"outlierd/internal/durable"
)

// Copy writes a consistent copy of the state in the folder dir into a new file, also while another
// process has locked the folder. The copy is durable when Copy returns nil.
func Copy(ctx context.Context, dir, to string, o Options) (err error) {
	seen, err := Peek(ctx, dir, o)
	if err != nil {
		return err
	}
	if err := seen.Close(); err != nil { // its transaction would block the copy
		return err
	}
	s := &Store{Folder: &Folder{dir: dir, options: o.withDefaults()}}
	if err := s.takeFolder(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if s.conn, err = s.attachConnection("ro"); err != nil {
		return err
	}
	err = copyInto(ctx, s.conn.db, to)
	switch { // the copy may be on another disk, and the state is only read
	case isFull(err):
		return &FullError{Dir: filepath.Dir(to), Cause: err}
	case isWriteError(err):
		return fmt.Errorf("%w; check the disk of %s, and its quota", err, filepath.Dir(to))
	}
	return s.explainError(err)
}

// copyInto writes the copy to a temporary file and renames it, so that to is complete or missing.
func copyInto(ctx context.Context, db *sql.DB, to string) error {
	temp := to + ".new"
	if err := os.RemoveAll(temp); err != nil { // of a process that was killed
		return err
	}
	_, err := db.ExecContext(ctx, `VACUUM INTO ?`, temp)
	if err == nil {
		err = os.Chmod(temp, 0o600)
	}
	if err == nil {
		err = durable.Sync(temp)
	}
	if err == nil {
		err = durable.Rename(temp, to)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("copy the state to %s: %w", to, err), os.RemoveAll(temp))
	}
	return nil
}
