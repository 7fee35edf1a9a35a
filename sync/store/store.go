// Package store manages the SQLite file that several packages share: it opens and migrates it,
// locks its folder, monitors disk space, and runs transactions. Of the tables it owns only meta.
//
// A transaction, which may write to tables of several packages, is durable when [Store.Update] returns.
// Those who read have connections of their own ([Store.View]), and wait for nothing.
package store

import (
	"database/sql"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// Store is the file of an open state folder. Its methods may be called by several goroutines.
type Store struct {
	*Folder
	closed bool
	broken atomic.Pointer[error] // why the store cannot be used any more

	mu       sync.Mutex // guards what follows
	conn     *conn      // writes; of a snapshot, in its only transaction
	snapshot bool       // all views see the same; see [Peek] and [Store.Snapshot]
	from     *Store     // of which this is a snapshot; nil for all others
	busy     busyTimes

	reading sync.Mutex // guards what follows
	readers []*conn    // not in use

	Changes Changes // by transactions of this process
}

var (
	// ErrClosed is the error of operations on a closed store.
	ErrClosed = errors.New("the state folder has been closed")

	errView = errors.New("a view cannot write")
)

// Tx is a transaction. In [Store.View] it can only read. It is valid only inside the function that
// received it.
type Tx struct {
	conn   *conn
	now    time.Time
	view   bool
	wrote  bool
	failed error // of a statement that may have ended the transaction; no statement writes after it
}

// Now returns when the transaction began, by the local clock.
func (t *Tx) Now() time.Time { return t.now }

// patience is how long a transaction waits while another program locks the database, and lockPause is
// the pause between two tries.
const (
	patience  = 10 * time.Second
	lockPause = 20 * time.Millisecond
)

// Update performs f as one transaction, which is durable when Update returns nil. After an error nothing
// of f has taken effect. f must not call Update.
func (s *Store) Update(f func(*Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.updateWithin(s.busy.patienceLeft(), f)
}

// UpdateWithin is [Store.Update], but waits only up to the given patience while another program locks the
// database. Then it fails with a [*LockedError].
func (s *Store) UpdateWithin(patience time.Duration, f func(*Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.updateWithin(patience, f)
}

func (s *Store) updateWithin(patience time.Duration, f func(*Tx) error) error {
	if s.snapshot {
		return errView
	}
	s.options.Begin()
	if err := s.beginWrite(patience); err != nil {
		return s.explainError(err)
	}
	tx := &Tx{conn: s.conn, now: time.Now()}
	err := f(tx)
	if tx.failed != nil {
		err = tx.failed
	}
	if err == nil {
		err = s.conn.execPlain(`COMMIT`)
	}
	if err != nil {
		// After some errors, such as a full disk, SQLite has already rolled back, and reports that no
		// transaction is active.
		_ = s.conn.execPlain(`ROLLBACK`)
	} else if tx.wrote {
		s.Changes.note()
	}
	return s.explainError(err)
}

// Changes tells goroutines that a transaction has written something.
type Changes struct {
	mu   sync.Mutex
	next chan struct{} // nil if nothing waits for it
}

// Next returns a channel that is closed at the next change. A reader that takes it before it reads misses no change.
func (c *Changes) Next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

func (c *Changes) note() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// beginWrite begins a transaction that writes.
func (s *Store) beginWrite(patience time.Duration) error {
	for until := time.Now().Add(patience); ; time.Sleep(lockPause) {
		if err := s.Failure(); err != nil {
			return err
		}
		err := s.conn.execPlain(`BEGIN IMMEDIATE`)
		if resultCode(err) != sqlite3.SQLITE_BUSY {
			if err == nil {
				s.busy = busyTimes{}
			}
			return err
		}
		if s.busy.note(); !time.Now().Before(until) {
			return err
		}
	}
}

// busyTimes say when another program's lock was met, first and last.
type busyTimes struct{ first, last time.Time }

// patienceLeft returns what earlier transactions have left of the patience with the current lock: they do
// not each wait for all of it, or stopping would take minutes.
func (b *busyTimes) patienceLeft() time.Duration {
	if time.Since(b.last) > time.Second {
		return patience
	}
	return patience - time.Since(b.first)
}

// note records that the database was found locked.
func (b *busyTimes) note() {
	now := time.Now()
	if now.Sub(b.last) > time.Second {
		b.first = now
	}
	b.last = now
}

// Failure returns why the store cannot be used any more, until the state is opened anew; nil if it can.
func (s *Store) Failure() error {
	if err := s.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// View performs f, which can only read, on a connection of its own: it sees what was durable when it first
// read, and waits for no other transaction.
func (s *Store) View(f func(*Tx) error) error {
	if s.snapshot {
		return s.query(f)
	}
	in, err := s.Snapshot()
	if err != nil {
		return err
	}
	return errors.Join(in.query(f), in.Close())
}

// query performs f, which reads by one statement. That needs no transaction.
func (s *Store) query(f func(*Tx) error) error {
	if s.snapshot {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.Failure(); err != nil {
			return err
		}
		return explainRead(s, f(&Tx{conn: s.conn, now: time.Now(), view: true}))
	}
	c, err := s.takeReader()
	if err == nil {
		err = errors.Join(f(&Tx{conn: c, now: time.Now(), view: true}), s.putReader(c))
	}
	return explainRead(s, err)
}

// Snapshot returns the store to read: all views of it see the same, and wait for no other transaction. It must
// be closed soon, as the log of the file grows meanwhile.
func (s *Store) Snapshot() (*Store, error) {
	c, err := s.takeReader()
	if err != nil {
		return nil, explainRead(s, err)
	}
	if err := c.execPlain(`BEGIN`); err != nil {
		return nil, explainRead(s, errors.Join(err, c.closeAll()))
	}
	return &Store{Folder: s.Folder, snapshot: true, conn: c, from: s}, nil
}

// maxReaders is how many connections to read are kept open while no view uses them.
const maxReaders = 4

// takeReader returns a connection that reads.
func (s *Store) takeReader() (c *conn, err error) {
	if err := s.Failure(); err != nil {
		return nil, err
	}
	s.reading.Lock()
	if last := len(s.readers) - 1; last >= 0 {
		c, s.readers = s.readers[last], s.readers[:last]
	}
	s.reading.Unlock()
	if c != nil {
		return c, nil
	}
	if err := s.findPlace(); err != nil { // the connection would be to another file
		return nil, err
	}
	return s.attachConnection()
}

// putReader takes back a connection of [Store.takeReader].
func (s *Store) putReader(c *conn) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	if len(s.readers) >= maxReaders || s.Failure() != nil {
		return c.closeAll()
	}
	s.readers = append(s.readers, c)
	return nil
}

// Execute performs a statement that must not be part of a transaction, such as a PRAGMA.
func (s *Store) Execute(statement string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Failure(); err != nil {
		return err
	}
	_, err := s.conn.db.Exec(statement)
	return s.explainError(err)
}

// conn is a connection to the file, with its prepared statements.
type conn struct {
	db    *sql.DB // limited to one connection
	stmts map[string]*sql.Stmt
}

// prepareOnce returns the prepared statement for a query, which it prepares once.
func (c *conn) prepareOnce(query string) (*sql.Stmt, error) {
	if stmt := c.stmts[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := c.db.Prepare(query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = stmt
	return stmt, nil
}

// execPlain performs a statement without arguments or results, such as one that begins a transaction.
func (c *conn) execPlain(query string) error {
	stmt, err := c.prepareOnce(query)
	if err == nil {
		_, err = stmt.Exec()
	}
	return err
}

func (c *conn) closeAll() error {
	var errs []error
	for _, stmt := range c.stmts {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, c.db.Close())...)
}

// Statements returns the texts of the statements performed so far, for tests that examine how the
// database performs them.
func (s *Store) Statements() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading.Lock()
	defer s.reading.Unlock()
	all := map[string]bool{}
	for _, c := range append(s.readers, s.conn) {
		for text := range c.stmts {
			all[text] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
