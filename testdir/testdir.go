// Package testdir keeps the files of tests in memory.
package testdir

import (
	"os"

	"golang.org/x/sys/unix"
)

// InMemory makes this process and its children keep temporary files in memory, those of [testing.T.TempDir]
// included. TestMain calls it in packages whose tests would mostly wait for a disk's syncs, though none of
// them needs data to survive a crash of the machine. It changes nothing if TMPDIR is set, or if the system
// has no room in memory.
func InMemory() {
	const memory, room = "/dev/shm", 1 << 30
	if os.Getenv("TMPDIR") != "" {
		return
	}
	var volume unix.Statfs_t
	if err := unix.Statfs(memory, &volume); err != nil || volume.Bavail*uint64(volume.Bsize) < room {
		return
	}
	if err := os.Setenv("TMPDIR", memory); err != nil {
		panic(err)
	}
}
