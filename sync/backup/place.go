package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Place keeps the files of one backup: a [Folder], or a bucket.
type Place interface {
	String() string

	// Temp is a folder of this machine in which a copy is made before it is put there.
	Temp() string

	// Hold keeps other backups out until it is released, where the place has locks. Where it has
	// none, Replace lets only one of them end.
	Hold() (release func() error, err error)

	// Names are those of the files that are there, and of files that were not written to their end.
	Names(ctx context.Context) ([]string, error)

	// Open reads a file. It returns an [fs.ErrNotExist] if there is none. The version is that of
	// the content, for Replace.
	Open(ctx context.Context, name string) (file io.ReadCloser, version string, err error)

	// Put brings a file of the folder Temp there, durably. It may be moved.
	Put(ctx context.Context, path, name string) error

	// Replace writes a small file in one step, if the one there still has the version, or if none is
	// there and the version is empty. Otherwise the error is [fs.ErrExist] and nothing has changed.
	Replace(ctx context.Context, name string, text []byte, version string) error

	Remove(ctx context.Context, name string) error
}

// Folder is the path of a folder that keeps backups.
type Folder string

var _ Place = Folder("")

// String implements [Place].
func (f Folder) String() string { return string(f) }

// Temp implements [Place]. What is made in the folder itself can be renamed.
func (f Folder) Temp() string { return string(f) }

func (f Folder) path(name string) string { return filepath.Join(string(f), name) }

// Hold implements [Place]. It makes the folder.
func (f Folder) Hold() (release func() error, err error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the backup: %w", err)
	}
	return hold(string(f))
}

// Names implements [Place].
func (f Folder) Names(context.Context) (names []string, err error) {
	all, err := os.ReadDir(string(f))
	for _, entry := range all {
		names = append(names, entry.Name())
	}
	return names, err
}

// Open implements [Place].
func (f Folder) Open(_ context.Context, name string) (io.ReadCloser, string, error) {
	file, err := os.Open(f.path(name))
	if err != nil {
		return nil, "", err // in place of a file that is nil
	}
	return file, "", nil
}

// Put implements [Place].
func (f Folder) Put(_ context.Context, path, name string) error { return f.rename(path, name) }

func (f Folder) rename(path, name string) error {
	if err := os.Rename(path, f.path(name)); err != nil {
		return err
	}
	return syncFolder(string(f))
}

// Replace implements [Place]. The folder is locked, so no other process can have replaced the file.
func (f Folder) Replace(_ context.Context, name string, text []byte, _ string) error {
	temp := f.path(name + ".new")
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return f.rename(temp, name)
}

// Remove implements [Place].
func (f Folder) Remove(_ context.Context, name string) error { return os.RemoveAll(f.path(name)) }

// hold keeps other backups and restores out of a folder until it is released: they would remove what
// this one is writing. The kernel lets go when the process ends, however it ends. A network file
// system may have no locks for folders: a backup there goes on without.
func hold(folder string) (release func() error, err error) {
	file, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if errors.Is(unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("another backup or restore is using %s: wait until it has ended", folder), file.Close())
	}
	return file.Close, nil
}

// syncFolder makes the names in a folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
