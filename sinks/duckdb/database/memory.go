package database

import (
	"errors"
	"fmt"

	"github.com/duckdb/duckdb-go/v2"

	"outlierd/internal/lazyregexp"
)

// outOfMemory matches DuckDB's messages about a lack of memory. Only some of these errors have their own
// type: a failed checkpoint, for example, is a transaction or disk error whose message contains the
// cause.
var outOfMemory = lazyregexp.New(
	`(?i)out of memory|bad[_ ]alloc|(could not|failed to|cannot) (allocate|pin|free up enough memory)`)

// OutOfMemory reports whether err means that DuckDB reached its memory limit.
func OutOfMemory(err error) bool {
	if err == nil {
		return false
	}
	failed, ok := errors.AsType[*duckdb.Error](err)
	return ok && failed.Type == duckdb.ErrorTypeOutOfMemory || outOfMemory().MatchString(err.Error())
}

// damage matches DuckDB's messages about a block with a wrong checksum, and about a file that was cut off. It does not
// match the block at location 0, the main header: that is written once, when the file is created, so a kill cannot
// damage it later. A file of a newer version of DuckDB may cause this message too.
var damage = lazyregexp.New(`Corrupt database file.* in block at location [1-9]|Could not read enough bytes from file`)

// Damaged reports whether err means that DuckDB or [Verify] found a damaged block in a file, such as after a kill.
func Damaged(err error) bool {
	return err != nil && (errors.Is(err, errDamaged) || damage().MatchString(err.Error()))
}

// Megabytes formats a number of bytes for DuckDB's settings, in units of 2^20 bytes: "64MB".
func Megabytes(n int64) string { return fmt.Sprintf("%dMB", n>>20) }
