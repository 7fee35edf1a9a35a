//go:build !iceberg

package iceberg

import (
	"context"
	"errors"

	"outlierd/sinks"
	"outlierd/sinks/warehouse"
)

// Copy cannot be used without the build tag iceberg. [Open] never returns one.
type Copy struct{ sinks.Copy }

var errUntagged = errors.New("this program cannot write or check Iceberg tables: build with -tags iceberg")

// Open returns an error that names the missing build tag.
func Open(context.Context, *warehouse.Warehouse, Options) (*Copy, error) { return nil, errUntagged }

// Read returns an error that names the missing build tag.
func Read(context.Context, Options, string) (*Rows, error) { return nil, errUntagged }

// Probe returns an error that names the missing build tag.
func Probe(context.Context, Options) error { return errUntagged }
