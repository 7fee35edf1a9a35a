package database

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"outlierd/internal/durable"
)

// NewFile has the options of ATTACH for a new file. DuckDB reads it since version 1.4.
//
// With DuckDB's default blocks of 256 kB, the 300 columns of our tables need more memory than their rows:
// each column that is written holds a block in memory, however few rows there are. With blocks of less
// than 64 kB, DuckDB does not pack numbers and times of 8 bytes into fewer bits. With an older storage
// version, each checkpoint writes the metadata of all rows again.
const NewFile = "BLOCK_SIZE 65536, STORAGE_VERSION 'v1.4.0', " + rowGroups

// rowGroups is an option of ATTACH. A checkpoint writes every row group again to which rows were added, so with
// DuckDB's default of 122,880 rows it would write most of a small table each time.
const rowGroups = "ROW_GROUP_SIZE 40960"

// CheckFile returns an error with the remedy if something other than a DuckDB file is at path. A DuckDB file has
// its magic bytes after an 8-byte checksum.
func CheckFile(path, remedy string) error {
	info, err := os.Lstat(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at DuckDB file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: %s", path, remedy)
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("look at DuckDB file: %w", err)
	}
	defer f.Close()
	var head [12]byte
	if _, err := f.ReadAt(head[:], 0); err != nil || string(head[8:]) != "DUCK" {
		return fmt.Errorf("%s is not a DuckDB file: %s", path, remedy)
	}
	return nil
}

// InUse reports whether opening a file failed because another process writes to it.
func InUse(err error) bool { return err != nil && strings.Contains(err.Error(), "Could not set lock") }

// Copy copies a DuckDB file that no program writes to, and of which every block must have its checksum. The copy
// shares the blocks of the file if the file system can do that.
func Copy(from, to string, mode os.FileMode) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := Verify(in); err != nil {
		return err
	}
	if err := Remove(to); err != nil { // of an earlier attempt, maybe read-only
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			err = errors.Join(err, Remove(to))
		}
	}()
	if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) != nil {
		if _, err := in.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
	return errors.Join(out.Chmod(mode), out.Sync())
}

// Replace renames a finished file to the path of another one, and removes the log of that: DuckDB would replay
// it into the new file.
func Replace(from, to string) error {
	if err := Remove(to + ".wal"); err != nil {
		return err
	}
	return durable.Rename(from, to)
}

// Remove removes files that may not exist.
func Remove(paths ...string) error {
	var errs []error
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
