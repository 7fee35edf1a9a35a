package duckdb

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// local are the file systems of which this kernel knows every reader. On others a machine
// that we cannot see may have the file open.
var local = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, zfs,
}

const zfs = 0x2fc12fc1

// alone reports whether f is the file's only opening on this machine, by whatever program
// or user. While f stays open, another opening waits until it is closed.
//
// That is what a write lease of the kernel is. A lock would not do: programs that copy a
// file take none, and a reader takes one only after it has opened the file.
func alone(f *os.File) bool {
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &stat); err != nil || !slices.Contains(local, int64(stat.Type)) {
		return false
	}
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	return err == nil
}

// stillAlone reports whether nobody has asked for the file since f was [alone].
func stillAlone(f *os.File) bool {
	lease, err := unix.FcntlInt(f.Fd(), unix.F_GETLEASE, 0)
	return err == nil && lease == unix.F_WRLCK
}

// exchange lets two files of a file system exchange their names, so that each name is
// there at any time. If one cannot, or there is no b, a replaces b.
func exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return os.Rename(a, b)
	}
	if err != nil {
		return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
	}
	return nil
}

// clone lets to share the blocks of from, and reports whether the file system can.
func clone(to, from *os.File) bool { return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil }
