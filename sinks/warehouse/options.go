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
	"log/slog"

	"outlierd/schema"
)

// Name is the name of the file in the folder of the state.
const Name = "warehouse.duckdb"

// Options say where the file is and what DuckDB may use.
type Options struct {
	Path        string  // of the file
	Older       []Older // copies with rows of answers that the journal may no longer have
	Temp        string  // folder for data that does not fit into memory
	Memory      int64   // maximum of DuckDB's buffers, in bytes; 0 for what the machine or container allows
	Tables      []*schema.Table
	Uncommented bool         // no person reads the file, whose tables then have no comments
	Log         *slog.Logger // of repairs; nil discards them
}

// MemoryVariable is the environment variable that sets [Options.Memory].
const MemoryVariable = "OUTLIERD_DUCKDB_MEMORY"

// rebuild is what the operator can do about an unusable file.
const rebuild = "'outlierd rebuild' makes it again from the journal"
