//go:build duckdb_arrow

package database

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/duckdb/duckdb-go/v2"
)

// Records runs a query and calls each with the records of its result, one at a time. A record is valid
// until each returns.
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

// Offer makes rows readable as the view name until release is called. They can be read once only: a
// second query finds no rows and returns no error. A view with the same name and columns is reused. A
// new view must not be created within a transaction, because the transaction could then not write to
// the warehouse.
func (db *DB) Offer(name string, rows arrow.RecordBatch) (release func(), err error) {
	f := db.feeds[name]
	if f == nil || !f.schema.Equal(rows.Schema()) {
		if f, err = db.feed(name, rows.Schema()); err != nil {
			return nil, err
		}
	}
	f.set(rows)
	return f.clear, nil
}
