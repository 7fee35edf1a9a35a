//go:build !duckdb_arrow

package duckdb

import (
	"context"
	"errors"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/schema"
	"outlierd/sinks"
)

var _ sinks.Sink = (*Sink)(nil)

// Sink does nothing without the build tag. [Open] never returns one.
type Sink struct{}

var errUntagged = errors.New("this program cannot write or check DuckDB files: build with -tags duckdb_arrow")

// Open returns an error that names the missing build tag.
func Open(context.Context, Options) (*Sink, error) { return nil, errUntagged }

// Rebuild returns an error that names the missing build tag.
func Rebuild(context.Context, Options, func(sinks.Sink, string) error) error { return errUntagged }

// Name implements [sinks.Sink].
func (*Sink) Name() string { return "duckdb" }

// Watermark implements [sinks.Sink].
func (*Sink) Watermark(context.Context) (int64, error) { return 0, errUntagged }

// Write implements [sinks.Sink].
func (*Sink) Write(context.Context, sinks.Batch) error { return errUntagged }

// OpsVersion implements [sinks.Sink].
func (*Sink) OpsVersion(context.Context) (int64, error) { return 0, errUntagged }

// Publish implements [sinks.Sink].
func (*Sink) Publish(context.Context, *sinks.Ops) error { return errUntagged }

// Adopt implements [sinks.Adopter].
func (*Sink) Adopt(context.Context, *schema.Table, func(func(arrow.RecordBatch) error) error) error {
	return errUntagged
}

// Close implements [sinks.Sink].
func (*Sink) Close() error { return nil }
