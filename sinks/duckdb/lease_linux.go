package duckdb

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// local lists the file systems for which this kernel knows all open files. A file on another one may be
// open on another machine.
var local = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, zfs,
}

const zfs = 0x2fc12fc1

// lease takes the kernel's write lease on f, and reports whether it was granted: only if no program
// of any user has the file open elsewhere. As long as f is open, a program that opens the file waits.
//
// A lock would not do: programs that copy files take none, and DuckDB takes one only after it has
// opened the file.
func lease(f *os.File) bool {
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &stat); err != nil || !slices.Contains(local, int64(stat.Type)) {
		return false
	}
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	return err == nil
}

// leased reports whether the [lease] on f is still held. The kernel breaks it after 45 seconds if
// another program waits.
func leased(f *os.File) bool {
	kind, err := unix.FcntlInt(f.Fd(), unix.F_GETLEASE, 0)
	return err == nil && kind == unix.F_WRLCK
}

// exchange exchanges the names of two files atomically. If the file system does not support that,
// or there is no b, a replaces b.
func exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) ||
		errors.Is(err, unix.EOPNOTSUPP) {
		return os.Rename(a, b)
	}
	if err != nil {
		return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
	}
	return nil
}

// clone makes to a copy of from that shares its blocks, and reports whether the file system can.
func clone(to, from *os.File) bool { return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil }
