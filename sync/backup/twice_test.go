package backup

import (
	"path/filepath"
	"strings"
	"testing"

	"outlierd/sync/state"
)

// TestTwoAtOnce lets a backup and a restore meet another one in the same folder. Each would remove the
// files in which the other makes its copy.
func TestTwoAtOnce(t *testing.T) {
	copies, back := t.TempDir(), t.TempDir()
	from := filepath.Join(t.TempDir(), "state")
	store, err := state.Open(t.Context(), from, state.Options{})
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	write := func() error {
		_, err := Write(t.Context(), from, Folder(copies), Options{})
		return err
	}
	restore := func() error {
		_, err := Restore(t.Context(), Folder(copies), Which{}, filepath.Join(back, "state"), state.Options{}, func(*state.Store, Backup) error { return nil })
		return err
	}
	for _, c := range []struct {
		folder string
		do     func() error
	}{{copies, write}, {back, restore}} {
		release, err := lockFolder(c.folder)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.do(); err == nil || !strings.Contains(err.Error(), "another backup or restore is using ") {
			t.Errorf("beside another one: %v", err)
		}
		if err := release(); err != nil {
			t.Fatal(err)
		}
		if err := c.do(); err != nil {
			t.Errorf("after the other one: %v", err)
		}
	}
}
