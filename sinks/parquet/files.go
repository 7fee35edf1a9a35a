package parquet

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// open opens a file for reading. It refuses everything but regular files: opening a pipe may block
// forever.
func (s *Sink) open(name string) (*os.File, error) {
	info, err := s.root.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: %s", filepath.Join(s.options.Dir, name), rebuild)
	}
	if err != nil {
		return nil, s.named(err)
	}
	f, err := s.root.Open(name)
	return f, s.named(err)
}

// named replaces the name in an error of [os.Root], which is relative to the folder of the sink, by the path.
func (s *Sink) named(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return &fs.PathError{Op: e.Op, Path: filepath.Join(s.options.Dir, e.Path), Err: e.Err}
	case *os.LinkError:
		return &os.LinkError{Op: e.Op, Old: filepath.Join(s.options.Dir, e.Old),
			New: filepath.Join(s.options.Dir, e.New), Err: e.Err}
	}
	return err
}

// read returns the content of a file.
func (s *Sink) read(name string) ([]byte, error) {
	f, err := s.open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	return text, errors.Join(err, f.Close())
}

// All functions that change the disk, each with its own call of step, so that tests can make it fail.

// create writes a file, and returns its size and checksum.
func (s *Sink) create(name string, content func(io.Writer) error) (size int64, sum string, err error) {
	if err := s.step("write " + name); err != nil {
		return 0, "", err
	}
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return 0, "", s.named(err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	written := &summed{to: f, hash: sha256.New()}
	s.buffer.Reset(written)
	defer s.buffer.Reset(nil)
	if err := content(s.buffer); err != nil {
		return 0, "", fmt.Errorf("write %s: %w", name, err)
	}
	if err := s.buffer.Flush(); err != nil {
		return 0, "", err
	}
	return written.size, hex.EncodeToString(written.hash.Sum(nil)), s.syncFile(name, f)
}

// summed is a writer that computes the size and the checksum of what it writes.
type summed struct {
	to   io.Writer
	hash hash.Hash
	size int64
}

func (s *summed) Write(some []byte) (int, error) {
	n, err := s.to.Write(some)
	s.hash.Write(some[:n])
	s.size += int64(n)
	return n, err
}

// exchange exchanges the names of a folder and of the one that replaces it, atomically.
func (s *Sink) exchange(made, folder string) error {
	if err := s.step("exchange " + folder); err != nil {
		return err
	}
	here, err := s.root.Open(".")
	if err != nil {
		return err
	}
	defer here.Close()
	fd := int(here.Fd())
	if err := unix.Renameat2(fd, made, fd, folder, unix.RENAME_EXCHANGE); err != nil {
		return &os.LinkError{Op: "exchange", Old: filepath.Join(s.options.Dir, made),
			New: filepath.Join(s.options.Dir, folder), Err: err}
	}
	return nil
}

func (s *Sink) rename(from, to string) error {
	if err := s.step("rename " + from); err != nil {
		return err
	}
	return s.named(s.root.Rename(from, to))
}

func (s *Sink) remove(name string) error {
	if err := s.step("remove " + name); err != nil {
		return err
	}
	if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.named(err)
	}
	return nil
}

// folder creates a folder and those above it, durably.
func (s *Sink) folder(name string) error {
	if _, err := s.root.Stat(name); err == nil {
		return nil
	}
	if err := s.step("create " + name); err != nil {
		return err
	}
	if err := s.root.MkdirAll(name, 0o755); err != nil {
		return s.named(err)
	}
	for above := path.Dir(name); ; above = path.Dir(above) {
		if err := s.syncFolder(above); err != nil {
			return err
		}
		if above == "." {
			return nil
		}
	}
}

func (s *Sink) syncFolders(names map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := s.syncFolder(name); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sink) syncFolder(name string) error {
	folder, err := s.root.Open(name)
	if err != nil {
		return s.named(err)
	}
	return errors.Join(s.syncFile(name, folder), folder.Close())
}

// syncFile makes the content of a file, or the names in a folder, durable.
func (s *Sink) syncFile(name string, f *os.File) error {
	if err := s.step("sync " + name); err != nil {
		return err
	}
	return s.sync(f)
}
