// Package duckdb writes tables to a DuckDB file that readers never find locked.
//
// The writer's own file is private. It is attached to an instance whose main database is in memory: the
// Arrow views that supply the rows are registered in the main database, and a view that remained in a
// file would crash every query of it. Readers get a finished copy of the private file, which replaces the
// published one by a rename: programs that have the old copy open keep it, and the next open sees the new
// one.
//
// A batch is one transaction: the rows of all tables, and the watermark. There are no primary keys and no
// indexes: they make appending expensive, do not fit into a memory limit, and are what breaks after a
// kill. For the same reason, only Open runs DDL, in a transaction of its own followed by a checkpoint.
package duckdb

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/duckdb/duckdb-go/v2/mapping"

	"outlierd/schema"
)

// Options say where the files are and what DuckDB may use.
type Options struct {
	Private   string // the writer's file
	Published string // the readers' copy
	Temp      string // folder for data that does not fit into memory
	Memory    int64  // maximum of DuckDB's buffers, in bytes; 0 for what the machine or container allows
	Threads   int    // 0 means 1: flushes are small, and more threads only cost more CPU
	Tables    []*schema.Table
	Ops       []*schema.Table // tables of the schema "ops"
	Log       *slog.Logger    // of repairs; nil discards them

	blank   func() *blankFile // content of new files; nil for the embedded one, if it has these tables
	machine func() int64      // memory of the machine or container in bytes; nil means [Memory]
	now     func() time.Time  // nil means time.Now
	first   int64             // initial memory, if available; 0 for the default
	limit   int64             // memory of the instance, once it is started
}

// blankFile is a file with all tables and views but no rows, from which new files are copied. Declaring
// them takes DuckDB a quarter of a second, mostly for the comments of 700 columns.
type blankFile struct {
	content []byte // compressed with zstd
	has     string // fingerprint of its declarations
}

// Version returns the version of the embedded DuckDB, such as "v1.5.5".
func Version() string { return mapping.LibraryVersion() }

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

// What the operator can do about an unusable private file, and about another file at the published path.
const (
	rebuild   = "'outlierd rebuild duckdb' rebuilds it from the journal"
	elsewhere = "move it away, or set another path for the DuckDB sink"
)

// checkFile returns an error if something other than a DuckDB file is at path. A DuckDB file has its
// magic bytes after an 8-byte checksum.
func checkFile(path, remedy string) error {
	info, err := os.Lstat(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at DuckDB file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a DuckDB file but a %s: %s", path, describe(info.Mode()), remedy)
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("look at DuckDB file: %w", err)
	}
	defer f.Close()
	var head [12]byte
	if _, err := f.ReadAt(head[:], 0); err != nil || string(head[8:]) != "DUCK" {
		return fmt.Errorf("%s is not a DuckDB file: %s", path, remedy)
	}
	return nil
}

func describe(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "folder"
	case m&os.ModeSymlink != 0:
		return "symbolic link"
	}
	return "special file"
}
