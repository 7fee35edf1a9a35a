package warehouse

import (
	"cmp"
	"fmt"
	"os"
	"runtime/debug"

	"outlierd/sinks/duckdb/database"
)

// DuckDB uses all the memory that it is given, so the warehouse begins with little: [database.DefaultMemory]. A
// batch or a checkpoint that does not fit is repeated with twice as much, up to the limit of the machine
// or container. The memory of a step depends on the columns of the widest table, and hardly on the number
// of rows: each column that is written or read holds a block, and so do its NULLs.
const (
	perMB = 64 // MB of the file for which DuckDB begins with one MB more

	// otherMemory is what the process needs in addition to DuckDB's buffers and Go's heap: the program's
	// code, and memory that DuckDB does not count.
	otherMemory = 100 << 20
)

// room is how much memory DuckDB may use, in bytes: at first, and at most.
type room struct{ first, most int64 }

// roomFor divides the memory of the machine or container. DuckDB's buffers get half of what Go's heap and
// the program leave: DuckDB needs about as much again outside its buffers, and other programs run too.
func roomFor(memory, file int64) room {
	heap := min(debug.SetMemoryLimit(-1), memory/4)
	most := max(database.DefaultMemory, (memory-heap-otherMemory)/2)
	return room{first: min(database.DefaultMemory+file/perMB, most), most: most}
}

// measureMemory determines how much memory DuckDB may use, unless that is known.
func (w *Warehouse) measureMemory() {
	if w.limit > 0 {
		return
	}
	var size int64
	if info, err := os.Stat(w.options.Path); err == nil {
		size = info.Size()
	}
	r := roomFor(w.machine(), size)
	w.most = cmp.Or(w.options.Memory, r.most)
	w.limit = min(r.first, w.most)
}

// raiseLimit doubles the memory for the next start of DuckDB, and reports whether it could.
func (w *Warehouse) raiseLimit() bool {
	if w.limit >= w.most {
		return false
	}
	w.limit = min(2*w.limit, w.most)
	return true
}

// tooLarge adds to an out-of-memory error what the operator can do.
func (w *Warehouse) tooLarge(err error) error {
	if w.options.Memory > 0 {
		return fmt.Errorf("%w (DuckDB needs more than the %s that %s allows it: set it to %s)",
			err, database.Megabytes(w.most), MemoryVariable, database.Megabytes(2*w.most))
	}
	memory := w.machine()
	return fmt.Errorf("%w (DuckDB needs more than %s, which is what it may use of the %s of this machine or "+
		"container: give it %s, or set %s=%s if nothing else needs the memory)",
		err, database.Megabytes(w.most), database.Megabytes(memory), database.Megabytes(2*memory),
		MemoryVariable, database.Megabytes(2*w.most))
}
