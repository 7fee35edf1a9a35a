//go:build duckdb_arrow

package database_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/sinks/duckdb/database"
)

// private is the memory of this process that is in no file, in bytes.
func private(t *testing.T) (bytes int) {
	t.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if size, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			if _, err := fmt.Sscanf(size, "%d kB", &bytes); err != nil {
				t.Fatal(err)
			}
		}
	}
	return bytes << 10
}

// TestBatchesLeaveNoMemoryBehind: what DuckDB is told of the columns for a batch, and for a view
// that is registered, is freed.
func TestBatchesLeaveNoMemoryBehind(t *testing.T) {
	const columns = 500
	var fields []arrow.Field
	for i := range columns { // more than 100 kB, several times for each view
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("%0100d", i), Type: arrow.PrimitiveTypes.Int64})
	}
	builder := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer builder.Release()
	rows := builder.NewRecordBatch()
	defer rows.Release()
	batch := func(db *database.DB) {
		t.Helper()
		release, err := db.Offer("rows", rows)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		if _, err := db.Exec(t.Context(), fmt.Sprintf(`SELECT count("%0100d") FROM rows`, 0)); err != nil {
			t.Fatal(err)
		}
	}
	open := func() *database.DB {
		t.Helper()
		db, err := database.Open(t.Context(), database.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	one := open()
	defer one.Close()
	for _, c := range []struct {
		what        string
		times, most int // the most kB that each may leave behind
		do          func()
	}{
		{"batches of an instance", 300, 70, func() { batch(one) }},
		{"instances", 30, 250, func() {
			db := open()
			batch(db)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		c.do() // what is kept once
		before := private(t)
		for range c.times {
			c.do()
		}
		if each := (private(t) - before) / c.times >> 10; each > c.most {
			t.Errorf("%d %s leave %d kB behind each, want at most %d", c.times, c.what, each, c.most)
		}
	}
}
