//go:build !duckdb_arrow

package database

import (
	"context"
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
)

// Records returns an error that names the missing build tag.
func (*DB) Records(context.Context, string, func(arrow.RecordBatch)) error {
	return errors.New("this program cannot read DuckDB files as records: build with -tags duckdb_arrow")
}
