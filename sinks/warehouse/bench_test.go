package warehouse_test

import (
	"flag"
	"fmt"
	"syscall"
	"testing"
	"time"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/sinktest"
	"outlierd/sinks/warehouse"
)

// BenchmarkWrite writes batches of 20,000 rows into a new warehouse. cpu-s/10krows is the CPU time of all threads of
// the process.
func BenchmarkWrite(b *testing.B) {
	for _, rows := range []struct {
		name  string
		batch func(lo, hi int64) sinks.Batch
		per   int64 // answers that make 20,000 rows
	}{
		{"hits", sinktest.Hits, 250},
		{"videos", sinktest.Warehouse, 100},
	} {
		b.Run(rows.name, func(b *testing.B) {
			w := whole(b, b.TempDir())
			var spent time.Duration
			var lo, count int64
			for b.Loop() {
				b.StopTimer()
				next := rows.batch(lo, lo+rows.per)
				b.StartTimer()
				spent += write(b, w, next)
				lo = next.Hi
				for _, part := range next.Parts {
					count += part.Rows.NumRows()
				}
				sinktest.Release(next)
			}
			b.ReportMetric(spent.Seconds()/float64(count)*10_000, "cpu-s/10krows")
		})
	}
}

var many = flag.Int("rows", 1_000_000, "how many rows the larger tables of BenchmarkWriteBeside have")

// BenchmarkWriteBeside writes an answer of 40 hits beside many rows. cpu-ms/op counts all threads; of-fewer is the CPU
// time as a multiple of that beside a tenth of the rows.
func BenchmarkWriteBeside(b *testing.B) {
	var fewer time.Duration
	for _, rows := range []int{*many / 10, *many} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			w := whole(b, b.TempDir())
			fill(b, w, rows)
			lo, spent, count := int64(rows/40), time.Duration(0), 0
			flush := func() time.Duration {
				batch := sinktest.Hits(lo, lo+1)
				defer sinktest.Release(batch)
				lo = batch.Hi
				return write(b, w, batch)
			}
			flush() // opens what the later ones find open
			for b.Loop() {
				spent, count = spent+flush(), count+1
			}
			each := spent / time.Duration(count)
			if fewer == 0 {
				fewer = each
			} else {
				b.ReportMetric(float64(each)/float64(fewer), "of-fewer")
			}
			b.ReportMetric(each.Seconds()*1000, "cpu-ms/op")
		})
	}
}

// fill fills the tables of hits.
func fill(b *testing.B, w *warehouse.Warehouse, rows int) {
	b.Helper()
	const columns = `printf('%%011x', hash(i) %% 17592186044416) AS video_id, 'title ' || i AS title, i AS view_count, i // 40 AS _response_id`
	err := w.Run(b.Context(), func(db *database.DB) error {
		_, err := db.Exec(b.Context(), fmt.Sprintf(`INSERT INTO warehouse.main.outliers_history BY NAME
				SELECT `+columns+`, TIMESTAMP '2026-01-01' + to_seconds(i) AS observed_at FROM range(%[1]d) AS r(i);
			INSERT INTO warehouse.main.outliers BY NAME SELECT `+columns+`, i // 40 AS _first_response_id,
				TIMESTAMP '2026-01-01' AS first_seen_at, TIMESTAMP '2026-01-01' AS last_seen_at, 1 AS times_seen FROM range(%[1]d) AS r(i);
			UPDATE warehouse.outlierd.marks SET id = %[2]d WHERE name = 'journal'; CHECKPOINT warehouse`, rows, rows/40))
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

// write returns the CPU time of a Write.
func write(b *testing.B, w *warehouse.Warehouse, batch sinks.Batch) time.Duration {
	b.Helper()
	began := cpu(b)
	if err := w.Write(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
	return cpu(b) - began
}

// whole returns a warehouse with all tables.
func whole(t testing.TB, dir string) *warehouse.Warehouse {
	t.Helper()
	o := sinktest.Options(dir)
	o.Tables = schema.AllTables()
	w := warehouse.New(o)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
