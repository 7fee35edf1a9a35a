package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// defaultMinFree is kept free for the answer in hand, the sinks and everybody else.
const defaultMinFree = 256 << 20

// space watches the room on the disk. A share of what must be free is held in a
// file, the ballast; when a write finds no room, the ballast is thrown off and the
// write is tried again. So the answer to a call that was already paid for has a
// place, although the disk filled up while it was on its way.
type space struct {
	dir  string
	min  uint64
	free func(dir string) (uint64, error)
}

func (s *space) ballast() string { return filepath.Join(s.dir, "ballast") }

// Room refuses to ask for an answer that might not be kept: with a [*LowSpaceError] if it might find no
// room, and with a [*MovedError] if the state is no longer in its place.
func (s *Store) Room() error {
	if err := s.InPlace(); err != nil {
		return err
	}
	return s.space.check()
}

// InPlace fails with a [*MovedError] if the state is no longer where the next process looks for it. A
// file that was moved or deleted stays open, and work with it would go on unnoticed.
func (s *Store) InPlace() error {
	if s.file == nil {
		return nil
	}
	found, err := os.Stat(s.Path())
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(found, s.file):
		return &MovedError{Path: s.Path()}
	case err != nil:
		return fmt.Errorf("find the state: %w", err)
	}
	return nil
}

// Free is how many bytes of the disk are free.
func (s *Store) Free() (uint64, error) { return s.space.free(s.space.dir) }

// Ballast makes sure that the room is taken in advance that the answer to a paid call needs.
func (s *Store) Ballast() error { return s.space.load() }

// check refuses to ask for an answer that might find no room.
func (s *space) check() error {
	free, err := s.free(s.dir)
	if err != nil {
		return fmt.Errorf("read the free space of %s: %w", s.dir, err)
	}
	if free < s.min {
		return &LowSpaceError{Dir: s.dir, Free: free, Need: s.min}
	}
	return nil
}

// load puts the ballast in place where there is room for it beside what must be
// free.
func (s *space) load() error {
	size := int64(s.min / 8)
	if info, err := os.Stat(s.ballast()); err == nil && info.Size() == size {
		return nil
	}
	free, err := s.free(s.dir)
	if err != nil {
		return fmt.Errorf("read the free space of %s: %w", s.dir, err)
	}
	if free < s.min+uint64(size) {
		return nil
	}
	return fill(s.ballast(), size)
}

// fill makes a file that occupies its size: a sparse one would hold no room.
func fill(path string, size int64) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("load the ballast: %w", err)
	}
	err = allocate(file, size)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("load the ballast: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}

// throwOff makes room, and reports whether there was anything to throw off.
func (s *space) throwOff() (bool, error) {
	err := os.Remove(s.ballast())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// FreeSpace is what an unprivileged user may still write on the disk of dir.
func FreeSpace(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}

// writeZeros takes room for the file by writing it.
func writeZeros(file *os.File, size int64) error {
	zeros := make([]byte, 1<<20)
	for size > 0 {
		n, err := file.Write(zeros[:min(size, int64(len(zeros)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	return nil
}
