package query

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// processMemory is what SQL of the user's may take in a process of its own, with what
// DuckDB does not count.
const processMemory = 1536 << 20

// processFile is how many bytes a file may have that such a process writes: a download, or what
// of it does not fit into memory.
const processFile = 2 << 30

// Confine limits this process's memory to what it has and processMemory more, the size of its
// files, and its time on the processor, in case the process that started it is gone.
func Confine() error {
	held, err := heldMemory()
	if err == nil {
		err = errors.Join(
			lower(unix.RLIMIT_DATA, held+processMemory),
			lower(unix.RLIMIT_FSIZE, processFile),
			lower(unix.RLIMIT_CPU, uint64(2*timeLimit/time.Second)),
		)
	}
	if err != nil {
		return fmt.Errorf("limit the memory of SQL: %w", err)
	}
	return nil
}

// heldMemory is what the limit of data counts, in bytes.
func heldMemory() (uint64, error) {
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

// lower takes a limit down for good, unless it is lower.
func lower(resource int, to uint64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(resource, &limit); err != nil {
		return err
	}
	limit.Max = min(limit.Max, to)
	limit.Cur = min(limit.Cur, limit.Max)
	return unix.Setrlimit(resource, &limit)
}
