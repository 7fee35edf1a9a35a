package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"outlierd/internal/durable"
)

// Place stores the backups of one state: a [Folder], or a bucket.
type Place interface {
	String() string

	// Temp is a local folder in which a copy is made before Put moves it to the place.
	Temp() string

	// Hold locks the place against other backups until release is called, if the place has locks.
	// Without locks, concurrent backups may run, and both are complete.
	Hold() (release func() error, err error)

	// Names lists the complete files of the place, and what killed backups have left.
	Names(ctx context.Context) (names, remains []string, err error)

	// Open reads a file. It returns an [fs.ErrNotExist] if there is none. The version of its content is not used here.
	Open(ctx context.Context, name string) (file io.ReadCloser, version string, err error)

	// Put stores a file of the folder Temp durably, all of it or nothing. It may move the file.
	Put(ctx context.Context, path, name string) error

	Remove(ctx context.Context, name string) error
}

// tempName is the prefix of the names of folders in which a copy is made.
const tempName = ".look-"

// Folder is the path of a folder that contains backups.
type Folder string

var _ Place = Folder("")

// String implements [Place].
func (f Folder) String() string { return string(f) }

// Temp implements [Place]. It is the folder itself, so that files can be renamed.
func (f Folder) Temp() string { return string(f) }

func (f Folder) pathOf(name string) string { return filepath.Join(string(f), name) }

// Hold implements [Place]. It creates the folder.
func (f Folder) Hold() (release func() error, err error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the backup: %w", err)
	}
	return lockFolder(string(f))
}

// Names implements [Place].
func (f Folder) Names(context.Context) (names, remains []string, err error) {
	all, err := os.ReadDir(string(f))
	for _, entry := range all {
		if strings.HasPrefix(entry.Name(), tempName) {
			remains = append(remains, entry.Name())
		} else {
			names = append(names, entry.Name())
		}
	}
	return names, remains, err
}

// Open implements [Place]. It refuses all but regular files: opening a pipe may never end.
func (f Folder) Open(_ context.Context, name string) (io.ReadCloser, string, error) {
	if info, err := os.Stat(f.pathOf(name)); err == nil && !info.Mode().IsRegular() {
		return nil, "", fmt.Errorf("%s is not a regular file: move it away, or use another folder", f.pathOf(name))
	}
	file, err := os.Open(f.pathOf(name))
	if err != nil {
		return nil, "", err // not a nil *os.File, which would be a non-nil interface value
	}
	return file, "", nil
}

// Put implements [Place].
func (f Folder) Put(_ context.Context, path, name string) error {
	return durable.Rename(path, f.pathOf(name))
}

// Remove implements [Place].
func (f Folder) Remove(_ context.Context, name string) error { return os.RemoveAll(f.pathOf(name)) }

// lockFolder locks a folder against other backups and restores until release is called: they would remove
// the files being written. The kernel releases the lock when the process ends. A network file
// system may not support locks on folders; a backup there runs without one.
func lockFolder(folder string) (release func() error, err error) {
	file, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if errors.Is(unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("another backup or restore is using %s: wait until it has ended",
			folder), file.Close())
	}
	return file.Close, nil
}
