package query

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// processMemory is what SQL of the user's may take in a process of its own, with what
// DuckDB does not count.
const processMemory = 1536 << 20

// confine limits this process's memory to what it has and processMemory more, and its
// time on the processor, for the case that whoever started it is gone.
func confine() error {
	held, err := heldMemory()
	if err != nil {
		return err
	}
	if err := lower(unix.RLIMIT_DATA, held+processMemory); err != nil {
		return err
	}
	return lower(unix.RLIMIT_CPU, uint64(2*timeLimit/time.Second))
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
