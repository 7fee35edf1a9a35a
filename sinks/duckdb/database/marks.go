package database

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/duckdb/duckdb-go/v2"

	"outlierd/sinks"
)

// Marks are what the writer knows about a file. All are zero if there is no file.
type Marks struct {
	sinks.Marks
	Vacuum   int64 // time of the last vacuum, in Unix seconds
	Declared int64 // hash of the declarations

	// Published is the number of checkpoints of the file when it was last published. A published file of which DuckDB has
	// another number was changed since; see [ReadMarks].
	Published int64
	Changed   bool
}

// The names of the marks in the file.
const (
	Warehouse  = "warehouse"
	Journal    = "journal"
	Operations = "operations"
	Vacuum     = "vacuum"
	Declared   = "declared"
	Omitted    = "omitted"
	Published  = "published"
)

// ErrForeign is the error for a DuckDB file without marks. Files of this program always have them.
var ErrForeign = errors.New("another program made this DuckDB file")

// Marks reads the marks of the file that is attached as warehouse.
func (db *DB) Marks(ctx context.Context) (m Marks, err error) {
	rows, err := db.Query(ctx, "SELECT name, id, text FROM warehouse.outlierd.marks")
	if failed, ok := errors.AsType[*duckdb.Error](err); ok &&
		(failed.Type == duckdb.ErrorTypeCatalog || failed.Type == duckdb.ErrorTypeBinder) {
		return m, ErrForeign
	}
	if err != nil {
		return m, fmt.Errorf("read the marks of the file: %w", err)
	}
	var id int64
	numbers := map[any]*int64{Warehouse: &id, Journal: &m.Answers, Operations: &m.Ops, Vacuum: &m.Vacuum,
		Declared: &m.Declared, Published: &m.Published}
	for _, row := range rows {
		if row[0] == Omitted {
			m.Omitted, _ = row[2].(string)
		} else if number := numbers[row[0]]; number != nil {
			*number, _ = row[1].(int64)
		}
	}
	if id == 0 {
		return Marks{}, ErrForeign
	}
	m.Warehouse = strconv.FormatInt(id, 36)
	return m, nil
}

// ReadMarks reads the marks of a file that is not open for writing. Of a published file they say whether another
// program has changed it.
func ReadMarks(ctx context.Context, path string) (m Marks, err error) {
	db, err := Open(ctx, Options{})
	if err != nil {
		return m, err
	}
	if _, err = db.Exec(ctx, "ATTACH "+Text(path)+" AS warehouse (READ_ONLY)"); err == nil {
		m, err = db.Marks(ctx)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return m, err
	}
	number, err := CountCheckpoints(path)
	log, missing := os.Stat(path + ".wal")
	m.Changed = number != m.Published || missing == nil && log.Size() > 0
	return m, err
}
