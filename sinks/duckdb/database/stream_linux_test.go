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

// anonymousMemory returns the anonymous resident memory of this process, in bytes.
func anonymousMemory(t *testing.T) (bytes int) {
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

// TestBatchesLeaveNoMemoryBehind: the schemas that DuckDB receives for batches and for views are freed.
// A leak grows with every repetition. Memory that the allocator keeps does not, so the steps are
// repeated up to five times as often before the test fails.
func TestBatchesLeaveNoMemoryBehind(t *testing.T) {
	const columns, most = 100, 100 // most: kB that each may leave behind
	var fields []arrow.Field
	for i := range columns { // 200 kB, several times for each view
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("%02000d", i), Type: arrow.PrimitiveTypes.Int64})
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
		if _, err := db.Exec(t.Context(), fmt.Sprintf(`SELECT count("%02000d") FROM rows`, 0)); err != nil {
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
		what  string
		times int
		do    func()
	}{
		{"batches of an instance", 40, func() { batch(one) }},
		{"instances", 15, func() {
			db := open()
			batch(db)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		c.do() // some memory is kept after the first time
		before, each, done := anonymousMemory(t), 0, 0
		for done < 5*c.times && (done == 0 || each > most) {
			for range c.times {
				c.do()
			}
			done += c.times
			each = (anonymousMemory(t) - before) / done >> 10
		}
		if each > most {
			t.Errorf("%d %s leave %d kB behind each, want at most %d", done, c.what, each, most)
		}
	}
}
