package command

import (
	"bytes"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/cmd/outlierd/term"
	"outlierd/sinks/duckdb/query"
)

// newFile returns an empty DuckDB file.
func newFile(t *testing.T) string {
	t.Helper()
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
	return path
}

// printed returns the result of a query as `outlierd sql` prints it.
func printed(t *testing.T, path, format, sql string) string {
	t.Helper()
	return printedAs(t, path, sql, format)[0]
}

// printedAs returns the result of a query in several formats.
func printedAs(t *testing.T, path, sql string, formats ...string) (texts []string) {
	t.Helper()
	outs, printers := make([]bytes.Buffer, len(formats)), make([]term.Printer, len(formats))
	err := query.Run(t.Context(), path, sql, func(columns []string) (err error) {
		for i, format := range formats {
			options := term.Options{Screen: term.DefaultScreen, Zone: time.UTC}
			if printers[i], err = term.NewPrinter(format, &outs[i], options, columns); err != nil {
				return err
			}
		}
		return nil
	}, func(values []any) (err error) {
		for _, p := range printers {
			err = errors.Join(err, p.Row(values))
		}
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	for i, p := range printers {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, outs[i].String())
	}
	return texts
}

// TestEveryTypeOfDuckDBPrints prints a value of each type.
func TestEveryTypeOfDuckDBPrints(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	for value, want := range map[string][3]string{ // table, csv, json
		"null":                               {"NULL", `""`, "null"},
		"true":                               {"true", "true", "true"},
		"-1::tinyint":                        {"-1", "-1", "-1"},
		"255::utinyint":                      {"255", "255", "255"},
		"1::usmallint":                       {"1", "1", "1"},
		"1::uinteger":                        {"1", "1", "1"},
		"(2^53 + 1)::bigint + 0":             {"9007199254740992", "9007199254740992", "9007199254740992"},
		"18446744073709551615::ubigint":      {"18446744073709551615", "18446744073709551615", "18446744073709551615"},
		"(select sum(i) from range(4) r(i))": {"6", "6", "6"}, // a HUGEINT
		"170141183460469231731687303715884105727::hugeint": {
			"170141183460469231731687303715884105727", "170141183460469231731687303715884105727", "170141183460469231731687303715884105727"},
		"12.50::decimal(10,2)":              {"12.50", "12.50", "12.50"},
		"-0.05::decimal(10,2)":              {"-0.05", "-0.05", "-0.05"},
		"0::decimal(10,2)":                  {"0.00", "0.00", "0.00"},
		"7::decimal(10,0)":                  {"7", "7", "7"},
		"0.1::float":                        {"0.1", "0.1", "0.1"},
		"2.0::double":                       {"2", "2", "2"},
		"1/3":                               {"0.3333", "0.3333333333333333", "0.3333333333333333"},
		"12345678901::double":               {"12345678901", "12345678901", "12345678901"},
		"0.00001::double":                   {"1e-05", "0.00001", "0.00001"},
		"1e300":                             {"1e+300", "1e+300", "1e+300"},
		"'nan'::double":                     {"nan", "nan", `"nan"`},
		"'-inf'::float":                     {"-inf", "-inf", `"-inf"`},
		"date '2026-11-21'":                 {"2026-11-21", "2026-11-21", `"2026-11-21"`},
		"time '12:34:56.789'":               {"12:34:56.789", "12:34:56.789", `"12:34:56.789"`},
		"timetz '12:34:56+02'":              {"12:34:56+02", "12:34:56+02", `"12:34:56+02"`},
		"timestamp '2026-11-21'":            {"2026-11-21 00:00:00", "2026-11-21 00:00:00", `"2026-11-21 00:00:00"`},
		"timestamp_s '2026-11-21 12:34:56'": {"2026-11-21 12:34:56", "2026-11-21 12:34:56", `"2026-11-21 12:34:56"`},
		"timestamp_ns '2026-11-21 12:34:56.123456789'":        {"2026-11-21 12:34:56.123456789", "2026-11-21 12:34:56.123456789", `"2026-11-21 12:34:56.123456789"`},
		"timestamptz '2026-11-21 12:34:56.5+02'":              {"2026-11-21 10:34:56Z", "2026-11-21 10:34:56.5Z", `"2026-11-21T10:34:56.5Z"`},
		"timestamptz 'infinity'":                              {"infinity", "infinity", `"infinity"`},
		"interval 14 months + interval 3 days":                {"1 year 2 months 3 days", "1 year 2 months 3 days", `"1 year 2 months 3 days"`},
		"interval '-90.5 seconds'":                            {"-00:01:30.5", "-00:01:30.5", `"-00:01:30.5"`},
		"interval 0 days":                                     {"00:00:00", "00:00:00", `"00:00:00"`},
		"uuid '550e8400-e29b-41d4-a716-446655440000'":         {"550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440000", `"550e8400-e29b-41d4-a716-446655440000"`},
		`'\xAA\x00abc'::blob`:                                 {`\xAA\x00abc`, `\xAA\x00abc`, `"qgBhYmM="`},
		"'101'::bit":                                          {"101", "101", `"101"`},
		"'a'::enum('a', 'b')":                                 {"a", "a", `"a"`},
		"[1, null, 3]":                                        {"[1,null,3]", `"[1,null,3]"`, "[1,null,3]"},
		"[1.5::decimal(3,1), 'nan'::double::varchar::double]": {"[1.5,NaN]", `"[1.5,NaN]"`, `"[1.5,NaN]"`},
		"{'a': 1.50::decimal(3,2), 'b': [interval 1 day]}":    {`{"a":1.5,"b":["1 day"]}`, `"{""a"":1.5,""b"":[""1 day""]}"`, `{"a":1.5,"b":["1 day"]}`},
		"map {'z': 1.0::decimal(2,1), 'a': 2}":                {`{"z":1.0,"a":2.0}`, `"{""z"":1.0,""a"":2.0}"`, `{"z":1.0,"a":2.0}`},
		"union_value(x := 1.5::decimal(2,1))":                 {"1.5", "1.5", `"1.5"`},
		`'{"a": [1, "<&>"]}'::json`:                           {`{"a":[1,"<&>"]}`, `"{""a"":[1,""<&>""]}"`, `{"a":[1,"<&>"]}`},
		"[timestamptz '2026-11-21 12:00:00+00']":              {`["2026-11-21 12:00:00+00"]`, `"[""2026-11-21 12:00:00+00""]"`, `["2026-11-21 12:00:00+00"]`},
	} {
		query := "select " + value + " as v"
		texts := printedAs(t, path, query, "table", "csv", "ndjson")
		got := [3]string{
			strings.TrimSpace(strings.Split(texts[0], "\n")[2]),
			strings.TrimSuffix(strings.TrimPrefix(texts[1], "v\n"), "\n"),
			strings.TrimSuffix(strings.TrimPrefix(texts[2], `{"v":`), "}\n"),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", value, diff)
		}
	}
}

// hostile tries to clear the screen, to set a title (with both of the escape sequences for it), to reverse the
// direction of text and to break the line.
const hostile = `'a' || chr(27) || '[2J' || chr(155) || '0;t' || chr(7) || chr(8238) || 'b' || chr(10) || chr(8232) || 'c' || chr(127)`

func TestHostileTextIsEscaped(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	want := "v\n────────────────\na\ufffd[2J\ufffd0;t\ufffd\ufffdb  c\ufffd\n"
	if diff := cmp.Diff(want, printed(t, path, "table", "select "+hostile+" as v")); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	for query, want := range map[string]string{
		"select " + hostile + " as v":                                           `[{"v":"a\u001b[2J\u009b0;t\u0007\u202eb\n\u2028c\u007f"}]` + "\n",
		"select [" + hostile + "] as v":                                         `[{"v":["a\u001B[2J\u009b0;t\u0007\u202eb\n` + "\u2028" + `c\u007f"]}]` + "\n",
		"pivot (select " + hostile + " as name, 1 as n) on name using first(n)": `[{"a\u001b[2J\u009b0;t\u0007\u202eb\n\u2028c\u007f":1}]` + "\n",
	} {
		if diff := cmp.Diff(want, printed(t, path, "json", query)); diff != "" {
			t.Errorf("json (-want +got):\n%s", diff)
		}
		for line := range strings.SplitSeq(printed(t, path, "table", query), "\n") {
			if line != term.Plain(line) {
				t.Errorf("%s: the table has a line that is not safe for a terminal: %q", query, line)
			}
		}
	}
	// CSV is for programs, and has the text unchanged.
	if got, want := printed(t, path, "csv", "select "+hostile+" as v"), "v\n\"a\x1b[2J\u009b0;t\a\u202eb\n\u2028c\x7f\"\n"; got != want {
		t.Errorf("csv is %q, want %q", got, want)
	}
}

func TestResultsOfSeveralRows(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	const rows = `select * from (values
		('コーヒーの淹れ方', 9, 1.25), ('☕ espresso ⚡', 1200, null), (null, 30, 2.5), ('résumé,"x"', 4, 0.125)) v(title, views, z)`
	for format, want := range map[string]string{
		"table": "" +
			"title             views      z\n" +
			"────────────────  ─────  ─────\n" +
			"コーヒーの淹れ方      9  1.250\n" +
			"☕ espresso ⚡     1200   NULL\n" +
			"NULL                 30  2.500\n" +
			"résumé,\"x\"            4  0.125\n" +
			"(4 rows)\n",
		"csv": "title,views,z\nコーヒーの淹れ方,9,1.250\n☕ espresso ⚡,1200,\n,30,2.500\n\"résumé,\"\"x\"\"\",4,0.125\n",
		"ndjson": `{"title":"コーヒーの淹れ方","views":9,"z":1.250}` + "\n" + `{"title":"☕ espresso ⚡","views":1200,"z":null}` + "\n" +
			`{"title":null,"views":30,"z":2.500}` + "\n" + `{"title":"résumé,\"x\"","views":4,"z":0.125}` + "\n",
		"json": `[{"title":"コーヒーの淹れ方","views":9,"z":1.250},` + "\n" + ` {"title":"☕ espresso ⚡","views":1200,"z":null},` + "\n" +
			` {"title":null,"views":30,"z":2.500},` + "\n" + ` {"title":"résumé,\"x\"","views":4,"z":0.125}]` + "\n",
	} {
		if diff := cmp.Diff(want, printed(t, path, format, rows)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
}

func TestEmptyAndOddResults(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	for _, test := range []struct{ format, query, want string }{
		{"table", "select 1 as a, 'x' as b where false", "a  b\n─  ─\n(0 rows)\n"},
		{"csv", "select 1 as a, 'x' as b where false", "a,b\n"},
		{"json", "select 1 as a where false", "[]\n"},
		{"ndjson", "select 1 as a where false", ""},
		{"csv", "select null as a", "a\n\"\"\n"}, // a blank line would be no row
		{"ndjson", "select 1 as a, 2 as a, 3 as a_1", `{"a":1,"a_1":2,"a_1_1":3}` + "\n"},
		{"ndjson", "select 0; select 1 as a, 2 as a", `{"a":1,"a_1":2}` + "\n"},
		{"table", "select repeat('長', 40) as long, 1 as n", "long" + strings.Repeat(" ", 55) + "  n\n" +
			strings.Repeat("─", 59) + "  ─\n" + strings.Repeat("長", 29) + "…  1\n"},
		{"table", "select repeat('長', 40) as long", "long\n" + strings.Repeat("─", 60) + "\n" + strings.Repeat("長", 40) + "\n"},
	} {
		if diff := cmp.Diff(test.want, printed(t, path, test.format, test.query)); diff != "" {
			t.Errorf("%s as %s (-want +got):\n%s", test.query, test.format, diff)
		}
	}
}

func TestLinesAndMarkdown(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	const rows = `select * from (values ('a | b <i>', 9, null), (repeat('x', 70), 10, ` + hostile + `)) v(title, views, text)`
	for format, want := range map[string]string{
		"line": "title = a | b <i>\nviews = 9\n text = NULL\n\n" +
			"title = " + strings.Repeat("x", 70) + "\nviews = 10\n text = a\ufffd[2J\ufffd0;t\ufffd\ufffdb  c\ufffd\n",
		"markdown": "| title | views | text |\n| --- | --- | --- |\n| a \\| b &lt;i> | 9 |  |\n" +
			"| " + strings.Repeat("x", 70) + " | 10 | a\ufffd\\[2J\ufffd0;t\ufffd\ufffdb  c\ufffd |\n",
	} {
		if diff := cmp.Diff(want, printed(t, path, format, rows)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
}
