package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

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
	s := &Store{dir: dir, options: o.withDefaults()}
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

// restorePoints is how many copies of earlier schema versions are kept.
const restorePoints = 2

// restorePoint returns the path of a copy made before an upgrade to another schema version. The
// times in the names make them sort by age.
func restorePoint(dir string, version int, now time.Time) string {
	return filepath.Join(dir, fmt.Sprintf("before-upgrade-%s-version-%d.db",
		now.UTC().Format("20060102T150405Z"), version))
}

// RestorePoints lists the copies in a state folder, oldest first.
func RestorePoints(dir string) ([]string, error) {
	names, err := durable.Match(dir, "before-upgrade-*.db")
	slices.Sort(names)
	return names, err
}

// RemoveRestorePoints removes these copies, which contain data that the file no longer has.
func (s *Store) RemoveRestorePoints() error {
	names, err := RestorePoints(s.dir)
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	return errors.Join(err, durable.Sync(s.dir))
}

// keepRestorePoint copies the file before a later version of the program changes it, unless the
// file is empty.
func (s *Store) keepRestorePoint(ctx context.Context) error {
	have, err := readVersion(ctx, s.conn.db, s.Path())
	if err != nil || have == 0 || have >= len(s.options.Migrations) {
		return err
	}
	info, err := os.Stat(s.Path())
	if err != nil {
		return err
	}
	free, err := s.options.FreeSpace(s.dir)
	if err != nil {
		return err
	}
	if need := uint64(info.Size()) + s.options.MinFree; free < need {
		return fmt.Errorf("upgrade %s from schema version %d to %d: a copy is kept first, "+
			"and %d MB are free of the %d MB that are needed: free some space",
			s.Path(), have, len(s.options.Migrations), free>>20, need>>20)
	}
	to := restorePoint(s.dir, have, time.Now())
	if err := copyInto(ctx, s.conn.db, to); err != nil {
		return err
	}
	s.options.Log.Info("state copied before the upgrade", "path", to, "from_version", have,
		"to_version", len(s.options.Migrations))
	all, err := RestorePoints(s.dir)
	for _, old := range all[:max(0, len(all)-restorePoints)] {
		err = errors.Join(err, os.Remove(old))
	}
	return err
}
