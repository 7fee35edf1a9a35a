package state

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
	"time"

	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Options are what a store must know of the world.
type Options struct {
	Service  string         // address of the service; the folder is bound to the first one. "" neither binds nor checks
	Location *time.Location // where days and billing cycles turn; nil means UTC
	Renews   int            // day of the month on which a billing cycle begins; 0 means 1
	Version  string         // of the program, for those who meet the file later

	MinFree   uint64                           // bytes that must be free before anything is bought; 0 means 256 MiB
	FreeSpace func(dir string) (uint64, error) // nil asks the file system

	// BootID identifies the machine's present boot, "" if it cannot be told; nil asks the
	// system. After an unclean end in an earlier boot the whole state is checked.
	BootID func() string

	// Judge reports whether an answer has a row of what was asked about. It is asked about
	// those that an earlier version took for good. nil believes them.
	Judge func(*Entry) bool

	Log *slog.Logger // nil discards
}

func (o Options) withDefaults() Options {
	o.Location = cmp.Or(o.Location, time.UTC)
	o.Renews = cmp.Or(o.Renews, 1)
	o.MinFree = cmp.Or(o.MinFree, defaultMinFree)
	if o.FreeSpace == nil {
		o.FreeSpace = freeSpace
	}
	if o.BootID == nil {
		o.BootID = bootID
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Open takes the state folder dir for this process, creating it if need be, brings
// the file to this program's schema, and settles what an earlier process left
// behind: a reservation that was never marked as sent is provably unsent and
// refunded; an answer that it kept in a file is settled; any other attempt that was
// marked stays held as unknown.
//
// After an unclean end the newest rows are checked. Everything is checked, see
// [Store.Check], if the machine itself went down meanwhile, or if SQLite has reported
// damage before.
//
// It fails with a [*HeldError], [*NewerError], [*BoundError] or [*CorruptError].
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	if err := makeFolder(dir); err != nil {
		return nil, err
	}
	if err := guard(dir); err != nil {
		return nil, err
	}
	held, before, err := lock(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{
		dir: dir, options: o, lock: held, holds: true,
		space: space{dir: dir, min: o.MinFree, free: o.FreeSpace},
		stmts: map[string]*sql.Stmt{},
	}
	s.clock.set(time.Now(), false)
	if err := s.start(ctx, before); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// makeFolder creates the folder, for its owner alone.
func makeFolder(dir string) error {
	if err := guardFolder(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the state folder as user %d: %w", os.Getuid(), err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("close the state folder to others: %w", err)
	}
	return nil
}

func (s *Store) path() string { return filepath.Join(s.dir, "state.db") }

// start opens the database and makes sure that it can be trusted; before is the boot
// during which that was last known.
func (s *Store) start(ctx context.Context, before string) error {
	unclean, err := s.leftBehind()
	if err != nil {
		return err
	}
	if s.pack, err = newPacker(); err != nil {
		return err
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	if err := migrate(ctx, s.db, s.path(), migrations); err != nil {
		return s.explain(err)
	}
	// A migration may be larger than memory. After it, a full disk is to show at a commit,
	// where nothing is half done.
	if _, err := s.db.ExecContext(ctx, `PRAGMA cache_spill = off`); err != nil {
		return s.explain(err)
	}
	if err := s.checkAtStart(ctx, unclean, before); err != nil {
		return err
	}
	if err := s.bind(); err != nil {
		return err
	}
	if err := s.settleHeld(); err != nil {
		return err
	}
	if err := s.recover(); err != nil {
		return err
	}
	if err := s.turnCalendar(); err != nil {
		return err
	}
	// From here on units of work wait by themselves, and let others read meanwhile.
	if _, err := s.db.ExecContext(ctx, `PRAGMA busy_timeout = 0`); err != nil {
		return err
	}
	return s.space.load()
}

// leftBehind reports whether the last process ended without closing the file: a
// clean end leaves no log. It also makes the file, so that it is private from the
// beginning; SQLite gives the log the same permissions.
func (s *Store) leftBehind() (bool, error) {
	file, err := os.OpenFile(s.path(), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return false, fmt.Errorf("open the state as user %d: %w", os.Getuid(), err)
	}
	if err := file.Close(); err != nil {
		return false, err
	}
	info, err := os.Stat(s.path() + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Size() > 0, err
}

// connect opens the one connection. Everything goes through it, so a reader sees
// the open group, and the file has one writer.
func (s *Store) connect(ctx context.Context) error {
	return s.dial(ctx, url.Values{"_pragma": {
		"busy_timeout(10000)", // until start is over; see patience
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

// dial opens one connection with what the driver is to be told.
func (s *Store) dial(ctx context.Context, driver url.Values) error {
	abs, err := filepath.Abs(s.path())
	if err != nil {
		return err
	}
	source := url.URL{Scheme: "file", Path: abs, RawQuery: driver.Encode()}
	if s.db, err = sql.Open("sqlite", source.String()); err != nil {
		return fmt.Errorf("open %s: %w", abs, err)
	}
	s.db.SetMaxOpenConns(1)
	s.db.SetMaxIdleConns(1)
	if err := s.db.PingContext(ctx); err != nil {
		return s.explain(fmt.Errorf("open %s: %w", abs, err))
	}
	return nil
}

// bind ties the folder to its service, and notes who writes.
func (s *Store) bind() error {
	return s.Update(func(tx *Tx) error {
		if err := tx.bound(); err != nil {
			return err
		}
		if want := s.options.Service; want != "" {
			if err := tx.setMeta("service", want); err != nil {
				return err
			}
		}
		return tx.setMeta("version", s.options.Version)
	})
}

// bound refuses a folder that another service has answered for. One that never did leaves
// the folder free: its address was mistyped, or not tried yet.
func (t *Tx) bound() error {
	have, err := t.meta("service")
	want := t.s.options.Service
	if err != nil || have == "" || want == "" || have == want {
		return err
	}
	heard, err := t.heard()
	if err == nil && heard {
		err = &BoundError{Dir: t.s.dir, Have: have, Want: want}
	}
	return err
}

// Heard reports whether the service has ever answered in its own form, be it with an error.
func (s *Store) Heard() (heard bool, err error) {
	err = s.view(func() error {
		heard, err = (&Tx{s: s}).heard()
		return err
	})
	if err != nil {
		return false, fmt.Errorf("has the service ever answered: %w", err)
	}
	return heard, nil
}

// heard leaves out a 429, which anything may answer that stands before a service.
func (t *Tx) heard() (heard bool, err error) {
	err = t.row(`SELECT EXISTS (SELECT 1 FROM attempts WHERE state IN ('charged', 'refunded') AND http_status NOT IN (0, 429))`).Scan(&heard)
	return heard, err
}

func (t *Tx) meta(key string) (string, error) {
	var value string
	err := t.row(`SELECT value FROM meta WHERE key = ?`, key).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, err
}

func (t *Tx) setMeta(key, value string) error {
	_, err := t.exec(`INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value`, key, value)
	return err
}

// recover settles what the last process left open.
func (s *Store) recover() error {
	return s.Update(func(tx *Tx) error {
		now := micros(time.Now())
		// The first condition is that of the index.
		if _, err := tx.exec(`UPDATE attempts SET state = 'refunded', settled_at = ?,
			error = 'never sent: the process ended before' WHERE state IN ('reserved', 'sending') AND state = 'reserved'`, now); err != nil {
			return err
		}
		if _, err := tx.exec(`UPDATE attempts SET state = 'unknown', settled_at = ?,
			error = 'the process ended before an answer was kept' WHERE state IN ('reserved', 'sending') AND state = 'sending'`, now); err != nil {
			return err
		}
		// The ledger's triggers have told the scans what became of their attempts; those
		// that still wait to be started were not, and whoever wants them asks anew.
		if _, err := tx.exec(`UPDATE scans SET state = 'refused' WHERE state = 'intended'`); err != nil {
			return err
		}
		return errors.Join(tx.recoverInFlight(), tx.interruptRuns(), tx.correctQueue(), tx.expire())
	})
}

// Close commits the open group and lets go of the folder. Closing again does nothing.
func (s *Store) Close() error {
	return errors.Join(s.Flush(), s.release())
}

// release lets go of everything that start and Open took.
func (s *Store) release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	var errs []error
	s.stopTimer()
	for _, stmt := range s.stmts {
		errs = append(errs, stmt.Close())
	}
	clear(s.stmts)
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.broken == nil {
		s.broken = errClosed
	}
	if s.sending != nil {
		errs = append(errs, s.sending.Close())
		s.sending = nil
	}
	errs = append(errs, s.lock.Close())
	s.lock, s.holds = nil, false
	return errors.Join(errs...)
}
