package state

import (
	"database/sql"
	"errors"
	"os"
	"sync"
	"time"
)

// A group of free answers is committed when it has this many, or when its first
// is this old.
const (
	groupSize = 64
	groupAge  = time.Second
)

// Store is an open state folder. Its methods may be called by several goroutines.
type Store struct {
	dir     string
	options Options
	lock    *os.File
	space   space
	pack    *packer

	mu     sync.Mutex // guards what follows
	db     *sql.DB
	stmts  map[string]*sql.Stmt
	broken error // why the store cannot be used any more
	clock  clock

	// The open group. Its statements are remembered until they are durable, since
	// SQLite drops the whole transaction when the disk is full.
	open  bool    // a transaction is under way and holds all of redo
	redo  []write // what the group has written so far, in order
	units int     // units of work in it
	timer *time.Timer
}

// write is a statement of the open group.
type write struct {
	stmt *sql.Stmt
	args []any
}

var errClosed = errors.New("the state folder has been closed")

// Tx is a unit of work: all of it happens, or nothing. It is valid only inside the
// function that received it.
type Tx struct {
	s   *Store
	now time.Time

	attempt int64 // the attempt being settled, 0 outside of one
}

// Update performs f as one unit of work, durable when Update returns nil.
func (s *Store) Update(f func(*Tx) error) error { return s.unit(true, f) }

// Flush makes everything durable that was accepted so far.
func (s *Store) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.redo) == 0 && !s.open {
		return nil
	}
	return s.explain(s.commit())
}

// lapse commits a group that has become old. If that fails nothing is lost: the
// group stays in memory, and the next unit of work or Flush tries again and tells.
func (s *Store) lapse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	if len(s.redo) > 0 {
		_ = s.explain(s.commit())
	}
}

// unit performs f at the end of the open group; with now set, the group is durable
// when unit returns nil. After an error nothing of f has happened, and what was in
// the group before is still in it.
func (s *Store) unit(now bool, f func(*Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, units := len(s.redo), s.units
	if err := s.perform(now, f); err != nil {
		s.abandon()
		clear(s.redo[before:])
		s.redo, s.units = s.redo[:before], units
		return s.explain(err)
	}
	return nil
}

func (s *Store) perform(now bool, f func(*Tx) error) error {
	if err := s.begin(); err != nil {
		return err
	}
	if err := f(&Tx{s: s, now: time.Now()}); err != nil {
		return err
	}
	s.units++
	if now || s.units >= groupSize {
		return s.commit()
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(groupAge, s.lapse)
	}
	return nil
}

// begin makes sure that a transaction is under way and holds the whole group.
func (s *Store) begin() error {
	if s.broken != nil {
		return s.broken
	}
	if s.open {
		return nil
	}
	if err := s.control(`BEGIN IMMEDIATE`); err != nil {
		return err
	}
	s.open = true
	for _, w := range s.redo {
		if _, err := w.stmt.Exec(w.args...); err != nil {
			s.abandon()
			return err
		}
	}
	return nil
}

// commit makes the group durable. A full disk is answered by throwing the ballast
// off and performing the group again.
func (s *Store) commit() error {
	err := s.seal()
	if full(err) && s.makeRoom() {
		err = s.seal()
	}
	if err != nil {
		s.abandon()
		return err
	}
	clear(s.redo)
	s.redo, s.units, s.open = s.redo[:0], 0, false
	s.stopTimer()
	return nil
}

func (s *Store) seal() error {
	if err := s.begin(); err != nil {
		return err
	}
	return s.control(`COMMIT`)
}

// abandon gives the transaction up; the group stays in memory and is performed
// again by the next begin.
func (s *Store) abandon() {
	if !s.open {
		return
	}
	s.open = false
	// SQLite has rolled back by itself after some errors, a full disk among them, and
	// then says that there is nothing to roll back.
	_ = s.control(`ROLLBACK`)
}

// makeRoom throws the ballast off, and the transaction with it, which SQLite may
// have given up already.
func (s *Store) makeRoom() bool {
	thrown, err := s.space.throwOff()
	if err != nil || !thrown {
		return false // the error that called for room says all there is to say
	}
	s.abandon()
	return true
}

// exec performs a statement of a unit of work.
func (t *Tx) exec(query string, args ...any) (sql.Result, error) {
	s := t.s
	stmt, err := s.stmt(query)
	if err != nil {
		return nil, err
	}
	result, err := stmt.Exec(args...)
	if full(err) && s.makeRoom() {
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

func (t *Tx) row(query string, args ...any) scanner { return t.s.row(query, args...) }

// scanner is a row, or the error in its place.
type scanner interface{ Scan(dest ...any) error }

type failedRow struct{ err error }

func (f failedRow) Scan(...any) error { return f.err }

func (s *Store) row(query string, args ...any) scanner {
	stmt, err := s.stmt(query)
	if err != nil {
		return failedRow{err}
	}
	return stmt.QueryRow(args...)
}

// view reads, the open group included.
func (s *Store) view(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	if len(s.redo) > 0 {
		if err := s.begin(); err != nil {
			return s.explain(err)
		}
	}
	return s.explain(f())
}

// list reads rows of one kind; into says where the columns go.
func list[T any](s *Store, into func(*T) []any, query string, args ...any) ([]T, error) {
	stmt, err := s.stmt(query)
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

// stmt prepares a statement once.
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

// micros is how a time is stored; the zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// instant is the inverse of micros, in UTC.
func instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
