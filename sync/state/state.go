// Package state opens the state folder, the durable storage of the program: it combines the
// journal, the ledger, the queue and the runs in the SQLite file of package store. It contains the
// migrations of all their tables, and operations on several of them: checking, renaming a job, and
// changes by operators to a folder that a process has locked.
//
// # One commit point
//
// An answer, its outcome, the cursor behind it and the calls it leads to are one transaction, durable
// when [store.Store.Update] returns: the packages use the same [store.Tx].
package state

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"outlierd/sync/forgotten"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/marks"
	"outlierd/sync/ops"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// Options configure a state folder.
type Options struct {
	Service  string         // address of the service; the folder is bound to the first one. "" neither binds nor checks
	Location *time.Location // where days and billing cycles turn; nil means UTC
	Renews   int            // day of the month on which a billing cycle begins; 0 means 1
	Version  string         // of the program, recorded in the file

	store.Options // without migrations

	// Began and Ended are called in the unit of work that records the beginning or the state of a
	// run; superseded says that it will not be continued. nil calls nothing.
	Began func(tx *store.Tx, r runs.Run) error
	Ended func(tx *store.Tx, r runs.Run, superseded bool) error

	// Apply is called in the unit of work that settles an answer of an earlier process; see [ledger.SettleSpooled]. nil
	// calls nothing.
	Apply func(s *Store, tx *store.Tx, kept ledger.Kept) error
}

func (o Options) store() store.Options {
	o.Migrations = migrations()
	return o.Options
}

// Store is an open state folder: its file, and the packages that keep tables in it. Its methods
// may be called by several goroutines.
type Store struct {
	DB      *store.Store
	Journal *journal.Journal
	Learned *journal.Learned
	ledger.Books
	Queue *queue.Queue
	runs.Records

	Forgotten *forgotten.Set // ids that are neither asked about nor kept; nil in a store that only reads

	service, version string

	ended func(tx *store.Tx, r runs.Run, superseded bool) error

	corrected bool          // the recorded dates, see [Store.CorrectDates]
	ahead     time.Duration // of the local clock, as the service's clock was then
}

// storesOver returns the packages' stores in a file.
func storesOver(db *store.Store, o Options) *Store {
	books := ledger.New(db, cmp.Or(o.Location, time.UTC), cmp.Or(o.Renews, 1))
	if o.Ended == nil {
		o.Ended = func(*store.Tx, runs.Run, bool) error { return nil }
	}
	s := &Store{service: o.Service, version: o.Version, ended: o.Ended}
	return s.over(db, books, o.Began)
}

// over returns the store with the packages' stores in a file, or in a snapshot of it.
func (s Store) over(db *store.Store, books ledger.Books, began func(*store.Tx, runs.Run) error) *Store {
	s.DB, s.Journal, s.Learned, s.Books = db, journal.New(db), journal.LearnedIn(db), books
	s.Queue, s.Records = queue.New(db, books.Clock), runs.New(db, books, began)
	return &s
}

// Snapshot returns the state as it is now, to read: everything that is read from it belongs together, and
// nothing waits for a call. It must be closed soon; see [store.Store.Snapshot].
func (s *Store) Snapshot() (*Store, error) {
	db, err := s.DB.Snapshot()
	if err != nil {
		return nil, err
	}
	return s.over(db, s.Books.Over(db), nil), nil
}

// Open locks the state folder dir for this process, creating it if necessary, upgrades the file to
// this program's schema, and settles what an earlier process left open: a reservation that was
// never marked as sent is provably unsent and refunded; an answer that was kept in a file is
// settled; any other attempt that was marked as sent stays held as unknown.
//
// After an unclean end the newest rows are checked. Everything is checked, see [Store.Check], if
// the machine itself went down meanwhile, or if SQLite has reported damage before.
//
// It fails with a [*store.HeldError], [*BoundError] or [*store.CorruptError].
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	db, err := store.Open(ctx, dir, o.store())
	if err != nil {
		return nil, err
	}
	s := storesOver(db, o)
	if err := s.startUp(ctx, o.Apply); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// startUp checks that the state can be trusted, and settles what the last process left open.
func (s *Store) startUp(ctx context.Context, apply func(*Store, *store.Tx, ledger.Kept) error) error {
	if err := s.checkAtStart(ctx); err != nil {
		return err
	}
	if err := s.DB.Update(s.bindService); err != nil {
		return err
	}
	if err := s.loadForgotten(); err != nil {
		return err
	}
	err := s.Ledger.SettleSpooled(func(tx *store.Tx, kept ledger.Kept) error {
		if apply == nil {
			return nil
		}
		return apply(s, tx, kept)
	})
	if err != nil {
		return err
	}
	return s.DB.Update(s.recoverOpen)
}

// recoverOpen settles what the last process left open.
func (s *Store) recoverOpen(tx *store.Tx) error {
	if err := s.Ledger.Recover(tx); err != nil {
		return err
	}
	return errors.Join(s.Queue.Expire(tx), runs.Recover(tx), queue.Correct(tx))
}

// bindService records the service that the folder belongs to, and the version of the program.
func (s *Store) bindService(tx *store.Tx) error {
	if err := s.checkBound(tx); err != nil {
		return err
	}
	if s.service != "" {
		if err := boundTo.Set(tx, s.service); err != nil {
			return err
		}
	}
	return Version.Set(tx, s.version)
}

// boundTo has the service that the folder belongs to.
var boundTo = store.Cell[string]{Key: "service"}

// Version has the version of the program that opened the state last.
var Version = store.Cell[string]{Key: store.VersionKey}

// BoundError is the error of a folder whose rows come from another service.
type BoundError struct {
	Dir        string
	Have, Want string // service addresses
}

func (e *BoundError) Error() string {
	return fmt.Sprintf("the state folder %s belongs to the service %s, not to %s; "+
		"use another data folder, so that the rows of two services never mix", e.Dir, e.Have, e.Want)
}

// checkBound refuses a folder for which another service has answered. A service that never answered
// does not bind the folder: its address was mistyped, or not tried yet.
func (s *Store) checkBound(tx *store.Tx) error {
	have, err := boundTo.Get(tx)
	if err != nil || have == "" || s.service == "" || have == s.service {
		return err
	}
	answered, err := ledger.EverAnswered(tx)
	if err == nil && answered {
		err = &BoundError{Dir: s.DB.Dir(), Have: have, Want: s.service}
	}
	return err
}

// Close releases the folder. Closing again does nothing.
func (s *Store) Close() error { return s.DB.Close() }

// Peek opens the state folder dir to read, even while another process holds it; see [store.Peek].
//
// If no process holds the folder, a run recorded as running is shown as interrupted, because its
// process was killed. No answers are kept here, so the service's time is the local clock.
func Peek(ctx context.Context, dir string, o Options) (*Store, error) {
	db, err := store.Peek(ctx, dir, o.store())
	if err != nil {
		return nil, err
	}
	s := storesOver(db, o)
	if err := db.View(s.checkBound); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// CorrectDates takes back what searches covered according to a clock that turned out to be ahead,
// once the time is agreed on: it resets watermarks to when they were written, and releases calls
// that wait for such a date.
func (s *Store) CorrectDates() error {
	now := s.Clock.Now()
	ahead := time.Until(now)
	if s.corrected && (ahead-s.ahead).Abs() <= ledger.Skew {
		return nil
	}
	err := s.DB.Update(func(tx *store.Tx) error {
		if err := queue.Correct(tx); err != nil {
			return err
		}
		return runs.CorrectWatermarks(tx, now)
	})
	if err != nil {
		return err
	}
	s.corrected, s.ahead = true, ahead
	return nil
}

// Rename moves a job to a new name: its watermarks, its tasks in the queue, its scans, what it has
// spent, since when it is known, when it was last due, and a run that can be resumed. Finished
// runs keep the old name. Renaming again does nothing, so `was` may stay in the file, and another
// job may use the old name later.
func (s *Store) Rename(old, new string) error {
	if old == new || old == "" || new == "" {
		return fmt.Errorf("rename job %q to %q: two different names are needed", old, new)
	}
	return s.DB.Update(func(tx *store.Tx) error {
		done, err := runs.Rename(tx, old, new)
		if done || err != nil {
			return err
		}
		return queue.Rename(tx, old, new)
	})
}

// Finish records the state of a run; see [runs.Finish].
func (s *Store) Finish(r runs.Run) error {
	return s.DB.Update(func(tx *store.Tx) error {
		if err := runs.Finish(tx, r); err != nil {
			return err
		}
		return s.ended(tx, r, false)
	})
}

// Supersede records that a run will not be continued; see [runs.Supersede].
func (s *Store) Supersede(r runs.Run) error {
	return s.DB.Update(func(tx *store.Tx) error {
		if err := runs.Supersede(tx, r); err != nil {
			return err
		}
		return s.ended(tx, r, true)
	})
}

// Jobs returns the names under which anything is recorded: runs, watermarks, queued calls.
func (s *Store) Jobs() ([]string, error) {
	names, err := s.Runs.Jobs()
	if err != nil {
		return nil, err
	}
	counts, err := s.Queue.Counts()
	for _, c := range counts {
		names = append(names, c.Job)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// OpsTables are the operations tables of all packages.
var OpsTables = slices.Concat(runs.Ops, ledger.Ops, journal.Ops, marks.Ops)

// Restored records that the state was just restored from a backup, so that what sinks have of the state
// that was lost is distinguished from what they have of this one; see [ops.Skip].
func (s *Store) Restored() error {
	end, err := s.Journal.End()
	if err == nil {
		err = s.DB.Update(func(tx *store.Tx) error { return ops.Skip(tx, end) })
	}
	return err
}

// Copy writes the state in a folder to a new file; see [store.Copy].
func Copy(ctx context.Context, dir, to string, o Options) error {
	return store.Copy(ctx, dir, to, o.store())
}

// instance has the name of this state.
var instance = store.Cell[string]{Key: "instance"}

// Instance returns the name of this state, which distinguishes its rows in a lake that several
// daemons fill; "" if it has none yet. Backups keep the name.
func (s *Store) Instance() (string, error) {
	return instance.Get(s.DB)
}

// NamedInstance is [Store.Instance], but gives a state without a name a new one.
func (s *Store) NamedInstance() (name string, err error) {
	if name, err = s.Instance(); err != nil || name != "" {
		return name, err
	}
	id := make([]byte, 8)
	rand.Read(id) // never fails
	name = hex.EncodeToString(id)
	return name, instance.Set(s.DB, name)
}

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations returns the steps that lead from one schema version to the next, in the order of their
// files. The version of a state is the number of steps applied to it, so once a release has a step, it
// never changes. All packages that own tables share one list, as a step may change tables of several.
func migrations() (steps []string) {
	files, err := migrationFiles.ReadDir("migrations")
	for _, file := range files {
		text, failed := migrationFiles.ReadFile("migrations/" + file.Name())
		if steps = append(steps, string(text)); failed != nil {
			err = failed
		}
	}
	if err != nil {
		panic(fmt.Sprintf("embedded migrations: %v", err))
	}
	return steps
}
