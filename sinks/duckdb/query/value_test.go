package query

import (
	"database/sql"
	"encoding/json"
	"maps"
	"math/big"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRunConvertsValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.duckdb")
	db, err := sql.Open("duckdb", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	values := map[string]any{
		"null":                                         nil,
		"7::bigint":                                    int64(7),
		"0.5::double":                                  0.5,
		"'-inf'::double":                               "-inf",
		"(select sum(i) from range(4) r(i))":           "6",
		"-12.50::decimal(10,2)":                        json.Number("-12.50"),
		"date '2026-11-21'":                            "2026-11-21",
		"timestamp '2026-11-21'":                       "2026-11-21 00:00:00",
		"timestamptz '2026-11-21 12:00:00+00'":         time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		"time '00:00:01.5'":                            "00:00:01.5",
		"time '24:00:00'":                              "24:00:00",
		"date 'infinity'":                              "infinity",
		"date '-infinity'":                             "-infinity",
		"date '5881580-07-10'":                         "5881580-07-10",
		"date '0044-03-15 (BC)'":                       "0044-03-15 (BC)",
		"timestamp 'infinity'":                         "infinity",
		"timestamp_ns '2026-11-21 00:00:01.000000001'": "2026-11-21 00:00:01.000000001",
		"timestamp_s '-infinity'":                      "-infinity",
		"timestamptz 'infinity'":                       "infinity",
		"timestamptz '-infinity'":                      "-infinity",
		"timestamptz '0045-02-29 (BC) 01:02:03.5+00'":  "0045-02-29 (BC) 01:02:03.5",
		"timestamptz '294246-01-01 00:00:00+00'":       "294246-01-01 00:00:00",
		"uuid '550e8400-e29b-41d4-a716-446655440000'":  "550e8400-e29b-41d4-a716-446655440000",
		`'\xAA'::blob`:                                 []byte{0xaa},
		"time_ns '12:00:00.123456789'":                 "12:00:00.123456789",
		"{'a': 1}::variant":                            "{'a': 1}",
		"'POINT(1 2)'::geometry":                       "POINT (1 2)",
		"'101'::bit":                                   "101",
		"union_value(k := date '2026-11-21')":          "2026-11-21",
		"row(1, 'a')":                                  json.RawMessage(`{"":1,"":"a"}`),
		"map {[1]: 2}":                                 json.RawMessage(`{"[1]":2}`),
		`'{"id": 12345678901234567890}'::json`:         json.RawMessage(`{"id":12345678901234567890}`),
		"[time_ns '12:00:00', null]":                   json.RawMessage(`["12:00:00",null]`),
		"{'on': date '2026-11-21', 'ids': [uuid '550e8400-e29b-41d4-a716-446655440000']}": json.RawMessage(
			`{"on":"2026-11-21","ids":["550e8400-e29b-41d4-a716-446655440000"]}`),
		"[{'a': 0.5::decimal(3,2), 'b': interval 1 day}]": json.RawMessage(`[{"a":0.5,"b":"1 day"}]`),
		"interval '-1 month 30 days'":                     "-1 month 30 days",
		"[1.5, 'nan'::double]":                            "[1.5,NaN]",
	}
	var row []any
	expressions := slices.Collect(maps.Keys(values))
	err = Run(t.Context(), path, "select "+strings.Join(expressions, ", "), nil, func(got []any) error {
		row = slices.Clone(got)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range row {
		if n, ok := got.(*big.Int); ok {
			got = n.String()
		}
		if diff := cmp.Diff(values[expressions[i]], got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", expressions[i], diff)
		}
	}
}

// TestStatementsGiveTheLastResult, as does a PIVOT without values, of which DuckDB makes several statements.
func TestStatementsGiveTheLastResult(t *testing.T) {
	path := publishEmpty(t).Path
	for text, want := range map[string]any{
		"select 1; select 'two' as x":                                 "two",
		"create temp table t as select 'mine' as x; from t; -- ended": "mine",
		"pivot (select 'a' as name, 'v' as x) on name using first(x)": "v",
		"pragma table_info('outliers')":                               nil,
		"explain select 1":                                            nil,
	} {
		var got any
		err := Run(t.Context(), path, text, nil, func(row []any) error { got = row[0]; return nil })
		if err != nil || want != nil && got != want || got == nil {
			t.Errorf("%s: %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"select 1; copy outliers to 'x.csv'", "select 1; export database 'x'", "select 1; attach 'x.duckdb'"} {
		if err := Run(t.Context(), path, text, nil, func([]any) error { return nil }); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}
