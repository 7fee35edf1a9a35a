// Package warehouse computes the tables, in a DuckDB file that only this program opens.
//
// A batch is one transaction: the rows of all tables, and the watermark. What readers see are copies of the
// warehouse, see [sinks.Copy].
//
// There are no primary keys and no indexes: they make appending expensive, do not fit into a memory limit,
// and are what breaks after a kill. For the same reason, DDL is only run when the file is opened, in a
// transaction of its own followed by a checkpoint.
package warehouse

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"outlierd/schema"
)

// Name is the name of the file in the folder of the state.
const Name = "warehouse.duckdb"

// Options say where the file is and what DuckDB may use.
type Options struct {
	Path      string  // of the file
	Published string  // a copy of the file to begin with if that is missing or damaged; "" for none
	Older     []Older // other places with rows to begin with, if there is no such copy
	Temp      string  // folder for data that does not fit into memory
	Memory    int64   // maximum of DuckDB's buffers, in bytes; 0 for what the machine or container allows
	Tables    []*schema.Table
	Ops       []*schema.Table // tables of the schema "ops"
	Log       *slog.Logger    // of repairs; nil discards them
}

// MemoryVariable is the environment variable that sets [Options.Memory].
const MemoryVariable = "OUTLIERD_DUCKDB_MEMORY"

// ParseMemory parses a value of [MemoryVariable], such as 512MB, 2GB or 1TB, and returns it in bytes.
func ParseMemory(text string) (int64, error) {
	number, unit := strings.TrimRight(text, "MGTBmgtb"), int64(1<<20)
	switch strings.ToUpper(text[len(number):]) {
	case "G", "GB":
		unit = 1 << 30
	case "T", "TB":
		unit = 1 << 40
	case "M", "MB":
	default:
		unit = 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil || unit == 0 || n < 1 || n > 1<<20 || n*unit < 32<<20 {
		return 0, fmt.Errorf("%s must be a size of at least 32MB, such as 512MB or 2GB, got %q", MemoryVariable, text)
	}
	return n * unit, nil
}

// rebuild is what the operator can do about an unusable file.
const rebuild = "'outlierd rebuild' makes it again from the journal"
