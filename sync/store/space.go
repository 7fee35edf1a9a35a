package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// defaultMinFree is kept free for the next answer, the sinks and other programs.
const defaultMinFree = 256 << 20

// space monitors the free space on the disk. Part of what must be free is occupied by a file, the
// ballast. When a write finds no space, the ballast is removed and the write is repeated. So there
// is space for the answer to a paid call even if the disk became full while it was on its way.
type space struct {
	dir  string
	min  uint64
	free func(dir string) (uint64, error)
}

func (s *space) ballast() string { return filepath.Join(s.dir, "ballast") }

// Room returns an error if the next answer might not be kept: a [*LowSpaceError] if there may be
// no space for it, and a [*MovedError] if the state is no longer in its place.
func (s *Store) Room() error {
	if err := s.InPlace(); err != nil {
		return err
	}
	return s.space.check()
}

// RoomForFree is [Store.Room] for an answer that costs nothing. It looks for the state at most every 50 ms.
func (s *Store) RoomForFree() error {
	if err := s.InPlaceLately(); err != nil {
		return err
	}
	return s.space.check()
}

// InPlace returns a [*MovedError] if the state is no longer where the next process looks for it, or if
// another process may use it. A file that was moved or deleted stays open, so work with it would
// continue unnoticed.
func (s *Store) InPlace() error {
	err := s.findPlace()
	s.locking.Lock()
	defer s.locking.Unlock()
	if s.placed = time.Now(); err != nil {
		s.placed = time.Time{}
	}
	return err
}

func (s *Store) findPlace() error {
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
	return s.keepLock()
}

// placeEvery is the interval at which [Store.InPlaceLately] looks.
const placeEvery = time.Second / 20

// InPlaceLately is [Store.InPlace], but relies on what it found less than 50 ms ago: often enough for calls
// that cost nothing, of which thousands are made in a minute if the service has no limit.
func (s *Store) InPlaceLately() error {
	s.locking.Lock()
	lately := time.Since(s.placed) < placeEvery
	s.locking.Unlock()
	if lately {
		return nil
	}
	return s.InPlace()
}

// Free returns the number of free bytes on the disk.
func (s *Store) Free() (uint64, error) { return s.space.free(s.space.dir) }

// Ballast makes sure that the space for the answer to a paid call is reserved.
func (s *Store) Ballast() error { return s.space.createBallast() }

// check returns an error if there may be no space for an answer.
func (s *space) check() error {
	free, err := s.free(s.dir)
	if err != nil {
		return fmt.Errorf("read the free space of %s: %w", s.dir, err)
	}
	if free < s.min {
		return &LowSpaceError{Dir: s.dir, Free: free, Need: s.min}
	}
	if files, err := FreeFiles(s.dir); err != nil || files < MinFiles {
		return cmp.Or(err, error(&LowSpaceError{Dir: s.dir, Free: files, Need: MinFiles, Files: true}))
	}
	return nil
}

// createBallast creates the ballast if there is space for it in addition to what must be free.
func (s *space) createBallast() error {
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

// fill creates a file that occupies its size on the disk: a sparse file would reserve no space.
func fill(path string, size int64) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("reserve disk space: %w", err)
	}
	err = allocate(file, size)
	if errors.Is(err, unix.EFBIG) {
		err = fmt.Errorf("%w; raise the limit of file sizes (ulimit -f)", err)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("reserve %d MiB of disk space in %s: %w", size>>20, path, errors.Join(err, os.Remove(path)))
	}
	return nil
}

// removeBallast removes the ballast, and reports whether there was one.
func (s *space) removeBallast() (bool, error) {
	err := os.Remove(s.ballast())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Unknown is the free space of a file system that does not say how much it has, as some remote ones. Only an attempt
// to write can tell.
const Unknown = math.MaxUint64

// MinFiles is how many files (inodes) must be free before anything is bought: about as many as the first publication
// of all tables creates.
const MinFiles = 128

// FreeSpace returns the number of bytes that an unprivileged user may still write to the disk of dir, or [Unknown].
func FreeSpace(dir string) (uint64, error) {
	st, err := statfs(dir)
	if err != nil || st.Blocks == 0 || uint64(st.Bavail) > Unknown/uint64(st.Bsize) {
		return Unknown, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}

// FreeFiles returns the number of files that may still be created on the disk of dir, or [Unknown]: many file systems
// have no limit.
func FreeFiles(dir string) (uint64, error) {
	st, err := statfs(dir)
	if err != nil || st.Files == 0 {
		return Unknown, err
	}
	return st.Ffree, nil
}

// statfs returns the numbers of a file system; all are 0 if it has none.
func statfs(dir string) (st unix.Statfs_t, err error) {
	err = unix.Statfs(dir, &st)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		return unix.Statfs_t{}, nil
	}
	return st, err
}

// Remedy returns what to do on a disk without space: often many bytes are free, and only the number of files is used up.
func Remedy(dir string) string {
	if files, err := FreeFiles(dir); err == nil && files < MinFiles {
		return fmt.Sprintf("remove some files (%d inodes are free)", files)
	}
	return "free some space"
}

// writeZeros reserves disk space for the file by writing it.
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
