package warehouse_test

import (
	"context"
	"testing"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/sinktest"
	"outlierd/sinks/warehouse"
)

func TestTablesFollowTheirKinds(t *testing.T) { sinktest.RunWarehouse(t, open) }

// itself is the warehouse in the place of a copy. The suite of copies runs in package duckdb, whose copy is the same
// file.
type itself struct {
	*warehouse.Warehouse
	shown sinks.Marks
}

func (*itself) Name() string                                 { return "warehouse" }
func (i *itself) Shows(context.Context) (sinks.Marks, error) { return i.shown, nil }
func (i *itself) Publish(ctx context.Context) (err error)    { i.shown, err = i.Marks(ctx); return err }
func (i *itself) Close() error                               { return nil }

func (i *itself) read(t testing.TB, table *schema.Table) (rows []sinktest.Row) {
	t.Helper()
	err := i.Warehouse.Run(t.Context(), func(db *database.DB) error {
		rows = sinktest.Select(t, db, table, database.TableName(table))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func open(_ testing.TB, _ string, w *warehouse.Warehouse) sinktest.Copy {
	i := &itself{Warehouse: w}
	return sinktest.Copy{Copy: i, Read: i.read}
}
