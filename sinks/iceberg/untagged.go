//go:build !iceberg

package iceberg

import (
	"context"
	"errors"

	"outlierd/sinks"
	"outlierd/sinks/warehouse"
)

var errUntagged = errors.New("this program cannot write or check Iceberg tables: build with -tags iceberg")

// Copy is a copy whose methods return an error that names the missing build tag.
type Copy struct{}

// New returns a copy that cannot be used.
func New(*warehouse.Warehouse, Options) Copy { return Copy{} }

// Name implements [sinks.Copy].
func (Copy) Name() string { return "iceberg" }

// Close implements [sinks.Copy].
func (Copy) Close() error { return nil }

// Shows implements [sinks.Copy].
func (Copy) Shows(context.Context) (sinks.Marks, error) { return sinks.Marks{}, errUntagged }

// Publish implements [sinks.Copy].
func (Copy) Publish(context.Context) error { return errUntagged }

// Read returns an error that names the missing build tag.
func Read(context.Context, Options, string) (*Rows, error) { return nil, errUntagged }

// Probe returns an error that names the missing build tag.
func Probe(context.Context, Options) error { return errUntagged }
