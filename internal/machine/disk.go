// Package machine says what the machine has: free space on its disks, memory, and address space.
package machine

import (
	"errors"
	"math"

	"golang.org/x/sys/unix"
)

// Unknown is the free space of a file system that does not say how much it has, as some remote ones. Only an attempt
// to write can tell.
const Unknown = math.MaxUint64

// FreeSpace returns the number of bytes that an unprivileged user may still write to the disk of dir, or [Unknown].
func FreeSpace(dir string) (uint64, error) {
	st, err := statFileSystem(dir)
	if err != nil || st.Blocks == 0 || uint64(st.Bavail) > Unknown/uint64(st.Bsize) {
		return Unknown, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}

// FreeFiles returns the number of files that may still be created on the disk of dir, or [Unknown]: many file systems
// have no limit.
func FreeFiles(dir string) (uint64, error) {
	st, err := statFileSystem(dir)
	if err != nil || st.Files == 0 {
		return Unknown, err
	}
	return st.Ffree, nil
}

// statFileSystem returns the numbers of a file system; all are 0 if it has none.
func statFileSystem(dir string) (st unix.Statfs_t, err error) {
	err = unix.Statfs(dir, &st)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		return unix.Statfs_t{}, nil
	}
	return st, err
}
