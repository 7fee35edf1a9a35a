//go:build duckdb_arrow

package sinks_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"outlierd/sinks"
	"outlierd/sinks/parquet"
	"outlierd/sinks/sinktest"
)

// TestSinkIsReopenedAfterAFailure: first there is a file in the place of the folder, and later the
// folder is removed while the sink is open.
func TestSinkIsReopenedAfterAFailure(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "parquet")
	if err := os.WriteFile(folder, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := sinks.Reopening("parquet", func(context.Context) (sinks.Sink, error) {
		return parquet.Open(parquet.Options{Dir: folder, Tables: sinktest.Tables(), Ops: sinktest.Ops()})
	}, nil)
	defer s.Close()
	if _, err := s.Watermark(t.Context()); err == nil {
		t.Fatal("a file was opened as a folder")
	}
	j := sinktest.Sample(4)
	b := j.Batch(0, 4)
	defer sinktest.Release(b)
	for _, what := range []string{"the file", "the folder"} {
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		if what == "the folder" && s.Publish(t.Context(), sinktest.Runs(3, 5)) == nil {
			t.Fatal("published into a folder that was removed")
		}
		if mark, err := s.Watermark(t.Context()); err != nil || mark != 0 {
			t.Fatalf("watermark %d, %v after %s was removed; want that of a new sink", mark, err, what)
		}
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		publish(t, s, 3)
	}
}
