// Package duckdb keeps tables in a DuckDB file that readers never find locked.
//
// The writer's own file is private. It is attached to an instance whose main
// database is in memory, because the Arrow views by which rows come in are
// registered in the main database, and a view that stays behind in a file crashes
// whoever selects from it. Readers get a finished copy of that file, swapped in by
// rename: an open copy stays what it was, the next open sees the new one.
//
// A batch is one transaction: the rows of all tables, and the watermark. There are
// no primary keys and no indexes: they make appending dear, do not fit into a
// memory limit, and are what breaks after kills. DDL happens at Open alone, in its
// own transaction and checkpointed, for the same reason.
package duckdb

import (
	"cmp"
	"fmt"
	"os"

	"outlierd/schema"
)

// Options say where the files are and what DuckDB may use.
type Options struct {
	Private     string // the writer's file
	Published   string // the readers' copy
	Temp        string // folder for what does not fit into memory
	MemoryLimit string // of DuckDB's buffers, as it writes sizes; "" means little, and plenty if that does not suffice
	Threads     int    // 0 means 1: flushes are small, and more threads only cost more
	Tables      []*schema.Table
	Ops         []*schema.Table // kept in the schema "ops"
}

// DuckDB fills whatever memory it is given, so it is given little: batches are
// small, and what does not fit goes to the folder for temporary files. A step on
// very large tables can need more at once.
const (
	little = "64MB"
	plenty = "1GB"
)

// hardMemory is what SQL of the user's may take in a process of its own, with what
// DuckDB does not count.
const hardMemory = 1536 << 20

func (o Options) memoryLimit() string { return cmp.Or(o.MemoryLimit, little) }
func (o Options) threads() int        { return cmp.Or(o.Threads, 1) }

// The remedies for a private file that cannot be used, and for what is in the way of
// the published one.
const (
	rebuild   = "move it away, and the next run takes it from the published file; move both away, and it rebuilds them from the journal"
	elsewhere = "move it away, or set another path for the DuckDB sink"
)

// checkFile refuses what is in the way at path, before anything is touched. A
// DuckDB file has its magic bytes after an 8-byte checksum.
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
