package store

import (
	"database/sql"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// A free answer is committed at once, unless the last commit was less than GroupAge ago. The
// answers after it share the next commit, which is made when there are GroupSize of them or the
// first is GroupAge old.
const (
	GroupSize = 64
	GroupAge  = time.Second / 20
)

// Store is the file of an open state folder. Its methods may be called by several goroutines.
type Store struct {
	dir     string
	options Options
	locking sync.Mutex // guards lock, holds and placed once the store is open
	lock    *os.File
	holds   bool      // lock is the lock file, and this process holds the folder
	placed  time.Time // when the state and its lock were found in their place; zero if they were not
	idle    bool      // no process held the folder when it was opened to read
	holder  *HeldError
	space   space
	file    os.FileInfo // of the SQLite file; nil if it was opened to read

	unclean    bool   // the last process ended without closing the file
	bootBefore string // the boot during which the file was last known to be sound
	sent       Sent   // the last paid call, as recorded beside the file

	mu     sync.Mutex // guards what follows
	db     *sql.DB
	stmts  map[string]*sql.Stmt
	broken error // why the store cannot be used any more

	// The open group. Its statements are kept until they are durable, since SQLite rolls back the
	// whole transaction when the disk is full.
	open  bool    // a transaction is open and contains all of redo
	redo  []write // what the group has written so far, in order
	units int     // units of work in it
	timer *time.Timer

	committed time.Time // when the last group was

	firstBusy, lastBusy time.Time // when another program's lock was met, first and last; see patienceLeft
}

// write is a statement of the open group.
type write struct {
	stmt *sql.Stmt
	args []any
}

var (
	// ErrClosed is the error of operations on a closed store.
	ErrClosed = errors.New("the state folder has been closed")

	errView = errors.New("a view cannot write")
)

// Tx is a unit of work: either all of its writes take effect or none. In [Store.View] it can only
// read. It is valid only inside the function that received it, which must not call the store.
type Tx struct {
	s    *Store
	now  time.Time
	view bool
}

// Now returns when the unit of work began, by the local clock.
func (t *Tx) Now() time.Time { return t.now }

// Update performs f as one unit of work, which is durable when Update returns nil. After an error
// nothing of f has taken effect, and the open group is as it was.
func (s *Store) Update(f func(*Tx) error) error { return s.within(s.patienceLeft(), true, f) }

// UpdateSoon is [Store.Update] in the open group: it is durable when the group is
// committed, within 50 ms, or when [Store.Flush] returns.
func (s *Store) UpdateSoon(f func(*Tx) error) error { return s.within(s.patienceLeft(), false, f) }

// UpdateWithin is [Store.Update], or [Store.UpdateSoon] if soon is set. It waits up to patience
// while another program locks the database, and then fails with a [*LockedError].
func (s *Store) UpdateWithin(patience time.Duration, soon bool, f func(*Tx) error) error {
	return s.within(patience, !soon, f)
}

// Flush makes everything durable that was accepted so far.
func (s *Store) Flush() error {
	s.mu.Lock()
	nothing := len(s.redo) == 0 && !s.open
	s.mu.Unlock()
	if nothing {
		return nil
	}
	return s.Update(func(*Tx) error { return nil })
}

// commitOverdue commits a group that has reached its age. If that fails nothing is lost: the group stays
// in memory, and the next unit of work or Flush tries again and returns the error.
func (s *Store) commitOverdue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	if len(s.redo) > 0 {
		_ = s.explain(s.commit())
	}
}

// patience is how long a unit of work waits while another program locks the database, and
// lockPause is the pause between two tries. Only an answer that is to be kept is waited for
// longer; see [Store.UpdateWithin].
const (
	patience  = 10 * time.Second
	lockPause = 20 * time.Millisecond
)

// within performs f at the end of the open group. If now is set, the group is durable when it
// returns nil.
func (s *Store) within(patience time.Duration, now bool, f func(*Tx) error) error {
	until := time.Now().Add(patience)
	for {
		begun, err := s.try(now, f)
		if begun || !IsLocked(err) || !time.Now().Before(until) {
			return err
		}
		time.Sleep(lockPause)
	}
}

// patienceLeft returns what earlier units of work have left of the patience with the current lock:
// they do not each wait for all of it, or stopping would take minutes.
func (s *Store) patienceLeft() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.lastBusy) > time.Second {
		return patience
	}
	return patience - time.Since(s.firstBusy)
}

// noteBusy records that the database was found locked.
func (s *Store) noteBusy() {
	now := time.Now()
	if now.Sub(s.lastBusy) > time.Second {
		s.firstBusy = now
	}
	s.lastBusy = now
}

// try reports whether f was begun; if not, it may be tried again.
func (s *Store) try(now bool, f func(*Tx) error) (begun bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		return false, s.explain(err)
	}
	before, units := len(s.redo), s.units
	if err := s.perform(now, f); err != nil {
		s.rollback()
		clear(s.redo[before:])
		s.redo, s.units = s.redo[:before], units
		return true, s.explain(err)
	}
	return true, nil
}

func (s *Store) perform(now bool, f func(*Tx) error) error {
	if err := f(&Tx{s: s, now: time.Now()}); err != nil {
		return err
	}
	s.units++
	if now || s.units >= GroupSize || time.Since(s.committed) >= GroupAge {
		return s.commit()
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(GroupAge, s.commitOverdue)
	}
	return nil
}

// begin makes sure that a transaction is open and contains the whole group.
func (s *Store) begin() error {
	if s.broken != nil {
		return s.broken
	}
	if s.open {
		return nil
	}
	if err := s.control(`BEGIN IMMEDIATE`); err != nil {
		if resultCode(err) == sqlite3.SQLITE_BUSY {
			s.noteBusy()
		}
		return err
	}
	s.open, s.lastBusy = true, time.Time{}
	for _, w := range s.redo {
		if _, err := w.stmt.Exec(w.args...); err != nil {
			s.rollback()
			return err
		}
	}
	return nil
}

// commit makes the group durable. If the disk is full, it removes the ballast and performs the
// group again.
func (s *Store) commit() error {
	err := s.seal()
	if isFull(err) && s.makeRoom() {
		err = s.seal()
	}
	if err != nil {
		s.rollback()
		return err
	}
	clear(s.redo)
	s.redo, s.units, s.open = s.redo[:0], 0, false
	s.committed = time.Now()
	s.stopTimer()
	return nil
}

func (s *Store) seal() error {
	if err := s.begin(); err != nil {
		return err
	}
	return s.control(`COMMIT`)
}

// rollback rolls back the transaction; the group stays in memory, and the next begin performs it
// again.
func (s *Store) rollback() {
	if !s.open {
		return
	}
	s.open = false
	// After some errors, such as a full disk, SQLite has already rolled back, and reports that no
	// transaction is active.
	_ = s.control(`ROLLBACK`)
}

// makeRoom removes the ballast, and rolls back the transaction unless SQLite has done so.
func (s *Store) makeRoom() bool {
	thrown, err := s.space.removeBallast()
	if err != nil || !thrown {
		return false // the error that required space is the one to report
	}
	s.rollback()
	return true
}

// Exec performs a statement of a unit of work.
func (t *Tx) Exec(query string, args ...any) (sql.Result, error) {
	s := t.s
	if t.view {
		return nil, errView
	}
	stmt, err := s.stmt(query)
	if err != nil {
		return nil, err
	}
	result, err := stmt.Exec(args...)
	if isFull(err) && s.makeRoom() {
		if err = s.begin(); err == nil {
			result, err = stmt.Exec(args...)
		}
	}
	if err != nil {
		return nil, err
	}
	s.redo = append(s.redo, write{stmt, args})
	return result, nil
}

// control performs a statement that begins or ends a transaction.
func (s *Store) control(query string) error {
	stmt, err := s.stmt(query)
	if err != nil {
		return err
	}
	_, err = stmt.Exec()
	return err
}

// Row reads one row. Its Scan fails with [sql.ErrNoRows] if there is none.
func (t *Tx) Row(query string, args ...any) Row { return t.s.row(query, args...) }

// Row is a row, or the error in its place.
type Row interface{ Scan(dest ...any) error }

type failedRow struct{ err error }

func (f failedRow) Scan(...any) error { return f.err }

func (s *Store) row(query string, args ...any) Row {
	stmt, err := s.stmt(query)
	if err != nil {
		return failedRow{err}
	}
	return stmt.QueryRow(args...)
}

// View performs f, which can only read. It sees what is durable and the open group.
func (s *Store) View(f func(*Tx) error) error {
	until := time.Now().Add(s.patienceLeft())
	for {
		begun, err := s.tryView(f)
		if begun || !IsLocked(err) || !time.Now().Before(until) {
			return err
		}
		time.Sleep(lockPause)
	}
}

// tryView reports whether f was begun; if not, it may be tried again.
func (s *Store) tryView(f func(*Tx) error) (begun bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return false, s.broken
	}
	if len(s.redo) > 0 {
		if err := s.begin(); err != nil {
			return false, s.explain(err)
		}
	}
	return true, s.explain(f(&Tx{s: s, now: time.Now(), view: true}))
}

// List reads all rows of a query; into returns the destinations of the columns, as for Scan.
func List[T any](t *Tx, into func(*T) []any, query string, args ...any) ([]T, error) {
	stmt, err := t.s.stmt(query)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.Query(args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, into)
}

func collect[T any](rows *sql.Rows, into func(*T) []any) ([]T, error) {
	var all []T
	for rows.Next() {
		var one T
		if err := rows.Scan(into(&one)...); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		all = append(all, one)
	}
	return all, errors.Join(rows.Err(), rows.Close())
}

// stmt returns the prepared statement for a query, which it prepares once.
func (s *Store) stmt(query string) (*sql.Stmt, error) {
	if stmt := s.stmts[query]; stmt != nil {
		return stmt, nil
	}
	if s.broken != nil {
		return nil, s.broken
	}
	stmt, err := s.db.Prepare(query)
	if err != nil {
		return nil, err
	}
	s.stmts[query] = stmt
	return stmt, nil
}

func (s *Store) stopTimer() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// Micros returns a time as it is stored: microseconds since 1970, and 0 for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Instant is the inverse of [Micros], in UTC.
func Instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// Statements returns the texts of the statements performed so far, for tests that examine how the
// database performs them.
func (s *Store) Statements() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.stmts))
}
