package warehouse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"outlierd/internal/machine"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
)

var _ sinks.Warehouse = (*Warehouse)(nil)

// Warehouse is a [sinks.Warehouse]. It opens its file when it is needed, and closes it after an error: what
// was committed is then read from the file.
type Warehouse struct {
	options  Options
	declared func() *database.Declarations
	db       *database.DB // nil while it does not run
	attached bool         // db has the file as "warehouse"
	room     room         // memory of DuckDB; zero before it is first started

	machine func() int64     // memory of the machine or container in bytes
	now     func() time.Time // for the vacuum
}

// New returns a warehouse. It opens nothing yet.
func New(o Options) *Warehouse {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	declare := func() *database.Declarations {
		return database.NewDeclarations(o.Tables, !o.Uncommented)
	}
	return &Warehouse{options: o, declared: sync.OnceValue(declare), machine: machine.Memory, now: time.Now}
}

// Tables returns the tables of the warehouse and of its copies.
func (w *Warehouse) Tables() []*schema.Table { return w.options.Tables }

// Close closes the file. It can be used again afterwards.
func (w *Warehouse) Close() error {
	if w.db == nil {
		return nil
	}
	err := w.db.Close()
	w.db, w.attached = nil, false
	return err
}

// Run runs a step with the open warehouse, in which everything that was written is committed: the file is attached as
// "warehouse". A step must have no effect if it fails. The file is closed after an error. A step that runs out of
// memory is repeated with twice as much. A file that turns out to be damaged is removed: a step must not return such an
// error of another file.
func (w *Warehouse) Run(ctx context.Context, step func(db *database.DB) error) error {
	for {
		err := w.open(ctx)
		if err == nil {
			err = step(w.db)
		}
		if err == nil {
			return nil
		}
		err = errors.Join(err, w.Close())
		switch {
		case database.Damaged(err):
			return errors.Join(err, w.removeDamaged(err))
		case !database.OutOfMemory(err):
			return err
		case !w.room.double():
			return w.room.explain(err, w.machine())
		}
	}
}

// Bytes implements [sinks.Warehouse].
func (w *Warehouse) Bytes() int64 {
	info, err := os.Stat(w.options.Path)
	if err != nil {
		return 0 // it is missing, or the next write says why it cannot be used
	}
	return info.Size()
}

// Marks implements [sinks.Warehouse]. If the file is damaged, the marks are of the one that takes its place.
func (w *Warehouse) Marks(ctx context.Context) (marks sinks.Marks, err error) {
	read := func(db *database.DB) error {
		known, err := db.Marks(ctx)
		marks = known.Marks
		return err
	}
	err = w.Run(ctx, read)
	if database.Damaged(err) {
		err = w.Run(ctx, read)
	}
	return marks, err
}

// ReadMarks reads the marks of a warehouse, or of a published copy, that is not open for writing.
func ReadMarks(ctx context.Context, path string) (sinks.Marks, error) {
	marks, err := database.ReadMarks(ctx, path)
	return marks.Marks, err
}

// open opens the file, unless it is open. It makes the file if there is none, and declares the tables.
func (w *Warehouse) open(ctx context.Context) error {
	if w.attached {
		return nil
	}
	if err := database.CheckFile(w.options.Path, rebuild); err != nil {
		return err
	}
	// The folder of the state is not made: if it was moved, a new one would stand where it is put back.
	if err := os.Mkdir(w.options.Temp, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("folder for temporary files: %w", err)
	}
	if w.room.now == 0 {
		w.room = roomFor(w.machine(), w.Bytes(), w.options.Memory)
	}
	if w.db == nil {
		db, err := database.Open(ctx, database.Options{Memory: w.room.now, Temp: w.options.Temp})
		if err != nil {
			return err
		}
		w.db = db
	}
	if _, err := os.Stat(w.options.Path); os.IsNotExist(err) {
		if err := w.create(ctx); err != nil {
			return fmt.Errorf("create %s: %w", w.options.Path, err)
		}
	}
	if err := w.db.Attach(ctx, w.options.Path); err != nil {
		return explainAttach(w.options.Path, err)
	}
	if err := w.db.Declare(ctx, w.declared(), rebuild); err != nil {
		return fmt.Errorf("%s: %w", w.options.Path, err)
	}
	w.attached = true
	return nil
}

// create makes an empty file. It makes it under another name and renames it, because a process that is killed while
// DuckDB creates a file leaves an unreadable one.
func (w *Warehouse) create(ctx context.Context) error {
	made := w.options.Path + ".new"
	if err := database.Remove(made, made+".wal"); err != nil {
		return err
	}
	if _, err := w.db.Exec(ctx, fmt.Sprintf("ATTACH %s AS made (%s); DETACH made", database.Text(made), database.NewFile)); err != nil {
		return err
	}
	return database.Replace(made, w.options.Path)
}

// removeDamaged removes a damaged file, so that the next open makes it anew.
//
// DuckDB overwrites some blocks of its metadata in place before it writes the header that makes them
// valid. After a kill or a power failure between the parts of such a write, the block's checksum does not
// match and the whole file cannot be opened: about one of 600 kills during a write. No data is lost: the journal has the
// answers, and copies, which are never written that way, have the rows of those that were pruned.
func (w *Warehouse) removeDamaged(damage error) error {
	w.options.Log.Warn("damaged warehouse removed", "file", w.options.Path, "err", damage)
	return database.Remove(w.options.Path, w.options.Path+".wal")
}

var holder = regexp.MustCompile(`Conflicting lock is held in .*?\(PID (\d+)\)`)

// explainAttach returns err with what the operator can do.
func explainAttach(path string, err error) error {
	if database.InUse(err) {
		other := "another program"
		if m := holder.FindStringSubmatch(err.Error()); m != nil {
			other += " (PID " + m[1] + ")"
		}
		return fmt.Errorf("open %s: %s has it open: close that; readers use the published file", path, other)
	}
	if denied := unix.Access(path, unix.R_OK|unix.W_OK); denied != nil {
		return &os.PathError{Op: "open for writing", Path: path, Err: denied} // DuckDB's own message is less clear
	}
	if strings.Contains(err.Error(), "Cannot open file") { // for example: too many open files
		return fmt.Errorf("open %s: %w", path, err)
	}
	return fmt.Errorf("open %s: %w (if the file is damaged or from a newer version: %s)", path, err, rebuild)
}
