//go:build duckdb_arrow

package database

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
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

// Offer makes rows readable as a view, once: reading it again yields nothing and no
// error. It must not be called within a transaction, which could then not write to
// the warehouse.
func (db *DB) Offer(name string, rows arrow.RecordBatch) (release func(), err error) {
	conn, err := duckdb.NewArrowFromConn(db.conn)
	if err != nil {
		return nil, err
	}
	reader, err := array.NewRecordReader(rows.Schema(), []arrow.RecordBatch{rows})
	if err != nil {
		return nil, err
	}
	defer reader.Release()
	return conn.RegisterView(reader, name)
}
