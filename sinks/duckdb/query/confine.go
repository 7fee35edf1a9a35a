package query

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// processMemory is the maximum memory, in bytes, of a process that runs user SQL, including memory that DuckDB does not
// count.
const processMemory = 2 << 30

// processFile is the maximum size of a file that such a process writes, in bytes: a download or a
// temporary file.
const processFile = 2 << 30

// Confine limits the resources of this process: its memory, the size of its files, and its CPU time, which ends it even
// if its parent is gone.
func Confine() error {
	err := errors.Join(
		lowerLimit(unix.RLIMIT_DATA, processMemory),
		lowerLimit(unix.RLIMIT_FSIZE, processFile),
		lowerLimit(unix.RLIMIT_CPU, uint64(2*timeLimit/time.Second)),
	)
	if err != nil {
		return fmt.Errorf("limit the resources of the process that runs SQL: %w", err)
	}
	return nil
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
