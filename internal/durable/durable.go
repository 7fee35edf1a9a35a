// Package durable writes files of which a crash, or a power failure, leaves all or nothing.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// WriteFile replaces the file at path, or creates it. After an error the file is what it was before, unless
// only the folder could not be synced.
func WriteFile(path string, content []byte, mode fs.FileMode) error {
	return Write(path, mode, func(to *os.File) error {
		_, err := to.Write(content)
		return err
	})
}

// Write is [WriteFile] for content that is written piece by piece, under a hidden name in the same folder. Several
// processes may do so at once.
func Write(path string, mode fs.FileMode, write func(*os.File) error) error {
	folder, name := filepath.Split(path)
	file, err := os.CreateTemp(filepath.Clean(folder), "."+name+".*.tmp")
	if err != nil {
		if of, is := errors.AsType[*fs.PathError](err); is {
			of.Path = path
		}
		return err
	}
	temp := file.Name()
	defer os.Remove(temp) // after a rename there is no such file
	err = write(file)
	if err == nil {
		err = errors.Join(file.Chmod(mode), file.Sync())
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = Rename(temp, path)
	}
	if of, is := errors.AsType[*fs.PathError](err); is && of.Path == temp {
		of.Path = path
	}
	return err
}

// Rename gives a finished and synced file its name, in place of a file that has it.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return Sync(filepath.Dir(to))
}

// Keep links a file into a folder under a name, so that it stays when it is replaced, and returns its path there. It
// returns the file's own path if the folder is "", or if the file cannot be linked.
func Keep(path, folder, name string) (string, error) {
	if folder == "" {
		return path, nil
	}
	to := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return "", err
	}
	err := os.Link(path, to)
	if errors.Is(err, syscall.EXDEV) || errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
		return path, nil
	}
	return to, err
}

// Sync makes a file durable, or the names in a folder.
func Sync(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// Match returns the paths of what a folder has whose names match a pattern of [path.Match], sorted. Unlike in the
// pattern of [filepath.Glob], the folder itself may have any name.
func Match(folder, pattern string) ([]string, error) {
	found, err := fs.Glob(os.DirFS(folder), pattern)
	for i, name := range found {
		found[i] = filepath.Join(folder, name)
	}
	return found, err
}

// RemoveUnfinished removes what processes that were killed while they wrote have left in a folder. No other
// process may be writing there.
func RemoveUnfinished(folder string) error {
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasPrefix(e.Name(), ".") && strings.HasSuffix(e.Name(), ".tmp") {
			err = errors.Join(err, os.Remove(filepath.Join(folder, e.Name())))
		}
	}
	return err
}
