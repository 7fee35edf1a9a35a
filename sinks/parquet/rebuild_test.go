package parquet

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"outlierd/sinks"
	"outlierd/sinks/sinktest"
)

// TestRebuildBehindALinkIsKilled between any two of its steps: the folder holds the old tables or, from
// the commit on, the new ones, and what others have put there.
func TestRebuildBehindALinkIsKilled(t *testing.T) {
	old, j := sinktest.Sample(4), crashing() // the new one has fewer tables
	fill := func(s sinks.Sink, _ string) error { return perform(t, s.(*Sink), j) }
	first, stride := stepsToKill()
	for n := first; ; n += stride {
		disk, link := t.TempDir(), filepath.Join(t.TempDir(), "parquet")
		if err := os.Symlink(disk, link); err != nil {
			t.Fatal(err)
		}
		s := openSink(t, link)
		if err := errors.Join(perform(t, s, old), s.Close()); err != nil {
			t.Fatal(err)
		}
		foreign := []string{"README", "lost+found/found", "outliers/note", "videos/note"}
		for _, name := range foreign {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(disk, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(disk, name), []byte("mine"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		before, err := ReadPublished(disk)
		if err != nil {
			t.Fatal(err)
		}
		kill := &killer{dir: disk, n: n}
		err = rebuildBy(kill.step, options(link), fill)
		if killed := errors.Is(err, errKilled); !killed && err != nil {
			t.Fatal(err)
		}
		if s = openSink(t, link); s.Close() != nil {
			t.Fatal("cannot be closed")
		}
		after, openErr := ReadPublished(disk)
		if openErr != nil {
			t.Fatalf("killed at step %d (%s): %v", n, kill.what, openErr)
		}
		if after.Instance == before.Instance {
			suite.Check(t, disk, old, 4)
		} else {
			suite.Check(t, disk, j, 4)
		}
		for _, name := range foreign {
			if text, err := os.ReadFile(filepath.Join(disk, name)); err != nil || string(text) != "mine" {
				t.Errorf("%s: %q, %v", name, text, err)
			}
		}
		for _, name := range []string{rebuildFolder, rebuiltFolder, replacedFolder} {
			if _, err := os.Lstat(filepath.Join(disk, name)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("left behind: %s", name)
			}
		}
		if t.Failed() {
			t.Fatalf("killed at step %d (%s)", n, kill.what)
		}
		if err == nil {
			if n < 10 || after.Instance == before.Instance {
				t.Errorf("%d steps, and the folder is the old one: %v", n-1, after.Instance == before.Instance)
			}
			return
		}
	}
}
