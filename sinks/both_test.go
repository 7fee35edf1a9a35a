//go:build duckdb_arrow

package sinks_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/parquet"
	"outlierd/sinks/sinktest"
)

// TestBothSinksHaveTheSameRows compares the published rows of two sinks by DuckDB, as analysts read
// them. Each sink is also compared with the model, by package sinktest.
func TestBothSinksHaveTheSameRows(t *testing.T) {
	dir := t.TempDir()
	published, folder := filepath.Join(dir, "outliers.duckdb"), filepath.Join(dir, "parquet")
	one, err := duckdb.Open(t.Context(), duckdb.Options{
		Private: filepath.Join(dir, "warehouse.duckdb"), Published: published, Temp: filepath.Join(dir, "tmp"),
		Tables: sinktest.Tables(), Ops: sinktest.Ops(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	other, err := parquet.Open(parquet.Options{Dir: folder, Tables: sinktest.Tables(), Ops: sinktest.Ops()})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	j := sinktest.Sample(40)
	fill(t, one, j, 7)
	fill(t, other, j, 3) // in other batches

	db, err := sql.Open("duckdb", published+"?access_mode=READ_ONLY&threads=1")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, table := range append(sinktest.Tables(), schema.OpsRuns) {
		sameRows(t, db, table, fmt.Sprintf("read_parquet('%s/%s/**/*.parquet', union_by_name = true)", folder, table.FileName()))
	}
}

// fill writes j in batches of the given number of answers, and publishes halfway and at the end.
func fill(t *testing.T, s sinks.Sink, j sinktest.Journal, answers int64) {
	t.Helper()
	end := int64(len(j))
	for lo := int64(0); lo < end; lo += answers {
		b := j.Batch(lo, min(lo+answers, end))
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		sinktest.Release(b)
		if lo < end/2 && b.Hi < end/2 && b.Hi+answers >= end/2 {
			publish(t, s, 3)
		}
	}
	publish(t, s, 9)
}

func publish(t *testing.T, s sinks.Sink, hi int64) {
	t.Helper()
	version, err := s.OpsVersion(t.Context())
	if err == nil {
		err = s.Publish(t.Context(), sinktest.Runs(version, hi))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sameRows checks that a published table in db and its Parquet files have the same rows.
func sameRows(t *testing.T, db *sql.DB, table *schema.Table, files string) {
	t.Helper()
	var columns []string
	for _, f := range table.Stored().Fields() {
		columns = append(columns, `"`+f.Name+`"`)
	}
	list := strings.Join(columns, ", ")
	for _, c := range table.Columns {
		if c.JSON {
			list = strings.Replace(list, `"`+c.Name+`"`, `"`+c.Name+`"::VARCHAR`, 1)
		}
	}
	inFile, inFolder := "SELECT "+list+" FROM "+table.Name, "SELECT "+list+" FROM "+files
	var rows, missing, surplus int
	err := db.QueryRowContext(t.Context(), fmt.Sprintf(`SELECT (SELECT count(*) FROM (%s)),
		(SELECT count(*) FROM (%[1]s EXCEPT ALL %s)), (SELECT count(*) FROM (%[2]s EXCEPT ALL %[1]s))`, inFile, inFolder)).Scan(&rows, &missing, &surplus)
	if err != nil {
		t.Fatalf("table %s: %v", table.Name, err)
	}
	if rows == 0 || missing > 0 || surplus > 0 {
		t.Errorf("table %s: of %d rows in DuckDB %d are not in Parquet, and %d others are", table.Name, rows, missing, surplus)
	}
}
