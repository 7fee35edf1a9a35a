package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"outlierd/internal/durable"
	"outlierd/sync/job"
)

// workFolders are the names of the folders in which check builds tables, a backup to a bucket makes its copy, and
// the results of downloads are kept until they are sent.
const workFolders = "work-*"

// temporary is a folder on the disk of the data. Its process holds a lock on it, so that other
// processes can tell which folders killed processes have left.
type temporary struct {
	path string
	lock *os.File // nil for a folder elsewhere
}

// newTemporary creates a folder, and removes those of killed processes.
func newTemporary(config *job.Config) (t *temporary, err error) {
	above := temporaryFolder(config)
	if err := os.MkdirAll(above, 0o700); err != nil {
		return nil, explainUnwritable(err, config.Data)
	}
	whole, err := os.Open(above)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, whole.Close()) }()
	if err := unix.Flock(int(whole.Fd()), unix.LOCK_EX); err != nil { // until the new folder is locked
		return nil, fmt.Errorf("lock %s: %w", above, err)
	}
	if err := removeLeft(above, workFolders); err != nil {
		return nil, err
	}
	t = &temporary{}
	if t.path, err = os.MkdirTemp(above, workFolders); err != nil {
		return nil, explainUnwritable(err, config.Data)
	}
	if t.lock, err = os.Open(t.path); err != nil {
		return nil, err
	}
	if err := unix.Flock(int(t.lock.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", t.path, err), t.Close())
	}
	return t, nil
}

// Close removes the folder.
func (t *temporary) Close() error {
	if t == nil {
		return nil
	}
	err := os.RemoveAll(t.path)
	if t.lock != nil {
		err = errors.Join(err, t.lock.Close())
	}
	return err
}

// systemTemporary creates a folder where the system keeps temporary files.
func systemTemporary(pattern string) (path string, err error) {
	if path, err = os.MkdirTemp("", pattern); err != nil {
		err = fmt.Errorf("make a temporary folder: %w; set TMPDIR to a folder that user %d may write to",
			err, os.Getuid())
	}
	return path, err
}

// temporaryFolder returns the folder to which DuckDB spills data that does not fit into memory, and in
// which temporary tables are built.
func temporaryFolder(config *job.Config) string { return filepath.Join(stateFolder(config), "tmp") }

// removeLeft removes leftovers of killed processes from a folder.
func removeLeft(folder, pattern string) error {
	names, err := durable.Match(folder, pattern)
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
