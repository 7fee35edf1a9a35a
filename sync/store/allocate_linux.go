package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate reserves disk space for the file without writing it, if the file system supports that.
func allocate(file *os.File, size int64) error {
	err := unix.Fallocate(int(file.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return writeZeros(file, size)
	}
	return err
}
