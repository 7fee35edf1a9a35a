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
