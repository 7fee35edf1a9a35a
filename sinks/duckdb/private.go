//go:build duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"outlierd/sinks/duckdb/database"
)

// instance is a running DuckDB of the writer. The private file is attached to it as "warehouse" while it
// is needed.
type instance struct {
	db       *database.DB
	attached bool
	has      string // fingerprint of the declarations, if the file was made from a blank one; else ""

	left        identity // of the private file when it was last detached; zero if it never was
	checkpoints int      // of a long log
}

// maxCheckpoints is how many checkpoints of a long log an instance makes before another one takes its place, which
// costs some 15 ms of CPU. Its memory is given back when the file is detached. What limits the number is the
// record of its writes, which grows.
const maxCheckpoints = 16

// maxLog limits [Sink.longLog], because a log is replayed after a kill.
const maxLog = 64 << 20

// longLog returns the size in bytes at which the write-ahead log of the private file is checkpointed.
// Without this, DuckDB would do it in the middle of a commit: an error would then leave open whether the
// rows are in the file, and memory would hold the batch and the checkpoint together. The rows of the log
// stay in memory until the checkpoint. Data that does not fit then goes to disk, and DuckDB writes each
// of our small blocks to a file of its own: with twice as much log for the same memory, these files cost
// as much as everything else.
func (s *Sink) longLog() int64 { return min(s.options.limit/4, maxLog) }

// newFile has the options of a new file. DuckDB reads it since version 1.4.
//
// With DuckDB's default blocks of 256 kB, the 300 columns of our tables need more memory than their rows:
// each column that is written holds a block in memory, however few rows there are. With blocks of less
// than 64 kB, DuckDB does not pack numbers and times of 8 bytes into fewer bits. With an older storage
// version, each checkpoint writes the metadata of all rows again.
const newFile = "BLOCK_SIZE 65536, STORAGE_VERSION 'v1.4.0'"

// attach opens the private file, and creates it if it does not exist.
func (in *instance) attach(ctx context.Context, path string, blankOf func() *blankFile) error {
	if in.attached {
		return nil
	}
	blank := blankOf()
	made, err := create(path, func(temp string) error {
		if blank != nil {
			return blank.write(temp)
		}
		_, err := in.db.Exec(ctx, fmt.Sprintf("ATTACH %s AS made (%s); DETACH made", database.Text(temp), newFile))
		return err
	})
	if err != nil {
		return err
	}
	if made && blank != nil {
		in.has = blank.has
	}
	if _, err := in.db.Exec(ctx, "ATTACH "+database.Text(path)+" AS warehouse"); err != nil {
		return attachError(path, err)
	}
	in.attached = true
	return nil
}

// create makes the private file if it does not exist, and reports whether it did. It writes under another
// name and renames, because a process that is killed while DuckDB creates a file leaves an unreadable one.
func create(path string, write func(temp string) error) (made bool, err error) {
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		return false, err
	}
	temp := path + ".new"
	err = errors.Join(remove(temp), remove(temp+".wal"))
	if err == nil {
		err = write(temp)
	}
	if err == nil {
		err = remove(path + ".wal") // of a file that was moved away
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		return false, fmt.Errorf("create %s: %w", path, err)
	}
	return true, nil
}

var holder = regexp.MustCompile(`Conflicting lock is held in .*?\(PID (\d+)\)`)

// attachError returns err with what the operator can do.
func attachError(path string, err error) error {
	if m := holder.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("open %s: another program (PID %s) has it open: close that; "+
			"readers use the published file", path, m[1])
	}
	if InUse(err) {
		return fmt.Errorf("open %s: another program has it open: close that; "+
			"readers use the published file: %w", path, err)
	}
	if denied := unix.Access(path, unix.R_OK|unix.W_OK); denied != nil {
		return &os.PathError{Op: "open for writing", Path: path, Err: denied} // DuckDB's own message is less clear
	}
	if strings.Contains(err.Error(), "Cannot open file") { // for example: too many open files
		return fmt.Errorf("open %s: %w", path, err)
	}
	return fmt.Errorf("open %s: %w (if the file is damaged or from a newer version: %s)", path, err, rebuild)
}

// detach checkpoints the private file, so that no log is left beside it, and closes it. That frees most
// of the memory.
func (in *instance) detach(ctx context.Context) error {
	if !in.attached {
		return nil
	}
	if err := in.db.Release(ctx); err != nil {
		return err
	}
	if err := in.db.Checkpoint(ctx); err != nil {
		return err
	}
	if _, err := in.db.Exec(ctx, "DETACH warehouse"); err != nil {
		return fmt.Errorf("detach the warehouse: %w", err)
	}
	in.attached = false
	return in.db.Release(ctx)
}
