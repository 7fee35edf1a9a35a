package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"outlierd/internal/durable"
	"outlierd/internal/machine"
)

// Options configure a store.
type Options struct {
	// Migrations lead from one schema version to the next. The version of a file is the number of
	// migrations applied to it. The first one creates the table meta.
	Migrations []string

	MinFree   uint64                           // bytes that must be free before anything is bought; 0 means 256 MiB
	FreeSpace func(dir string) (uint64, error) // nil asks the file system

	// BootID identifies the machine's present boot, "" if it is not known; nil asks the
	// system. After an unclean end in an earlier boot the whole file is checked.
	BootID func() string

	// TakeLock locks a file for this process; nil asks the file system. It fails with
	// EWOULDBLOCK while another process has the lock.
	TakeLock func(*os.File) error

	// Begin is called before each transaction that writes, when all that came before is durable; nil for nothing.
	// Tests end a process there.
	Begin func()

	Log *slog.Logger // nil discards
}

func (o Options) withDefaults() Options {
	o.MinFree = cmp.Or(o.MinFree, MinFree)
	if o.FreeSpace == nil {
		o.FreeSpace = machine.FreeSpace
	}
	if o.BootID == nil {
		o.BootID = bootID
	}
	if o.Begin == nil {
		o.Begin = func() {}
	}
	if o.TakeLock == nil {
		o.TakeLock = takeLock
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Open locks the state folder dir for this process, creating it if necessary, and upgrades the
// file to the schema of the latest migration. The owners of the tables then settle what an earlier
// process left open.
//
// It fails with a [*HeldError] or [*CorruptError].
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	if err := makeFolder(dir, o.Log); err != nil {
		return nil, err
	}
	if err := checkFileSize(dir); err != nil {
		return nil, err
	}
	held, before, err := lockFolder(dir, o.TakeLock)
	if err != nil {
		return nil, err
	}
	s := &Store{Folder: &Folder{dir: dir, options: o, lock: held, holds: true, bootBefore: before.Boot}}
	if err := errors.Join(durable.RemoveUnfinished(dir), s.openAndUpgrade(ctx)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// makeFolder creates the folder, accessible only to its owner. That of another user stays as it is, such as on a volume
// that belongs to a group (fsGroup), unless every user may write to it.
func makeFolder(dir string, log *slog.Logger) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the state folder as user %d: %w", os.Getuid(), err)
	}
	err := os.Chmod(dir, 0o700)
	if info, unknown := os.Stat(dir); errors.Is(err, unix.EPERM) && unknown == nil && info.Mode()&0o002 == 0 {
		log.Info("state folder belongs to another user, and keeps its mode", "owner", ownerOf(info), "mode", info.Mode())
		return nil
	}
	if err != nil {
		return fmt.Errorf("restrict access to the state folder: %w", err)
	}
	return nil
}

// ownerOf returns the id of the user that a file belongs to; -1 if the system does not say.
func ownerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}

// Folder is a state folder: its path, its lock, and what is known of its files.
type Folder struct {
	dir     string
	options Options
	lock    *os.File
	holds   bool // lock is the lock file, and this process holds the folder
	idle    bool // no process held the folder when it was opened to read
	holder  *HeldError
	file    os.FileInfo // of the SQLite file; nil if it was opened to read

	unclean    bool   // the last process ended without closing the file
	bootBefore string // the boot during which the file was last known to be sound
	sent       Sent   // the last paid call, as recorded beside the file
}

// Dir returns the path of the state folder.
func (f *Folder) Dir() string { return f.dir }

// Path returns the path of the SQLite file in the state folder.
func (f *Folder) Path() string { return filepath.Join(f.dir, "state.db") }

// Idle reports whether no process held the folder when it was opened to read.
func (f *Folder) Idle() bool { return f.idle }

// Holder returns the process that held the folder when it was opened to read; nil if there was
// none or if this process holds it.
func (f *Folder) Holder() *HeldError { return f.holder }

// Log returns the logger of the store and of the packages that keep tables in it.
func (f *Folder) Log() *slog.Logger { return f.options.Log }

// openAndUpgrade opens the database and upgrades it.
func (s *Store) openAndUpgrade(ctx context.Context) (err error) {
	if s.unclean, err = s.wasUnclean(); err != nil {
		return err
	}
	if err := errors.Join(s.readSent(), s.checkSize(s.unclean)); err != nil {
		return err
	}
	if s.conn, err = s.connectWriter(); err != nil {
		return s.explainError(err)
	}
	if err := migrateFile(ctx, s.conn.db, s.Path(), s.options); err != nil {
		return s.explainError(err)
	}
	return s.Execute(`PRAGMA busy_timeout = 0`) // from now on transactions wait themselves; see patience
}

// wasUnclean reports whether the last process ended without closing the file: a clean end leaves
// no log. It also creates the file, so that it is private from the start; SQLite gives the log the
// same permissions.
func (f *Folder) wasUnclean() (bool, error) {
	file, err := os.OpenFile(f.Path(), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return false, fmt.Errorf("open the state as user %d: %w", os.Getuid(), err)
	}
	f.file, err = file.Stat()
	if err := errors.Join(err, file.Close()); err != nil {
		return false, err
	}
	return f.hasLog()
}

// hasLog reports whether SQLite's log has anything.
func (f *Folder) hasLog() (bool, error) {
	info, err := os.Stat(f.Path() + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Size() > 0, err
}

// connectWriter opens the connection that writes.
func (s *Store) connectWriter() (*conn, error) {
	return s.openConnection(url.Values{"_pragma": {
		"busy_timeout(10000)",
		"auto_vacuum(incremental)", // of a new file; see [Store.GiveBack]
		"journal_mode(wal)",
		"synchronous(full)",
		"foreign_keys(on)",
		"trusted_schema(off)",
		"cell_size_check(on)",
		"temp_store(memory)",
		"cache_size(-8000)",
		"journal_size_limit(67108864)",
	}})
}

// openConnection opens a connection with the given settings of the driver.
func (s *Store) openConnection(driver url.Values) (*conn, error) {
	abs, err := filepath.Abs(s.Path())
	if err != nil {
		return nil, err
	}
	source := url.URL{Scheme: "file", Path: abs, RawQuery: driver.Encode()}
	db, err := sql.Open("sqlite", source.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", abs, err)
	}
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	if err := db.Ping(); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", abs, err), db.Close())
	}
	return &conn{db: db, stmts: map[string]*sql.Stmt{}}, nil
}

// Close releases everything that Open acquired. Closing again does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil || s.closed {
		return nil
	}
	s.closed = true
	s.broken.CompareAndSwap(nil, &ErrClosed)
	if s.from != nil {
		if err := s.conn.execPlain(`COMMIT`); err != nil {
			return explainRead(s, errors.Join(err, s.conn.closeAll()))
		}
		return s.from.putReader(s.conn)
	}
	var errs []error
	s.reading.Lock()
	for _, c := range s.readers { // before the writer, which removes the log
		errs = append(errs, c.closeAll())
	}
	s.readers = nil
	s.reading.Unlock()
	if s.conn != nil {
		errs = append(errs, s.conn.closeAll())
	}
	if s.holds {
		errs = append(errs, unsignFile(s.lock))
	}
	return errors.Join(append(errs, unlockFile(s.lock))...)
}
