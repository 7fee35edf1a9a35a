package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		lockless, ok := errors.AsType[*store.LocklessError](err)
		if !ok || lockless.Dir != dir || !errors.Is(err, cause) || !strings.Contains(err.Error(), "put the data folder on a local disk") {
			t.Errorf("%v: %v", cause, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "state.db")); err == nil {
			t.Errorf("%v: a state was made", cause)
		}
	}
}
