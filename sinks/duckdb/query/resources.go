package query

import (
	"fmt"
	"math"
	"path/filepath"
	"runtime"

	"outlierd/internal/lazyregexp"
	"outlierd/internal/machine"
	"outlierd/sinks/duckdb/database"
)

// resources are what DuckDB may use for a query.
type resources struct {
	memory  int64 // limit of its buffers, in bytes
	threads int
	temp    string // folder for data that does not fit into memory; "" means none
}

// memoryLimit returns the limit of DuckDB's buffers for a query, in bytes: most, but at most a third of the memory of
// the machine or container, where a daemon may run, too. Otherwise the kernel would kill one of them.
func memoryLimit(most int64) int64 { return max(database.DefaultMemory, min(most, machineMemory()/3)) }

var machineMemory = machine.Memory // tests replace it

// perThread is the memory for which a query may use one thread more, in bytes. An export has a row group per thread in
// memory.
const perThread = 256 << 20

// resourcesUpTo are at most so many bytes of memory, and a folder.
func resourcesUpTo(memory int64, temp string) resources {
	memory = memoryLimit(memory)
	return resources{memory, max(1, min(runtime.GOMAXPROCS(0), int(memory/perThread))), temp}
}

// personal is for a query of a person: a third of the memory.
const personal = math.MaxInt64

// maxTemp returns the SQL that limits temporary files to half of the free disk space: a query must not leave a daemon
// without any. DuckDB's default is nine tenths.
func (r resources) maxTemp() string {
	free, err := machine.FreeSpace(filepath.Dir(r.temp))
	if r.temp == "" || err != nil || free == machine.Unknown {
		return ""
	}
	return fmt.Sprintf("SET max_temp_directory_size = '%dB'; ", free/2)
}

// noSpace matches DuckDB's messages about a disk without room for temporary files, and noFolder about a folder that it
// cannot make.
var (
	noSpace  = lazyregexp.New(`offload data block|No space left on device|Disk quota exceeded`)
	noFolder = lazyregexp.New(`Failed to create directory`)
)

// explainMemory returns the error for a query that needs more than r, and other errors as they are. DuckDB's own
// message advises settings.
func (r resources) explainMemory(err error) error {
	folder, less := filepath.Dir(r.temp), "make it read fewer rows or columns"
	switch {
	case err == nil:
		return nil
	case r.temp != "" && noSpace().MatchString(err.Error()):
		return fmt.Errorf("the query needs more space for temporary files than half of what is free in %s: %s, "+
			"free space there, or set TMPDIR to a folder on another disk", folder, less)
	case r.temp != "" && noFolder().MatchString(err.Error()):
		return fmt.Errorf("the query needs more memory than %s, and temporary files are not possible in %s: %s, "+
			"or set TMPDIR to a folder that can be written to", database.Megabytes(r.memory), folder, less)
	case database.OutOfMemory(err):
		return fmt.Errorf("the query needs more memory than %s, its limit on this machine: %s, or produce smaller values",
			database.Megabytes(r.memory), less)
	}
	return err
}
