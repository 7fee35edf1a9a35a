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

// instance is DuckDB as the writer uses it: the private file is attached to it as
// "warehouse" while it is needed.
type instance struct {
	db       *database.DB
	attached bool
	has      string // the fingerprint of the declarations that a file made from a blank one has; "" if not known
}

// mostLog bounds [Sink.longLog], since a log is replayed after a kill.
const mostLog = 64 << 20

// longLog is how much log may gather beside the private file before it is folded into it, in bytes.
// DuckDB would do so in the midst of a commit: then an error leaves open whether the rows are in, and
// memory holds both the batch and the checkpoint. The rows of the log are in memory until then. What a
// checkpoint has no room for goes to disk, and blocks as small as ours each into a file of its own:
// with twice as much log for the same memory, these files cost as much as all else.
func (s *Sink) longLog() int64 { return min(s.options.limit/4, mostLog) }

// newFile are the options of a new file, which DuckDB reads since version 1.4.
//
// With DuckDB's blocks of 256 kB, the 300 columns of our tables need more memory than their rows:
// while a column is written it has a block of its own in memory, however few its rows. In a file
// of an older storage version, each checkpoint rewrites the metadata of all rows.
const newFile = "BLOCK_SIZE 32768, STORAGE_VERSION 'v1.4.0'"

// attach opens the private file, creating it if there is none.
func (in *instance) attach(ctx context.Context, path string, blankOf func() *blankFile) error {
	if in.attached {
		return nil
	}
	if err := in.create(ctx, path, blankOf); err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	if _, err := in.db.Exec(ctx, "ATTACH "+database.Text(path)+" AS warehouse"); err != nil {
		return attachError(path, err)
	}
	in.attached = true
	return nil
}

// create makes the private file, if there is none, so that it is there whole or not at
// all: a process that is killed while DuckDB makes a file leaves an unreadable one.
func (in *instance) create(ctx context.Context, path string, blankOf func() *blankFile) error {
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		return err
	}
	temp := path + ".new"
	if err := errors.Join(remove(temp), remove(temp+".wal")); err != nil {
		return err
	}
	var err error
	blank := blankOf()
	if blank != nil {
		err = blank.write(temp)
	} else {
		_, err = in.db.Exec(ctx, fmt.Sprintf("ATTACH %s AS made (%s); DETACH made", database.Text(temp), newFile))
	}
	if err != nil {
		return err
	}
	if err := remove(path + ".wal"); err != nil { // of a file that was moved away
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	if blank != nil {
		in.has = blank.has
	}
	return syncFolder(filepath.Dir(path))
}

var holder = regexp.MustCompile(`Conflicting lock is held in .*?\(PID (\d+)\)`)

// attachError says what the operator can do.
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
		return &os.PathError{Op: "open for writing", Path: path, Err: denied} // which DuckDB says in its own words
	}
	if strings.Contains(err.Error(), "Cannot open file") { // such as: too many open files
		return fmt.Errorf("open %s: %w", path, err)
	}
	return fmt.Errorf("open %s: %w (if the file is damaged or from a newer version: %s)", path, err, rebuild)
}

// detach writes everything into the private file itself, so that no log is beside
// it, and lets go of the file. With it goes most of the memory.
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
