package query

import (
	"database/sql"
	"encoding/json"
	"math"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"github.com/duckdb/duckdb-go/v2"
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
	for expression, want := range map[string]any{
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
		"[{'a': 0.50::decimal(3,2), 'b': interval 1 day}]": []any{map[string]any{"a": json.Number("0.50"), "b": "1 day"}},
	} {
		var got any
		err := Run(t.Context(), path, "select "+expression, func([]string) error { return nil }, func(values []any) error {
			got = values[0]
			return nil
		})
		if n, ok := got.(*big.Int); ok {
			got = n.String()
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v (-want +got):\n%s", expression, err, diff)
		}
	}
}

func TestIntervalsAreValidSQL(t *testing.T) {
	for want, i := range map[string]duckdb.Interval{
		"00:00:00":                 {},
		"1 year 2 months":          {Months: 14},
		"-1 month 30 days":         {Months: -1, Days: 30},
		"1 day 26:03:04.000005":    {Days: 1, Micros: 26*3600e6 + 3*60e6 + 4e6 + 5},
		"-00:00:00.5":              {Micros: -500_000},
		"-2562047788:00:54.775808": {Micros: math.MinInt64},
	} {
		if got := convertInterval(i); got != want {
			t.Errorf("%+v is %q, want %q", i, got, want)
		}
	}
}
