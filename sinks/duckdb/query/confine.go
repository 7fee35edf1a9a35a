package query

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// processMemory is how much memory, in bytes, user SQL may allocate in a process of its own, including
// memory that DuckDB does not count.
const processMemory = 1536 << 20

// processFile is the maximum size of a file that such a process writes, in bytes: a download or a
// temporary file.
const processFile = 2 << 30

// Confine limits the resources of this process: its memory to processMemory more than it has now, the
// size of its files, and its CPU time, which ends it even if its parent is gone.
func Confine() error {
	held, err := dataMemory()
	if err == nil {
		err = errors.Join(
			lowerLimit(unix.RLIMIT_DATA, held+processMemory),
			lowerLimit(unix.RLIMIT_FSIZE, processFile),
			lowerLimit(unix.RLIMIT_CPU, uint64(2*timeLimit/time.Second)),
		)
	}
	if err != nil {
		return fmt.Errorf("limit the resources of the process that runs SQL: %w", err)
	}
	return nil
}

// dataMemory returns the memory that RLIMIT_DATA counts, in bytes.
func dataMemory() (uint64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var size, resident, shared, code, libraries, data uint64
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared, &code, &libraries, &data); err != nil {
		return 0, fmt.Errorf("read /proc/self/statm: %w", err)
	}
	return data * uint64(os.Getpagesize()), nil
}

// lowerLimit lowers the soft and the hard limit of a resource, unless they are lower already.
func lowerLimit(resource int, to uint64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(resource, &limit); err != nil {
		return err
	}
	limit.Max = min(limit.Max, to)
	limit.Cur = min(limit.Cur, limit.Max)
	return unix.Setrlimit(resource, &limit)
}
