package database

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/duckdb/duckdb-go/v2"
)

// starved is how DuckDB says that memory ran out. Only some of these errors have a type
// of their own: a checkpoint that fails is an error of the transaction, or of the disk,
// and the cause stands in its words.
var starved = regexp.MustCompile(`(?i)out of memory|bad[_ ]alloc|(could not|failed to|cannot) (allocate|pin|free up enough memory)`)

// OutOfMemory reports whether DuckDB had too little memory.
func OutOfMemory(err error) bool {
	if err == nil {
		return false
	}
	failed, ok := errors.AsType[*duckdb.Error](err)
	return ok && failed.Type == duckdb.ErrorTypeOutOfMemory || starved.MatchString(err.Error())
}

// torn is how DuckDB says that a block does not have its checksum. The block at location 0 is the
// file's first header, which is written once, when the file is made: no kill tears it later, and
// in a file of a newer version of DuckDB it may look like this.
var torn = regexp.MustCompile(`Corrupt database file.* in block at location [1-9]`)

// Damaged reports whether DuckDB found a block of a file damaged, as a kill may leave it.
func Damaged(err error) bool {
	return err != nil && torn.MatchString(err.Error())
}

// Megabytes writes a number of bytes as DuckDB takes it.
func Megabytes(n int64) string { return fmt.Sprintf("%dMB", n>>20) }
