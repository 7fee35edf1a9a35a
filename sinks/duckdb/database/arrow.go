//go:build duckdb_arrow

package database

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/duckdb/duckdb-go/v2"
)

// Records reads a large result, a record at a time.
func (db *DB) Records(ctx context.Context, sql string, each func(arrow.RecordBatch)) error {
	conn, err := duckdb.NewArrowFromConn(db.conn)
	if err != nil {
		return err
	}
	reader, err := conn.QueryContext(ctx, sql)
	if err != nil {
		return err
	}
	defer reader.Release()
	for reader.Next() {
		each(reader.RecordBatch())
	}
	return reader.Err()
}

// Offer makes rows readable as a view until release is called: once, for reading it again yields
// nothing and no error. A view that was offered before, with the same columns, takes the new rows.
// A new one must not be offered within a transaction, which could then not write to the warehouse.
func (db *DB) Offer(name string, rows arrow.RecordBatch) (release func(), err error) {
	f := db.feeds[name]
	if f == nil || !f.schema.Equal(rows.Schema()) {
		if f, err = db.feed(name, rows.Schema()); err != nil {
			return nil, err
		}
	}
	f.give(rows)
	return f.take, nil
}

// feed registers a view that shows what it is given. DuckDB never gives back the schema of a view
// that is registered, which takes some 60 KB for the columns of the hits. So a view is registered
// once, and not for each batch.
func (db *DB) feed(name string, schema *arrow.Schema) (*feed, error) {
	conn, err := duckdb.NewArrowFromConn(db.conn)
	if err != nil {
		return nil, err
	}
	f := &feed{schema: schema}
	release, err := conn.RegisterView(f, name)
	if err != nil {
		return nil, err
	}
	if db.feeds == nil {
		db.feeds = map[string]*feed{}
	}
	db.feeds[name] = f
	db.streams = append(db.streams, release)
	return f, nil
}
