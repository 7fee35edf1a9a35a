package database

import (
	"context"
	"errors"
	"fmt"

	"github.com/duckdb/duckdb-go/v2"
)

// Marks are what the writer knows about a file, by name.
type Marks map[string]int64

// The names of the marks: the last answer, the version of the operations tables, the random number of the
// warehouse, the time of its last vacuum, and the hash of the declarations.
const (
	Journal    = "journal"
	Operations = "operations"
	Warehouse  = "warehouse"
	Vacuum     = "vacuum"
	Declared   = "declared"
)

// ErrForeign is the error for a DuckDB file without marks. Files of this program always have them.
var ErrForeign = errors.New("another program made this DuckDB file")

// Marks reads the marks of the file that is attached as warehouse.
func (db *DB) Marks(ctx context.Context) (Marks, error) {
	rows, err := db.Query(ctx, "SELECT name, id FROM warehouse.outlierd.marks")
	if failed, ok := errors.AsType[*duckdb.Error](err); ok &&
		(failed.Type == duckdb.ErrorTypeCatalog || failed.Type == duckdb.ErrorTypeBinder) {
		return nil, ErrForeign
	}
	if err != nil {
		return nil, fmt.Errorf("read the marks of the file: %w", err)
	}
	marks := Marks{}
	for _, row := range rows {
		if name, named := row[0].(string); named {
			marks[name], _ = row[1].(int64)
		}
	}
	if marks[Warehouse] == 0 {
		return nil, ErrForeign
	}
	return marks, nil
}

// ReadMarks reads the marks of a file that is not open for writing.
func ReadMarks(ctx context.Context, path string) (_ Marks, err error) {
	db, err := Open(ctx, Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.Exec(ctx, "ATTACH "+Text(path)+" AS warehouse (READ_ONLY)"); err != nil {
		return nil, err
	}
	return db.Marks(ctx)
}
