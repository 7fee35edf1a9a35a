//go:build !duckdb_arrow

package duckdb

import (
	"context"
	"errors"

	"outlierd/sinks"
)

// Sink cannot be had without the build tag.
type Sink struct{ sinks.Sink }

var errUntagged = errors.New("this program cannot write or check DuckDB files: build with -tags duckdb_arrow")

// Open says which build tag is missing.
func Open(context.Context, Options) (*Sink, error) { return nil, errUntagged }
