//go:build duckdb_arrow

package duckdb

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"outlierd/sinks/duckdb/database"
)

// DuckDB uses all the memory that it is given, so a sink begins with little: [database.DefaultMemory]. A
// batch or a checkpoint that does not fit is repeated with twice as much, up to the limit of the machine
// or container. The memory of a step depends on the columns of the widest table, and hardly on the number
// of rows: each column that is written or read holds a block, and so do its NULLs.
const (
	perMB = 64 // MB of the file for which the sink begins with one MB more

	// assumedMemory is the assumed memory of a machine that does not report it.
	assumedMemory = 2 << 30

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

// Memory returns the memory that this process may use, in bytes: the machine's, or a lower limit of the
// container or of a control group above it.
func Memory() int64 { return memoryOf(os.DirFS("/")) }

// memoryOf reads the memory of a machine from the files in root.
func memoryOf(root fs.FS) int64 {
	least := int64(assumedMemory)
	if total := memTotal(root); total > 0 {
		least = total
	}
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(fields) < 3 {
			continue
		}
		switch {
		case fields[0] == "0":
			least = min(least, groupLimit(root, "sys/fs/cgroup", fields[2], "memory.max"),
				groupLimit(root, "sys/fs/cgroup/unified", fields[2], "memory.max"))
		case strings.Contains(","+fields[1]+",", ",memory,"):
			least = min(least, groupLimit(root, "sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes"))
		}
	}
	return least
}

// memTotal returns the machine's memory in bytes; 0 if it is unknown.
func memTotal(root fs.FS) int64 {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var kib int64
		if n, _ := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// groupLimit returns the lowest limit of a control group and its parents. In a container, the path of the
// group may be that on the host, where only the root exists.
func groupLimit(root fs.FS, mount, group, file string) int64 {
	least := int64(math.MaxInt64)
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		text, err := fs.ReadFile(root, path.Join(mount, group, file))
		limit, invalid := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // or "max"
		if err == nil && invalid == nil && limit > 0 {
			least = min(least, limit)
		}
		if group == "/" {
			return least
		}
	}
}

// withRoom runs a step, which must have no effect if it fails. A step that runs out of memory is repeated
// with twice as much, as long as more is available.
func (s *Sink) withRoom(step func() error) error {
	for {
		err := step()
		if !database.OutOfMemory(err) {
			return err
		}
		if s.options.limit >= s.most {
			return s.tooLarge(err)
		}
		if err := s.abandon(nil); err != nil {
			return err
		}
		s.options.limit = min(2*s.options.limit, s.most)
	}
}

// tooLarge adds to an out-of-memory error what the operator can do.
func (s *Sink) tooLarge(err error) error {
	if s.options.Memory > 0 {
		return fmt.Errorf("%w (DuckDB needs more than the %s that %s allows it: set it to %s)",
			err, database.Megabytes(s.most), MemoryVariable, database.Megabytes(2*s.most))
	}
	memory := s.options.machine()
	return fmt.Errorf("%w (DuckDB needs more than %s, which is what it may use of the %s of this machine or "+
		"container: give it %s, or set %s=%s if nothing else needs the memory)",
		err, database.Megabytes(s.most), database.Megabytes(memory), database.Megabytes(2*memory),
		MemoryVariable, database.Megabytes(2*s.most))
}
