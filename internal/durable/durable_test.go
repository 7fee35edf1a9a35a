package durable

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// wantFolder compares the files of a folder, hidden ones included.
func wantFolder(t *testing.T, folder string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if content, ok := want[e.Name()]; err != nil || !ok || content != string(text) {
			t.Errorf("%s contains %q (%v), want %q", e.Name(), text, err, content)
		}
	}
	if len(entries) != len(want) {
		t.Errorf("%d files, want %d", len(entries), len(want))
	}
}

func TestFileIsReplacedWhole(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	for _, content := range []string{"a long content", "short"} {
		if err := WriteFile(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		wantFolder(t, folder, map[string]string{"file": content})
	}
	if info, err := os.Stat(path); err != nil {
		t.Error(err)
	} else if info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, want 0640", info.Mode())
	}
}

func TestSymbolicLinkIsNotFollowed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	link, foreign := filepath.Join(folder, "link"), filepath.Join(folder, "foreign")
	if err := errors.Join(os.WriteFile(foreign, []byte("kept"), 0o600), os.Symlink(foreign, link)); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFolder(t, folder, map[string]string{"link": "new", "foreign": "kept"})
}

func TestFailedWriteLeavesOldFile(t *testing.T) {
	t.Parallel()
	folder, failure := t.TempDir(), errors.New("the source broke off")
	path := filepath.Join(folder, "file")
	if err := WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := Write(path, 0o600, func(to *os.File) error {
		_, err := to.WriteString("half")
		return errors.Join(err, failure)
	})
	if !errors.Is(err, failure) {
		t.Errorf("write: %v, want %v", err, failure)
	}
	wantFolder(t, folder, map[string]string{"file": "old"})
}

// TestFullDiskLeavesOldFile runs itself in a process that can write 4 bytes to a file.
func TestFullDiskLeavesOldFile(t *testing.T) {
	if path := os.Getenv("DURABLE_TEST_FILE"); path != "" {
		signal.Ignore(unix.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4, Max: 4}); err != nil {
			t.Fatal(err)
		}
		if err := WriteFile(path, []byte("much longer"), 0o600); !errors.Is(err, unix.EFBIG) {
			os.Exit(3)
		}
		os.Exit(0)
	}
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	if err := WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), "DURABLE_TEST_FILE="+path)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("write to a full disk: %v\n%s", err, out)
	}
	wantFolder(t, folder, map[string]string{"file": "old"})
}

func TestUnsyncedFolderIsAnError(t *testing.T) {
	t.Parallel()
	if err := Sync("/proc/self"); !errors.Is(err, unix.EINVAL) {
		t.Errorf("sync a folder of a file system that cannot do it: %v, want %v", err, unix.EINVAL)
	}
	missing := filepath.Join(t.TempDir(), "missing", "file")
	if err := WriteFile(missing, nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("write into a missing folder: %v, want %v", err, fs.ErrNotExist)
	}
}

// TestNamesMatchInAnyFolder, also in one whose name would be a pattern.
func TestNamesMatchInAnyFolder(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), `a[1]*\b`)
	if found, err := Match(folder, "*"); len(found) > 0 || err != nil {
		t.Errorf("a folder that does not exist: got %v, %v, want nothing", found, err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b-2", "b-1", "c"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{filepath.Join(folder, "b-1"), filepath.Join(folder, "b-2")}
	if found, err := Match(folder, "b-*"); !slices.Equal(found, want) || err != nil {
		t.Errorf("got %v, %v, want %v", found, err, want)
	}
}

func TestUnfinishedFilesAreRemoved(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file, err := os.CreateTemp(folder, ".file.*.tmp") // as a process that is killed leaves it
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(file.Close(), WriteFile(filepath.Join(folder, "kept.tmp"), []byte("kept"), 0o600))
	if err := errors.Join(err, RemoveUnfinished(folder)); err != nil {
		t.Fatal(err)
	}
	wantFolder(t, folder, map[string]string{"kept.tmp": "kept"})
}
