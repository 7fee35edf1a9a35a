package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"time"
)

// OlderError says that the state was written by an earlier version of the program,
// and that whoever wants to read it has to bring it up to date first; see [Open].
type OlderError struct {
	Path       string
	Have, Want int // schema versions: of the file, and the latest known here
}

func (e *OlderError) Error() string {
	return fmt.Sprintf("%s has schema version %d and this program wants %d; stop the program that holds it, "+
		"and start this one in its place, which brings it up to date", e.Path, e.Have, e.Want)
}

// Peek opens the state folder dir to read, also while another process holds it.
// Nothing is created, locked, brought up to date or settled, and whatever would
// write fails. All that is read is of one moment, that of the first look, until the
// store is closed; so it should not be kept open for long.
//
// A run that is recorded as running is shown as interrupted where no process holds the
// folder: that which worked on it was killed.
//
// No answer is ever kept here, so the service's time is this machine's. Peek fails with
// [os.ErrNotExist] where there is no state, or with an [*OlderError], [*NewerError],
// [*BoundError] or [*CorruptError].
func Peek(ctx context.Context, dir string, o Options) (*Store, error) {
	s := &Store{dir: dir, options: o.withDefaults(), stmts: map[string]*sql.Stmt{}}
	s.clock.set(time.Now(), false)
	if _, err := os.Stat(s.path()); err != nil {
		return nil, fmt.Errorf("open the state to read: %w", err)
	}
	if err := errors.Join(guardFolder(dir), guard(dir)); err != nil {
		return nil, err
	}
	folder, err := os.Open(dir) // in the place of a lock: it stands for what there is to give up
	if err != nil {
		return nil, fmt.Errorf("open the state folder to read: %w", err)
	}
	s.lock = folder
	if s.idle, err = unheld(dir); err != nil {
		return nil, errors.Join(err, s.release())
	}
	if err := s.look(ctx); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// look opens the database and fixes the moment that is shown.
func (s *Store) look(ctx context.Context) (err error) {
	if s.pack, err = newPacker(); err != nil {
		return err
	}
	if err := s.attach(ctx, "ro"); err != nil {
		return err
	}
	have, err := version(ctx, s.db, s.path())
	switch {
	case err != nil:
		return s.explain(err)
	case have > len(migrations):
		return newer(ctx, s.db, s.path(), have, len(migrations))
	case have == 0: // another process is about to make it
		return fmt.Errorf("open the state to read: %s is empty: %w", s.path(), fs.ErrNotExist)
	case have < len(migrations):
		return &OlderError{Path: s.path(), Have: have, Want: len(migrations)}
	}
	if err := s.control(`BEGIN`); err != nil {
		return s.explain(err)
	}
	s.open = true
	return s.view((&Tx{s: s}).bound)
}

// attach opens a connection beside those of other processes.
func (s *Store) attach(ctx context.Context, mode string) error {
	return s.dial(ctx, url.Values{"mode": {mode}, "_pragma": {
		"busy_timeout(10000)", "trusted_schema(off)", "temp_store(memory)", "foreign_keys(on)", "synchronous(full)",
	}})
}

// Lift lifts the latches of a key and that of the clock in the state folder dir, also
// while another process holds it, and returns those that had fallen. Beside [Clear] it is
// the one thing that may be written beside the holder: a row of no other table depends on it, and the
// holder looks for latches before every call.
func Lift(ctx context.Context, dir string, o Options, key string) (lifted []Latched, err error) {
	seen, err := Peek(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	for latch, of := range map[Latch]string{LatchCredits: key, LatchKey: key, LatchClock: ""} {
		fallen, failed := seen.Latch(latch, of)
		err = errors.Join(err, failed)
		if fallen != nil && (latch != LatchClock || fallen.Until.IsZero()) {
			lifted = append(lifted, *fallen)
		}
	}
	slices.SortFunc(lifted, func(a, b Latched) int { return a.Since.Compare(b.Since) })
	if err := errors.Join(err, seen.Close()); err != nil || len(lifted) == 0 {
		return nil, err
	}
	s := &Store{dir: dir, options: seen.options, stmts: map[string]*sql.Stmt{}}
	if err := s.attach(ctx, "rw"); err != nil {
		return nil, err
	}
	_, err = s.db.ExecContext(ctx, `DELETE FROM latches WHERE key = ? AND latch IN (?, ?)`, key, string(LatchCredits), string(LatchKey))
	if err == nil {
		_, err = s.db.ExecContext(ctx, `UPDATE latches SET until = ? WHERE latch = ? AND until = 0`, micros(time.Now()), string(LatchClock))
	}
	if err := errors.Join(s.explain(err), s.db.Close()); err != nil {
		return nil, fmt.Errorf("lift what refuses calls: %w", err)
	}
	return lifted, nil
}
