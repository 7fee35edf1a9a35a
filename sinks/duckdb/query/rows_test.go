package query

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// firstRow returns the first row of a result, with "NULL" for nil.
func firstRow(t *testing.T, path, sql string) (row []string) {
	t.Helper()
	got, err := inProcess().First(t.Context(), path, sql, 1)
	if err != nil || len(got.Rows) != 1 {
		t.Fatalf("%s: %+v %v", sql, got, err)
	}
	for _, cell := range got.Rows[0] {
		if cell == nil {
			cell = new("NULL")
		}
		row = append(row, *cell)
	}
	return row
}

func TestFirstRowsAreTexts(t *testing.T) {
	t.Parallel()
	path := publishEmpty(t).Path
	for sql, want := range map[string][]string{
		"select 1, 9223372036854775807, 1.5, true, null, 'x', " +
			"timestamptz '2026-11-23 12:00:00+01', date '2026-11-23' -- a comment": {
			"1", "9223372036854775807", "1.5", "true", "NULL", "x", "2026-11-23T11:00:00Z", "2026-11-23"},
		"select [1, 2], {'a': 'b'}, 'inf'::double, 170141183460469231731687303715884105727, repeat('ä', 1001), '<b>';": {
			"[1,2]", `{"a":"b"}`, "inf", "170141183460469231731687303715884105727", strings.Repeat("ä", 998) + "…", "<b>"},
		"with a as (from (show tables) where name = 'outliers') select name as x, name as x from a": {"outliers", "outliers"},
	} {
		if diff := cmp.Diff(want, firstRow(t, path, sql)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sql, diff)
		}
	}
	for most, more := range map[int]bool{2: true, 3: false} {
		got, err := inProcess().First(t.Context(), path, "select i as n from range(3) as r(i) order by i desc", most)
		if err != nil || got.More != more || len(got.Rows) != min(most, 3) || *got.Rows[0][0] != "2" {
			t.Errorf("at most %d of 3 rows: %+v %v", most, got, err)
		}
		if diff := cmp.Diff([]Field{{"n", "BIGINT"}}, got.Columns); diff != "" {
			t.Errorf("columns (-want +got):\n%s", diff)
		}
	}
}

// TestFirstReadsOnlyTheTables: the SQL may come from a URL that anybody has written. More [mistakes] are played with
// IDs, which are read in the same way.
func TestFirstReadsOnlyTheTables(t *testing.T) {
	path := publishEmpty(t).Path
	folder := filepath.Dir(path)
	before, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	const endless = "select count(*) from range(1000000) a, range(1000000) b, range(1000000) c where hash(a, b, c) = 3"
	limitTime(t, 200*time.Millisecond)
	got, err := inProcess().First(t.Context(), path, endless, 10)
	if err == nil || !strings.Contains(err.Error(), "took longer") {
		t.Errorf("%s: %+v, error %v", endless, got, err)
	}
	limitTime(t, 2*time.Minute)
	for sql, says := range map[string]string{
		"select * from read_text('/etc/passwd')":       "only the published tables",
		"copy outliers to '" + folder + "/stolen.csv'": "only the published tables",
		"export database '" + folder + "/stolen'":      "only the published tables",
		"attach '" + folder + "/other.duckdb'":         "SELECT",
		"insert into outliers (video_id) values ('x')": "SELECT",
		"select 1,\nnosuch from outliers":              "line 2 of the SQL",
		"select len(range(400000000))":                 "more memory than 512MB",
	} {
		got, err := inProcess().First(t.Context(), path, sql, 10)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %+v, error %v, want %q", sql, got, err, says)
		}
	}
	after, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(after) != len(before) {
		t.Errorf("files before %v, and after %v", before, after)
	}
	left, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := inProcess().First(left, path, "select 1", 1); err != context.Canceled {
		t.Errorf("asked by a client that has left: %v", err)
	}
}
