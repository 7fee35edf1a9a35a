package database

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestTooSmallAddressSpaceIsRefused: DuckDB would seem to hang, or abort the process. A test cannot set the limit,
// since Go needs most of it too.
func TestTooSmallAddressSpaceIsRefused(t *testing.T) {
	for limit, want := range map[uint64]string{
		unix.RLIM_INFINITY: "",
		2_048_000_000:      "",
		1_536_000_000: "the address space is limited to 1464MB (ulimit -v), and 1907MB are needed: raise that limit; " +
			"to limit memory, use a container or OUTLIERD_DUCKDB_MEMORY",
	} {
		err := checkAddressSpace(func(_ int, l *unix.Rlimit) error {
			l.Cur = limit
			return nil
		})
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("a limit of %d bytes: %q, want %q", limit, got, want)
		}
	}
}
