//go:build !duckdb_arrow

package duckdb

import (
	"context"
	"errors"

	"outlierd/schema"
	"outlierd/sinks"
)

// Sink cannot be had without the build tag.
type Sink struct{ sinks.Sink }

var errUntagged = errors.New("this program cannot write or check DuckDB files: build with -tags duckdb_arrow")

// Open says which build tag is missing.
func Open(context.Context, Options) (*Sink, error) { return nil, errUntagged }

// Bind says which build tag is missing.
func Bind(context.Context, string, []*schema.Table, []*schema.Table) ([]Field, error) {
	return nil, errUntagged
}

// Query says which build tag is missing.
func (Seeds) Query(context.Context, string) ([]string, error) { return nil, errUntagged }
