package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"outlierd/sync/store"
)

// TestFileSystemWithoutLocksIsRefused before anything is put there, since two processes could
// work with the state that it holds.
func TestFileSystemWithoutLocksIsRefused(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{unix.ENOLCK, unix.ENOTSUP, unix.EOPNOTSUPP, unix.ENOSYS} {
		dir := filepath.Join(t.TempDir(), "state")
		s, err := store.Open(t.Context(), dir, store.Options{TakeLock: func(*os.File) error { return fmt.Errorf("lock: %w", cause) }})
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "put the data folder on a local disk") {
			t.Errorf("%v: %v", cause, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "state.db")); err == nil {
			t.Errorf("%v: a state was made", cause)
		}
	}
}

// TestDeletedLockEndsPurchases: a second process can use the state then, and the first must not go on, not even when
// the second has ended.
func TestDeletedLockEndsPurchases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *store.Store {
		s, err := store.Open(t.Context(), dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	first := open()
	if err := first.Room(); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(dir, "lock")
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	wantMoved := func(when string) {
		t.Helper()
		if moved, is := errors.AsType[*store.MovedError](first.Room()); !is || moved.Path != lock {
			t.Errorf("%s: %v, want that %s was moved", when, first.Room(), lock)
		}
	}
	wantMoved("after the deletion")
	second := open()
	wantMoved("beside a second process")
	if err := errors.Join(second.Room(), second.Close()); err != nil {
		t.Errorf("the second process: %v", err)
	}
	wantMoved("after a second process")
}

// TestNewHolderIsNamed although it has not yet written who it is.
func TestNewHolderIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, opened := t.TempDir(), make(chan *store.Store)
		go func() {
			s, err := store.Open(t.Context(), dir, store.Options{TakeLock: func(file *os.File) error {
				err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
				time.Sleep(90 * time.Millisecond) // longer than another process tries to take it
				return err
			}})
			if err != nil {
				t.Error(err)
			}
			opened <- s
		}()
		synctest.Wait()
		_, err := store.Open(t.Context(), dir, store.Options{})
		held, is := errors.AsType[*store.HeldError](err)
		if !is || held.PID != os.Getpid() || !strings.Contains(held.Command, filepath.Base(os.Args[0])) {
			t.Errorf("the second process: %v, want that this one holds the folder", err)
		}
		if err := (<-opened).Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestLockEndsWithTheStore although a child that was forked meanwhile, and that has not executed its
// program yet, has a copy of the locked file.
func TestLockEndsWithTheStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	take := func(file *os.File) error {
		inherited, err := unix.Dup(int(file.Fd()))
		if err == nil {
			t.Cleanup(func() { _ = unix.Close(inherited) })
		}
		return errors.Join(err, unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	}
	for range 2 {
		s, err := store.Open(t.Context(), dir, store.Options{TakeLock: take})
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
