//go:build duckdb_arrow

package duckdb

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/sinktest"
)

var suite = sinktest.Sink{
	Open: func(t testing.TB, dir string) sinks.Sink { return open(t, dir) },
	Read: func(t testing.TB, dir string, table *schema.Table) []arrow.RecordBatch {
		var rows []arrow.RecordBatch
		in := reader()
		attach := "ATTACH " + database.Text(filepath.Join(dir, "outliers.duckdb")) + " AS warehouse (READ_ONLY)"
		if _, err := in.Exec(t.Context(), attach); err != nil {
			t.Fatal(err)
		}
		err := in.Records(t.Context(), "SELECT * FROM "+database.TableName(table), func(rec arrow.RecordBatch) {
			rec.Retain()
			rows = append(rows, rec)
		})
		if _, late := in.Exec(t.Context(), "DETACH warehouse"); err != nil || late != nil {
			t.Fatal(err, late)
		}
		return rows
	},
}

// reader reads the tables of the suite. Starting DuckDB takes longer than reading one.
var reader = sync.OnceValue(func() *database.DB {
	db, err := database.Open(context.Background(), database.Options{})
	if err != nil {
		panic(err)
	}
	return db
})

func options(dir string) Options {
	return Options{
		Private:   filepath.Join(dir, "state", "warehouse.duckdb"),
		Published: filepath.Join(dir, "outliers.duckdb"),
		Temp:      filepath.Join(dir, "state", "tmp"),
		Tables:    sinktest.Tables(),
		Ops:       sinktest.Ops(),
		blank:     blankOfSuite,
	}
}

func open(t testing.TB, dir string) *Sink {
	t.Helper()
	s, err := Open(t.Context(), options(dir))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readOnly opens a published file as a reader does.
func readOnly(t testing.TB, path string) *database.DB {
	t.Helper()
	in, err := database.Open(t.Context(), database.Options{Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Exec(t.Context(), "ATTACH "+database.Text(path)+" AS warehouse (READ_ONLY)"); err != nil {
		in.Close()
		t.Fatal(err)
	}
	return in
}

func TestSinkContract(t *testing.T) { sinktest.Run(t, suite) }
