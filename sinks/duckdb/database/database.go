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
	"strings"

	"github.com/duckdb/duckdb-go/v2"
)

// DB is DuckDB in this process. Its main database is in memory; the file that it is about
// is attached as "warehouse".
type DB struct {
	connector *duckdb.Connector
	conn      driver.Conn
	limit     string // of its memory, as a setting

	feeds   map[string]*feed // by the names of their views
	streams []func()         // release what DuckDB reads of the feeds
}

// Options say what DuckDB may use.
type Options struct {
	Memory  int64  // the most that its buffers may take, in bytes; 0 means [DefaultMemory]
	Threads int    // 0 means 1: our steps are small, and more threads only cost more
	Temp    string // folder for what does not fit into memory; "" means none of our choice
}

// DefaultMemory is what DuckDB's buffers may take unless told otherwise, in bytes.
const DefaultMemory = 56 << 20

// Open starts DuckDB. It needs no network and reads no settings of the user's.
func Open(ctx context.Context, o Options) (*DB, error) {
	// As a setting of a later moment, DuckDB would begin with a thread for each processor of the
	// machine, which may be more than a container is allowed, and end them again.
	connector, err := duckdb.NewConnector(fmt.Sprintf("?threads=%d", cmp.Or(o.Threads, 1)), nil)
	if err != nil {
		return nil, fmt.Errorf("start DuckDB: %w", err)
	}
	db := &DB{connector: connector, limit: fmt.Sprintf("%dB", cmp.Or(o.Memory, DefaultMemory))}
	if err := db.connect(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("start DuckDB: %w", err), db.Close())
	}
	return db, nil
}

func (db *DB) connect(ctx context.Context, o Options) (err error) {
	if db.conn, err = db.connector.Connect(ctx); err != nil {
		return err
	}
	_, err = db.Exec(ctx, fmt.Sprintf(`SET autoinstall_known_extensions = false;
		SET autoload_known_extensions = false;
		SET memory_limit = %s;
		SET checkpoint_threshold = '1TB';
		SET temp_directory = %s;
		SET TimeZone = 'UTC'`, Text(db.limit), Text(o.Temp)))
	return err
}

// Release gives memory that is not in use back to the system, which DuckDB does only
// when its limit is set.
func (db *DB) Release(ctx context.Context) error {
	if _, err := db.Exec(ctx, "SET memory_limit = "+Text(db.limit)); err != nil {
		return fmt.Errorf("release DuckDB's memory: %w", err)
	}
	return nil
}

// Close ends the instance; a transaction that is open is rolled back.
func (db *DB) Close() error {
	var err error
	if db.conn != nil {
		err = db.conn.Close()
	}
	err = errors.Join(err, db.connector.Close())
	for _, release := range db.streams {
		release()
	}
	db.feeds, db.streams = nil, nil
	return err
}

// Exec runs statements and counts the rows that the last one changed.
func (db *DB) Exec(ctx context.Context, sql string) (int64, error) {
	result, err := db.conn.(driver.ExecerContext).ExecContext(ctx, sql, nil)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Query reads a small result.
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

// Conn is the connection itself, for results that are read a row at a time.
func (db *DB) Conn() driver.Conn { return db.conn }

// Text quotes a value.
func Text(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Name quotes an identifier.
func Name(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
