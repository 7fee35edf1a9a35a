package database

import (
	"context"
	"fmt"
)

// Write is one that DuckDB has made to a file.
type Write struct{ At, Bytes int64 }

// RecordWrites lets DuckDB keep a record, in memory, of what it writes into files that are attached from now on.
func (db *DB) RecordWrites(ctx context.Context) error {
	if _, err := db.Exec(ctx, "CALL enable_logging('FileSystem', level = 'trace')"); err != nil {
		return fmt.Errorf("let DuckDB record what it writes: %w", err)
	}
	return nil
}

// Written is what DuckDB has written since [DB.RecordWrites] into the file that was attached by this
// path. The record stays: DuckDB 1.5, once told to empty it, no longer records what it writes by
// itself, as at a checkpoint.
func (db *DB) Written(ctx context.Context, path string) ([]Write, error) {
	rows, err := db.Query(ctx, `SELECT pos::BIGINT, bytes::BIGINT FROM duckdb_logs_parsed('FileSystem')
		WHERE op = 'WRITE' AND path = `+Text(path))
	if err != nil {
		return nil, fmt.Errorf("read what DuckDB has written: %w", err)
	}
	writes := make([]Write, len(rows))
	for i, r := range rows {
		writes[i] = Write{At: r[0].(int64), Bytes: r[1].(int64)}
	}
	return writes, nil
}
