//go:build iceberg

package iceberg

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/sinktest"
)

var suite = sinktest.Sink{
	Open: func(t testing.TB, dir string) sinks.Sink { return openSink(t, dir, "a") },
	Read: func(t testing.TB, dir string, of *schema.Table) []arrow.RecordBatch {
		return readTable(t, dir, "a", of)
	},
}

func options(dir, instance string) Options {
	return Options{
		Catalog: filepath.Join(dir, "catalog.db"), Warehouse: filepath.Join(dir, "lake"), Namespace: "outlierd",
		Instance: instance, Tables: sinktest.Tables(), Ops: sinktest.Ops(), Env: os.LookupEnv,
	}
}

func openSink(t testing.TB, dir, instance string) *Sink {
	t.Helper()
	s, err := Open(t.Context(), options(dir, instance))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readTable reads the rows of a writer by a new sink, so nothing is cached.
func readTable(t testing.TB, dir, instance string, of *schema.Table) (rows []arrow.RecordBatch) {
	t.Helper()
	return readOptions(options(dir, instance))(t, dir, of)
}

// readOptions returns a function that reads the rows of the writer of a lake by a new sink.
func readOptions(o Options) func(t testing.TB, _ string, of *schema.Table) []arrow.RecordBatch {
	return func(t testing.TB, _ string, of *schema.Table) (rows []arrow.RecordBatch) {
		t.Helper()
		s, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		l := s.tables[of]
		if err := l.load(t.Context()); err != nil {
			t.Fatal(err)
		}
		err = l.each(t.Context(), func(some arrow.RecordBatch) error {
			some.Retain()
			rows = append(rows, some)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
}

func TestSinkContract(t *testing.T) { sinktest.Run(t, suite) }

// readAs returns a function that reads the rows of a writer.
func readAs(instance string) func(t testing.TB, dir string, of *schema.Table) []arrow.RecordBatch {
	return func(t testing.TB, dir string, of *schema.Table) []arrow.RecordBatch {
		return readTable(t, dir, instance, of)
	}
}
