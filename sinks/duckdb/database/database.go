// Package database starts an embedded DuckDB and declares the tables and views in it, for the
// writer of the published file and for its readers.
package database

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/duckdb/duckdb-go/v2"
	"github.com/duckdb/duckdb-go/v2/mapping"

	"outlierd/internal/machine"
)

// DB is an embedded DuckDB instance. Its main database is in memory. Callers attach the database file
// as "warehouse".
type DB struct {
	connector *duckdb.Connector
	conn      driver.Conn
	limit     string // the setting memory_limit
}

// Options are the resources that DuckDB may use.
type Options struct {
	Memory  int64  // limit of its buffers, in bytes; 0 means [DefaultMemory]
	Threads int    // 0 means 1: most statements are too small to gain from more threads
	Temp    string // folder for data that does not fit into memory; "" means none
}

// DefaultMemory is the default limit of DuckDB's buffers, in bytes.
const DefaultMemory = 56 << 20

// Version returns the version of the embedded DuckDB, such as "v1.5.5".
func Version() string { return mapping.LibraryVersion() }

// Open starts DuckDB. It uses no network and reads no user settings.
func Open(ctx context.Context, o Options) (*DB, error) {
	if err := checkAddressSpace(); err != nil {
		return nil, fmt.Errorf("start DuckDB: %w", err)
	}
	// DuckDB starts with these settings. It would first start a thread per processor of the machine, which may be more
	// than a container allows, and statements that set the others would take time.
	limit := fmt.Sprintf("%dB", cmp.Or(o.Memory, DefaultMemory))
	settings := url.Values{
		"threads": {fmt.Sprint(cmp.Or(o.Threads, 1))}, "memory_limit": {limit}, "temp_directory": {o.Temp}, "checkpoint_threshold": {"1TB"},
		"autoinstall_known_extensions": {"false"}, "autoload_known_extensions": {"false"},
	}
	connector, err := duckdb.NewConnector("?"+settings.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("start DuckDB: %w", err)
	}
	db := &DB{connector: connector, limit: limit}
	if db.conn, err = connector.Connect(ctx); err == nil {
		_, err = db.Exec(ctx, "SET TimeZone = 'UTC'")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start DuckDB: %w", err), db.Close())
	}
	return db, nil
}

// addressSpace is what the process needs at least to start DuckDB, in bytes. Most of it is only reserved.
const addressSpace = 2_000_000_000

// checkAddressSpace returns an error if the process may reserve less. glibc then has no room for the heap of
// DuckDB's thread, and maps each of its allocations by itself: the start takes minutes, and fails or aborts.
func checkAddressSpace() error {
	limit, err := machine.AddressSpace()
	if err != nil || limit >= addressSpace {
		return err
	}
	return fmt.Errorf("the address space is limited to %s (ulimit -v), and %s are needed: raise that limit; "+
		"to limit memory, use a container or OUTLIERD_DUCKDB_MEMORY",
		Megabytes(int64(limit)), Megabytes(addressSpace))
}

// Release returns unused memory to the system. DuckDB does this only when memory_limit is set.
func (db *DB) Release(ctx context.Context) error {
	if _, err := db.Exec(ctx, "SET memory_limit = "+Text(db.limit)); err != nil {
		return fmt.Errorf("release DuckDB's memory: %w", err)
	}
	return nil
}

// Close stops the instance. It rolls back an open transaction.
func (db *DB) Close() error {
	var err error
	if db.conn != nil {
		err = db.conn.Close()
	}
	return errors.Join(err, db.connector.Close())
}

// Exec runs statements and returns the number of rows that the last one changed.
func (db *DB) Exec(ctx context.Context, sql string) (int64, error) {
	result, err := db.conn.(driver.ExecerContext).ExecContext(ctx, sql, nil)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Query returns the rows of a small result.
func (db *DB) Query(ctx context.Context, sql string) (_ [][]driver.Value, err error) {
	rows, err := db.conn.(driver.QueryerContext).QueryContext(ctx, sql, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var all [][]driver.Value
	for {
		row := make([]driver.Value, len(rows.Columns()))
		if err := rows.Next(row); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
}

// Conn returns the connection, for results that are read row by row.
func (db *DB) Conn() driver.Conn { return db.conn }

// Text quotes a value as a SQL literal.
func Text(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Name quotes a SQL identifier.
func Name(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// Names quotes the names of columns, with a prefix such as "t.".
func Names(prefix string, columns []string) string {
	quoted := make([]string, len(columns))
	for i, c := range columns {
		quoted[i] = prefix + Name(c)
	}
	return strings.Join(quoted, ", ")
}

// Same returns the SQL condition that two rows have the same values in columns; NULL equals NULL.
func Same(a, b string, columns []string) string {
	equal := make([]string, len(columns))
	for i, c := range columns {
		equal[i] = a + Name(c) + " IS NOT DISTINCT FROM " + b + Name(c)
	}
	return strings.Join(equal, " AND ")
}
