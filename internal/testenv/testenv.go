// Package testenv makes tests use fewer resources.
package testenv

import (
	"os"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"
)

// Prepare makes this process and its children keep temporary files in memory, those of [testing.T.TempDir]
// included, and lets the heap of this process grow as in a run of the program. TestMain calls it in packages whose
// tests would mostly wait for a disk's syncs, though none of them needs data to survive a crash of the machine, or
// would mostly collect garbage. TMPDIR and GOGC override it, and files stay on disk if memory has no room.
func Prepare() {
	const gcPercent = 400
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
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

// RacesLittle skips a test in short mode, which is used with the race detector: it does one thing after the other, and
// takes long there.
func RacesLittle(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one thing after the other; the ordinary run does it")
	}
}
