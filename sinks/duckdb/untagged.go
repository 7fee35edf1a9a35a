//go:build !duckdb_arrow

package duckdb

import (
	"context"
	"errors"

	"outlierd/sinks"
)

// Sink cannot be had without the build tag.
type Sink struct{ sinks.Sink }

// Open says which build tag is missing.
func Open(context.Context, Options) (*Sink, error) {
	return nil, errors.New("this program cannot write DuckDB files: build with -tags duckdb_arrow")
}
