package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"outlierd/internal/durable"
	"outlierd/sync/job"
)

// workFolders are the names of the folders in which check builds tables, a backup to a bucket makes its copy, and
// the results of downloads are kept until they are sent.
const workFolders = "work-*"

// temporary is a folder on which its process holds a lock, so that other processes can tell which folders killed processes
// have left.
type temporary struct {
	path string
	lock *os.File
}

// newTemporary creates a folder on the disk of the data.
func newTemporary(config *job.Config) (*temporary, error) {
	above := temporaryFolder(config)
	if err := os.MkdirAll(above, 0o700); err != nil {
		return nil, explainUnwritable(err, config.Data)
	}
	t, err := makeTemporary(above, workFolders)
	return t, explainUnwritable(err, config.Data)
}

// makeTemporary creates a folder in another one, and removes those that killed processes of this user have left.
func makeTemporary(above, pattern string) (*temporary, error) {
	left, err := durable.Match(above, pattern)
	if err != nil {
		return nil, err
	}
	for _, path := range left {
		if isOwnFolder(path) {
			_ = removeUnlocked(path) // the next process tries again
		}
	}
	for {
		path, err := os.MkdirTemp(above, pattern)
		if err != nil {
			return nil, err
		}
		lock, err := os.Open(path)
		if err == nil {
			err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		}
		if isMissing(path) { // another process took it for one of a killed process, before it was locked
			_ = lock.Close()
			continue
		}
		t := &temporary{path, lock}
		if err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, unix.ENOLCK) { // without locks nothing is removed
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), t.Close())
		}
		return t, nil
	}
}

// isOwnFolder reports whether there is a folder of this user at a path. Others may put anything there where all users keep
// temporary files.
func isOwnFolder(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	stat, is := info.Sys().(*syscall.Stat_t)
	return is && int(stat.Uid) == os.Geteuid()
}

// Close removes the folder.
func (t *temporary) Close() error {
	if t == nil {
		return nil
	}
	return errors.Join(os.RemoveAll(t.path), t.lock.Close())
}

// systemTemporary creates a folder where the system keeps temporary files.
func systemTemporary(pattern string) (*temporary, error) {
	t, err := makeTemporary(os.TempDir(), pattern)
	if err != nil {
		err = fmt.Errorf("make a temporary folder: %w; set TMPDIR to a folder that user %d may write to",
			err, os.Getuid())
	}
	return t, err
}

// temporaryFolder returns the folder to which DuckDB spills data that does not fit into memory, and in
// which temporary tables are built.
func temporaryFolder(config *job.Config) string { return filepath.Join(stateFolder(config), "tmp") }

// removeLeft removes what killed processes have left in a folder.
func removeLeft(folder string) error {
	names, err := durable.Match(folder, "*")
	for _, name := range names {
		err = errors.Join(err, removeUnlocked(name))
	}
	return err
}

// removeUnlocked removes a file or folder unless a process has locked it.
func removeUnlocked(name string) error {
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = nil
	case err == nil:
		err = os.RemoveAll(name)
	}
	return errors.Join(err, file.Close())
}
