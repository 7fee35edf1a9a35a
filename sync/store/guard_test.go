package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"outlierd/sync/state"
)

// TestNothingInTheFolderLeadsElsewhere: a link in the state folder is neither followed nor
// written through, and a pipe does not hold up the program.
func TestNothingInTheFolderLeadsElsewhere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"lock", "state.db", "state.db-wal", "warehouse.duckdb", "pace.json.tmp", "tmp"} {
		dir, victim := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "victim")
		s, err := state.Open(t.Context(), dir, state.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, path); err != nil {
			t.Fatal(err)
		}
		for what, open := range map[string]func() (*state.Store, error){
			"open": func() (*state.Store, error) { return state.Open(t.Context(), dir, state.Options{}) },
			"peek": func() (*state.Store, error) { return state.Peek(t.Context(), dir, state.Options{}) },
		} {
			s, err := open()
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), path+" is a symbolic link (owner: user") {
				t.Errorf("%s with a link %s: %v", what, name, err)
			}
		}
		if text, err := os.ReadFile(victim); err != nil || string(text) != "mine" {
			t.Errorf("%s: the file now holds %q, %v", name, text, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := state.Open(t.Context(), dir, state.Options{}); err == nil || !strings.Contains(err.Error(), path+" is not a regular file") {
			s.Close()
			t.Errorf("with a pipe %s: %v", name, err)
		}
	}
}

// TestOwnFolderLinkIsFollowed, since it may lead to another disk; that of another user
// is not, and what it leads to is left as it is.
func TestOwnFolderLinkIsFollowed(t *testing.T) {
	t.Parallel()
	there, link := t.TempDir(), filepath.Join(t.TempDir(), "state")
	if err := os.Chmod(there, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(there, link); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Lchown(link, 4711, 4711); err != nil {
			t.Fatal(err)
		}
		if s, err := state.Open(t.Context(), link, state.Options{}); err == nil || !strings.Contains(err.Error(), "a symbolic link (owner: user 4711)") {
			s.Close()
			t.Errorf("a link of another user's: %v", err)
		}
		if info, err := os.Stat(there); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("the folder behind it is %v, %v", info.Mode(), err)
		}
		if err := os.Lchown(link, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	s, err := state.Open(t.Context(), link, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
