package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"outlierd/internal/machine"
)

// MinFree is the free space in bytes that is kept for the next answer, the sinks and other programs.
const MinFree = 256 << 20

// Room returns an error if the next answer might not be kept: a [*LowSpaceError] if there may be
// no space for it, and a [*MovedError] if the state is no longer in its place.
func (f *Folder) Room() error {
	if err := f.InPlace(); err != nil {
		return err
	}
	free, err := f.Free()
	if err != nil {
		return fmt.Errorf("read the free space of %s: %w", f.dir, err)
	}
	if free < f.options.MinFree {
		return &LowSpaceError{Dir: f.dir, Free: free, Need: f.options.MinFree}
	}
	if files, err := machine.FreeFiles(f.dir); err != nil || files < MinFiles {
		return cmp.Or(err, error(&LowSpaceError{Dir: f.dir, Free: files, Need: MinFiles, Files: true}))
	}
	return nil
}

// InPlace returns a [*MovedError] if the state is no longer where the next process looks for it, or if
// another process may use it, because the lock file was deleted or replaced. A file that was moved or deleted
// stays open, so work with it would continue unnoticed.
func (f *Folder) InPlace() error {
	if err := f.findPlace(); err != nil || !f.holds {
		return err
	}
	lock, err := f.lock.Stat()
	if err != nil {
		return err
	}
	return findFile(lockPath(f.dir), lock)
}

// findPlace returns an error if the SQLite file is not in its place.
func (f *Folder) findPlace() error {
	if f.file == nil {
		return nil
	}
	return findFile(f.Path(), f.file)
}

// findFile returns a [*MovedError] if a file that this process has open is not at its path.
func findFile(path string, own os.FileInfo) error {
	found, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(found, own):
		return &MovedError{Path: path}
	case err != nil:
		return fmt.Errorf("find the state: %w", err)
	}
	return nil
}

// Free returns the number of free bytes on the disk.
func (f *Folder) Free() (uint64, error) { return f.options.FreeSpace(f.dir) }

// MinFiles is how many files (inodes) must be free before anything is bought: about as many as the first publication
// of all tables creates.
const MinFiles = 128

// Remedy returns what to do on a disk without space: often many bytes are free, and only the number of files is used
// up.
func Remedy(dir string) string {
	if files, err := machine.FreeFiles(dir); err == nil && files < MinFiles {
		return fmt.Sprintf("remove some files (%d inodes are free)", files)
	}
	return "free some space"
}

// largeFile is the size in bytes that files of the state may at least have. A larger answer is rare.
const largeFile = 32 << 20

// checkFileSize returns an error if the process may not write files that are large enough.
func checkFileSize(dir string) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil || limit.Cur >= largeFile {
		return err
	}
	return fmt.Errorf("files in %s may have at most %d MiB, and %d MiB are required; "+
		"raise the limit of file sizes (ulimit -f)", dir, limit.Cur>>20, largeFile>>20)
}

// Free pages in the file are reused by later writes. If they are more than a share of the file, and
// more than a minimum, some are returned to the disk.
const (
	keptFree   = 10      // a tenth of the file
	littleFree = 4 << 20 // bytes
)

// givenBack is how many pages one step returns. Each may require moving another page.
const givenBack = 256

// Inside describes the free space within the file.
type Inside struct {
	Bytes int64 // of the file
	Free  int64 // of these, unused
}

// toGiveBack reports whether enough is free for some of it to be returned to the disk.
func (i Inside) toGiveBack() bool {
	return i.Free > littleFree && i.Free > i.Bytes/keptFree
}

// ReadInside returns the free space within the file.
func ReadInside(in Reader) (i Inside, err error) {
	_, err = Scan(in, []any{&i.Bytes, &i.Free}, `SELECT page_count * page_size, freelist_count * page_size
		FROM pragma_page_count(), pragma_page_size(), pragma_freelist_count()`)
	return i, err
}

// GiveBack returns some of the free space within the file to the disk, if there is much of it, in
// one short transaction. It reports whether there is more to return. It does not wait for another
// program's lock.
func (s *Store) GiveBack() (more bool, err error) {
	have, err := ReadInside(s)
	if err != nil || !have.toGiveBack() {
		return false, err
	}
	err = s.UpdateWithin(0, func(tx *Tx) error {
		if err := tx.Exec(fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, givenBack)); err != nil {
			return fmt.Errorf("return free space to the disk: %w", err)
		}
		have, err = ReadInside(tx)
		return err
	})
	return have.toGiveBack(), err
}
