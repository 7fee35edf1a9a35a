package warehouse

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"outlierd/sinks/duckdb/database"
)

// DuckDB uses all the memory that it is given, so the warehouse begins with little. A
// batch or a checkpoint that does not fit is repeated with twice as much, up to the limit of the machine
// or container. The memory of a step depends on the columns of the tables, and hardly on the number
// of rows: each column that is written or read holds a block, and so do its NULLs.
const (
	// firstMemory has room for a batch with rows of all tables. With half of it, DuckDB would write their blocks to
	// files and read them again, which takes as long as everything else.
	firstMemory = 96 << 20

	perMB = 64 // MB of the file for which DuckDB begins with one MB more

	// otherMemory is what the process needs in addition to DuckDB's buffers and Go's heap: the program's
	// code, and memory that DuckDB does not count.
	otherMemory = 100 << 20
)

// room is how much memory DuckDB may use, in bytes: now, and at most.
type room struct{ now, most int64 }

// roomFor divides the memory of the machine or container. DuckDB's buffers get half of what Go's heap and
// the program leave: DuckDB needs about as much again outside its buffers, and other programs run too.
// setting is another maximum; 0 for none.
func roomFor(memory, file, setting int64) room {
	heap := min(debug.SetMemoryLimit(-1), memory/4)
	most := cmp.Or(setting, max(database.DefaultMemory, (memory-heap-otherMemory)/2))
	return room{now: min(firstMemory+file/perMB, most), most: most}
}

// double doubles the memory for the next start of DuckDB, and reports whether it could.
func (r *room) double() bool {
	if r.now >= r.most {
		return false
	}
	r.now = min(2*r.now, r.most)
	return true
}

// explain adds to an out-of-memory error what the operator can do.
func (r *room) explain(err error, memory int64) error {
	return fmt.Errorf("%w (DuckDB needs more than %s, which is what it may use of the %s of this machine or "+
		"container: give it more, or set %s=%s if nothing else needs the memory)",
		err, database.Megabytes(r.most), database.Megabytes(memory), MemoryVariable, database.Megabytes(2*r.most))
}
