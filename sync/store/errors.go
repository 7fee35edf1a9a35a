package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// HeldError is the error of opening a state folder that another process has locked.
type HeldError struct {
	Dir     string
	PID     int // 0 if the holder has not said who it is
	Command string
	Since   time.Time
}

func (e *HeldError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d (%s) since %s", e.PID, e.Command, e.Since.Format(time.RFC3339))
	}
	todo := "wait until it ends, or use 'outlierd up', beside which commands work"
	if e.IsDaemon() {
		todo = "stop it first: this command needs the folder alone"
	}
	return fmt.Sprintf("the state folder %s is held by %s; %s", e.Dir, who, todo)
}

// IsDaemon reports whether 'outlierd up' holds the folder.
func (e *HeldError) IsDaemon() bool { return slices.Contains(strings.Fields(e.Command), "up") }

// CorruptError is the error of a damaged state. Nothing is bought with such a state, because there
// is no other record of what was spent.
type CorruptError struct {
	Path   string
	Detail string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is damaged: %s; restore a backup of the state folder, "+
		"because only the state records what was spent", e.Path, e.Detail)
}

// FullError is the error of a transaction for which the disk has no space.
type FullError struct {
	Dir   string
	Cause error
}

func (e *FullError) Error() string {
	return fmt.Sprintf("no space left on the disk of %s: %v; %s and run again, "+
		"stored data is not lost", e.Dir, e.Cause, Remedy(e.Dir))
}

func (e *FullError) Unwrap() error { return e.Cause }

// LowSpaceError refuses a request because there may be no space for its answer.
type LowSpaceError struct {
	Dir        string
	Free, Need uint64 // bytes; with Files, files
	Files      bool
}

func (e *LowSpaceError) Error() string {
	if e.Files {
		return fmt.Sprintf("the disk of %s has %d free inodes and %d are required before anything is bought; "+
			"remove some files and run again", e.Dir, e.Free, e.Need)
	}
	return fmt.Sprintf("the disk of %s has %d MiB left and %d MiB are required before anything is bought; "+
		"free some space and run again", e.Dir, e.Free>>20, e.Need>>20)
}

// MovedError refuses a request because its answer could not be kept: the state was moved, deleted or
// replaced while this process used it. What is written to it may be lost, and another process could
// begin a new one, and spend the same credits.
type MovedError struct{ Path string }

func (e *MovedError) Error() string {
	return fmt.Sprintf("%s was moved, deleted or replaced while it was in use, so nothing is requested: "+
		"put it back, or restart outlierd",
		e.Path)
}

// LockedError is the error if another program has locked the database for longer than the operation
// could wait.
type LockedError struct {
	Path  string
	Cause error
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is locked by another program: %v; close that program and run again", e.Path, e.Cause)
}

func (e *LockedError) Unwrap() error { return e.Cause }

// IsLocked reports whether err was caused by another program's lock on the database.
func IsLocked(err error) bool {
	_, ok := errors.AsType[*LockedError](err)
	return ok
}

// IsFull reports whether err was caused by a disk without space.
func IsFull(err error) bool {
	_, ok := errors.AsType[*FullError](err)
	return ok
}

// IsFailure reports whether err is a failure of the disk or of the database, and not of what was asked for.
func IsFailure(err error) bool {
	_, system := errors.AsType[syscall.Errno](err)
	_, database := errors.AsType[*sqlite.Error](err)
	_, corrupt := errors.AsType[*CorruptError](err)
	_, moved := errors.AsType[*MovedError](err)
	return system || database || corrupt || moved || errors.Is(err, ErrClosed)
}

// resultCode returns the primary SQLite result code in err, or 0.
func resultCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// IsConstraint reports whether err was caused by a constraint or a trigger.
func IsConstraint(err error) bool { return resultCode(err) == sqlite3.SQLITE_CONSTRAINT }

// isFull reports whether err was caused by a full disk. The shared-memory index of the log has its
// own error code for that.
func isFull(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (resultCode(err) == sqlite3.SQLITE_FULL || e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE)
}

// isWriteError reports whether err was caused by a write, such as one above a quota.
func isWriteError(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && slices.Contains([]int{sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC,
		sqlite3.SQLITE_IOERR_DIR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE, sqlite3.SQLITE_IOERR_CLOSE}, e.Code())
}

// explainRead is [Store.explainError] for what reads on a connection of its own. If the disk fails meanwhile, nothing
// is lost, and the next read may succeed.
func explainRead(s *Store, err error) error {
	if resultCode(err) == sqlite3.SQLITE_IOERR && !isFull(err) {
		return fmt.Errorf("read the state in %s: %w", s.dir, err)
	}
	return s.explainError(err)
}

// explainError converts SQLite's errors to the errors of this package. After errors that leave the
// content of the disk unknown it stops the store permanently: a failed fsync must not be retried.
func (s *Store) explainError(err error) error {
	if s.from != nil {
		s = s.from
	}
	failure := s.Failure()
	switch {
	case err == nil, failure != nil && errors.Is(err, failure):
		return err
	case isFull(err):
		return &FullError{Dir: s.dir, Cause: err}
	}
	switch resultCode(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		failure = &CorruptError{Path: s.Path(), Detail: err.Error()}
	case sqlite3.SQLITE_IOERR:
		failure = fmt.Errorf("the disk of %s does not work: %w; restart outlierd when it works again", s.dir, err)
	case sqlite3.SQLITE_BUSY:
		return &LockedError{Path: s.Path(), Cause: err}
	default:
		return err
	}
	s.broken.CompareAndSwap(nil, &failure)
	if _, corrupt := errors.AsType[*CorruptError](failure); corrupt && s.holds { // so that the next start checks everything
		return errors.Join(failure, signFile(s.lock, mustCheck))
	}
	return failure
}
