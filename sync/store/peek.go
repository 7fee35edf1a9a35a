package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"outlierd/internal/durable"
)

// NoStateError is the error of a folder in which no state was created yet. It wraps [fs.ErrNotExist].
type NoStateError struct {
	Dir   string
	Begun bool // another process is creating it
}

func (e *NoStateError) Error() string {
	if e.Begun {
		return fmt.Sprintf("the state in %s is being created by the first run; repeat the command in a moment", e.Dir)
	}
	return fmt.Sprintf("there is no state in %s yet; the first run creates it", e.Dir)
}

func (e *NoStateError) Unwrap() error { return fs.ErrNotExist }

// Peek opens the state folder dir to read, even while another process holds it. It creates, locks
// and upgrades nothing, and writes fail. All reads until the store is closed show the state at the
// first read; so the store should not be kept open for long.
//
// It fails with a [*NoStateError] if there is no state, with a [*CorruptError], or if [Open] must upgrade the state first.
func Peek(ctx context.Context, dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	s := &Store{Folder: &Folder{dir: dir, options: o}, snapshot: true}
	switch info, err := os.Stat(s.Path()); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &NoStateError{Dir: dir}
	case err != nil:
		return nil, fmt.Errorf("open the state to read: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("open the state to read: %s is not a regular file", s.Path())
	}
	if err := s.takeFolder(); err != nil {
		return nil, err
	}
	var err error
	if s.holder, err = heldBy(dir); err == nil {
		s.idle = s.holder == nil
		err = s.readSent() // before the state, which a process that holds the folder changes first
	}
	if err == nil && s.idle {
		var log bool
		if log, err = s.hasLog(); err == nil {
			err = s.checkSize(log)
		}
	}
	if err == nil {
		err = s.openReader(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// takeFolder opens the folder and keeps it in place of the lock file, for [Store.Close] to close.
func (f *Folder) takeFolder() (err error) {
	if f.lock, err = os.Open(f.dir); err != nil {
		return fmt.Errorf("open the state folder to read: %w", err)
	}
	return nil
}

// openReader opens the database and begins the read transaction.
func (s *Store) openReader(ctx context.Context) (err error) {
	if s.conn, err = s.attachConnection(); err != nil {
		return explainRead(s, err)
	}
	want := len(s.options.Migrations)
	have, err := readVersion(ctx, s.conn.db, s.Path(), s.options.Migrations)
	switch {
	case err != nil:
		return explainRead(s, err)
	case have > want:
		return newerError(ctx, s.conn.db, s.Path(), have, want)
	case have == 0:
		return &NoStateError{Dir: s.dir, Begun: s.holder != nil}
	case have < want:
		return fmt.Errorf("%s has schema version %d and this program needs %d; stop the program that uses it, "+
			"and start this version, which upgrades it", s.Path(), have, want)
	}
	return explainRead(s, s.conn.execPlain(`BEGIN`))
}

// immutableMode returns "1" if the file system is read-only, such as that of a snapshot, and the database has no
// log. SQLite would create files beside it, and opens it there only if it is said to be immutable.
func (f *Folder) immutableMode() string {
	_, err := os.Lstat(f.Path() + "-wal")
	if errors.Is(err, fs.ErrNotExist) && errors.Is(unix.Access(f.dir, unix.W_OK), unix.EROFS) {
		return "1"
	}
	return "0"
}

// attachConnection opens a connection in addition to those of other processes.
func (s *Store) attachConnection() (*conn, error) {
	return s.openConnection(url.Values{"mode": {"ro"}, "immutable": {s.immutableMode()}, "_pragma": {
		"busy_timeout(10000)", "trusted_schema(off)", "cell_size_check(on)", "temp_store(memory)", "foreign_keys(on)",
		"synchronous(full)", "cache_size(-8000)",
	}})
}

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
	if s.conn, err = s.attachConnection(); err != nil {
		return explainRead(s, err)
	}
	err = copyInto(ctx, s.conn.db, to)
	switch { // the copy may be on another disk, and the state is only read
	case isFull(err):
		return &FullError{Dir: filepath.Dir(to), Cause: err}
	case isWriteError(err):
		return fmt.Errorf("%w; check the disk of %s, and its quota", err, filepath.Dir(to))
	}
	return explainRead(s, err)
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
