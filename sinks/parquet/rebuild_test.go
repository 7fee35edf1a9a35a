package parquet

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"outlierd/sinks"
	"outlierd/sinks/sinktest"
)

// TestRebuildEntryByEntryIsKilled between any two of its steps: the folder holds the old tables or, from
// the commit on, the new ones, and what others have put there.
func TestRebuildEntryByEntryIsKilled(t *testing.T) {
	t.Run("behind a link", func(t *testing.T) { testRebuildKilled(t, true, nil) })
	t.Run("no exchange of names", func(t *testing.T) {
		testRebuildKilled(t, false, func(what string) error {
			if strings.HasPrefix(what, "exchange ") {
				return unix.EINVAL
			}
			return nil
		})
	})
	t.Run("folders in a lower layer", func(t *testing.T) {
		testRebuildKilled(t, false, func(what string) error {
			path, renamed := strings.CutPrefix(what, "rename ")
			if info, err := os.Stat(path); strings.HasPrefix(what, "exchange ") || renamed && err == nil &&
				info.IsDir() && filepath.Base(filepath.Dir(path)) == "parquet" {
				return unix.EXDEV
			}
			return nil
		})
	})
}

// testRebuildKilled rebuilds a folder, or one behind a link. The file system refuses some of the changes.
func testRebuildKilled(t *testing.T, linked bool, refused func(what string) error) {
	old, j := sinktest.Sample(4), crashing() // the new one has fewer tables
	fill := func(s sinks.Sink, _ string) error { return perform(t, s.(*Sink), j) }
	first, stride := stepsToKill()
	for n := first; ; n += stride {
		link := filepath.Join(t.TempDir(), "parquet")
		disk := link
		if linked {
			disk = t.TempDir()
			if err := os.Symlink(disk, link); err != nil {
				t.Fatal(err)
			}
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
		step := kill.step
		if refused != nil {
			step = func(what string) error { return cmp.Or(kill.step(what), refused(what)) }
		}
		err = rebuildBy(step, options(link), fill)
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

// TestRebuildKeepsWhoMayUseTheFolder: mode, owner, group and access control lists are those of the old
// folder, and the folders in it inherit the group and the lists.
func TestRebuildKeepsWhoMayUseTheFolder(t *testing.T) {
	t.Parallel()
	j := sinktest.Sample(4)
	dir := filepath.Join(t.TempDir(), "parquet")
	s := openSink(t, dir)
	if err := errors.Join(perform(t, s, j), s.Close()); err != nil {
		t.Fatal(err)
	}
	owner, group := os.Getuid(), os.Getgid()
	if owner == 0 {
		owner, group = 65532, 65533
	}
	if err := errors.Join(os.Chown(dir, owner, group), os.Chmod(dir, 0o770|fs.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	const list = "system.posix_acl_default" // user::rwx, user:4711:rwx, group::r-x, mask::rwx, other::---
	want := []byte("\x02\x00\x00\x00" + "\x01\x00\x07\x00\xff\xff\xff\xff" + "\x02\x00\x07\x00\x67\x12\x00\x00" +
		"\x04\x00\x05\x00\xff\xff\xff\xff" + "\x10\x00\x07\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff")
	lists := true
	if err := unix.Setxattr(dir, list, want, 0); err != nil {
		t.Logf("the file system has no access control lists: %v", err)
		lists = false
	}
	fill := func(s sinks.Sink, _ string) error { return perform(t, s.(*Sink), j) }
	if err := Rebuild(options(dir), fill); err != nil {
		t.Fatal(err)
	}
	for name, inherited := range map[string]bool{".": false, manifestFolder: true} {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		stat := info.Sys().(*syscall.Stat_t)
		if int(stat.Gid) != group || info.Mode()&fs.ModeSetgid == 0 {
			t.Errorf("%s: group %d, mode %v; want %d, inherited", name, stat.Gid, info.Mode(), group)
		}
		if !inherited && (int(stat.Uid) != owner || info.Mode().Perm() != 0o770) {
			t.Errorf("%s: owner %d, mode %v; want %d, rwxrwx---", name, stat.Uid, info.Mode(), owner)
		}
		got := make([]byte, 100)
		if n, err := unix.Getxattr(path, list, got); lists && (err != nil || !bytes.Equal(got[:n], want)) {
			t.Errorf("%s: access control list %x, %v; want %x", name, got[:max(n, 0)], err, want)
		}
	}
}
