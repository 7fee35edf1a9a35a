package query

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/machine"
	"outlierd/schema"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/sinktest"
	"outlierd/sinks/warehouse"
)

func TestBindReturnsResultColumns(t *testing.T) {
	columns := map[string][]string{
		"select video_id from outliers where last_seen_at > now() - interval 7 day order by z_score desc limit 5": {"video_id"},
		"select video_id as id, title from main.outliers":                                                         {"id", "title"},
		"with o as (select channel_id from outliers) from o;":                                                     {"channel_id"},
		"-- the best\n(select 1 as a, 2 as b) union all values (3, 4) -- of all":                                  {"a", "b"},
		"select queries, credits_per_new_id from ops.query_yield":                                                 {"queries", "credits_per_new_id"},
		"select day, credits from ops.spend_by_day":                                                               {"day", "credits"},
		"select unnest(queries) from ops.searches where began_at > current_timestamp - interval 1 day":            {"unnest(queries)"},
		"select u as query from ops.searches, unnest(queries) t(u), generate_series(1, 2)":                        {"query"},
		"select count(*) from range(1000000000000)":                                                               {"count_star()"}, // bound, never run
	}
	texts := slices.Collect(maps.Keys(columns))
	for i, bound := range Bind(t.Context(), texts...) {
		var got []string
		for _, f := range bound.Fields {
			got = append(got, f.Name)
		}
		if diff := cmp.Diff(columns[texts[i]], got); diff != "" || bound.Err() != nil {
			t.Errorf("%s: %v (-want +got):\n%s", texts[i], bound.Err(), diff)
		}
	}
}

// mistakes are queries that Bind refuses.
var mistakes = map[string]struct{ sql, want string }{
	"unknown column":   {"select\n  vidoe_id\nfrom outliers", `line 2 of the SQL: Binder Error: Referenced column "vidoe_id" not found in FROM clause! Candidate bindings: "video_id"`},
	"unknown table":    {"select video_id from outlirs", `line 1 of the SQL: Catalog Error: Table with name outlirs does not exist! Did you mean "outliers"?`},
	"unknown function": {"select\n\nnosuch(video_id) from outliers", "line 3 of the SQL: Catalog Error: Scalar Function with name nosuch"},
	"syntax":           {"select video_id\nfrm outliers x", `line 2 of the SQL: Parser Error: syntax error at or near`},
	"table alone":      {"outliers", `line 1 of the SQL: Parser Error: syntax error`},
	"nothing":          {" ", "one SELECT"},
	"comment":          {"-- select 1", "one SELECT"},
	"two statements":   {"select 1; select 2", "one SELECT"},
	"write after read": {"select 1; drop table outliers", "one SELECT"},
	"delete":           {"delete from outliers", "one SELECT"},
	"insert":           {"insert into outliers (video_id) values ('x')", "one SELECT"},
	"drop":             {"drop table outliers", "one SELECT"},
	"export":           {"export database 'out'", "may read only the published tables"},
	"pragma":           {"pragma version", "one SELECT"},
	"set":              {"set enable_external_access = true", "one SELECT"},
	"copy":             {"copy outliers to 'out.csv'", "may read only the published tables"},
	"attach":           {"attach 'other.duckdb'", "one SELECT"},
	"install":          {"install httpfs", "one SELECT"},
	"call":             {"call pragma_version()", "one SELECT"},
	"write in a CTE":   {"with x as (delete from outliers returning *) from x", "A CTE needs a SELECT"},
	"parameter":        {"select $1", "has a parameter"},
	"variable of ours": {"select getenv('HOME')", "getenv does not exist"},
	"file by name":     {"from '/etc/hostname.csv'", "may read only the published tables"},
	"network by name":  {"from 'https://example.com/x.csv'", "may read only the published tables"},
	"file":             {"from read_text('/etc/hostname')", "may read only the published tables"},
	"file in depth":    {"with x as (select 1 as a union all select (select count(*) from (from Read_CSV('/etc/hostname')))) from x", "may read only the published tables"},
	"file, in full":    {"from system.main.read_text('/etc/hostname')", "may read only the published tables"},
	"glob":             {"select 1 from outliers, glob('/*')", "may read only the published tables"},
	"SQL in a text":    {"from query('from read_text(''/etc/hostname'')')", "may read only the published tables"},
	"hostile quotes":   {"select 'it''s; fine', nosuch", "nosuch"},
}

func TestBindRefusesMistakes(t *testing.T) {
	var texts []string
	names := slices.Collect(maps.Keys(mistakes))
	for _, name := range names {
		texts = append(texts, mistakes[name].sql)
	}
	bound := Bind(t.Context(), texts...)
	for i, name := range names {
		t.Run(name, func(t *testing.T) { wantError(t, mistakes[name].want, bound[i].Err) })
	}
}

// open publishes empty tables, and returns what they are a copy of.
func open(t *testing.T, dir string) (*warehouse.Warehouse, *duckdb.Copy) {
	t.Helper()
	o := sinktest.Options(dir)
	o.Tables = schema.AllTables()
	w := warehouse.New(o)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	c := duckdb.New(w, filepath.Join(dir, "outliers.duckdb"), o.Temp)
	if err := c.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w, c
}

// empty is a published file without rows; nil before one was made.
var empty struct {
	sync.Mutex
	content []byte
}

// publishEmpty publishes a file without rows.
func publishEmpty(t *testing.T) IDs {
	t.Helper()
	empty.Lock()
	defer empty.Unlock()
	path := filepath.Join(t.TempDir(), "outliers.duckdb")
	if empty.content != nil {
		if err := os.WriteFile(path, empty.content, 0o444); err != nil {
			t.Fatal(err)
		}
		return IDs{Path: path}
	}
	open(t, filepath.Dir(path))
	var err error
	if empty.content, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return IDs{Path: path}
}

func TestIDsRefuseMistakes(t *testing.T) {
	s := publishEmpty(t)
	for name, c := range mistakes {
		t.Run(name, func(t *testing.T) {
			wantError(t, c.want, func() error { _, err := s.Query(t.Context(), c.sql); return err })
		})
	}
}

// Query is [Process.Query] in this process.
func (s IDs) Query(ctx context.Context, sql string) ([]string, error) {
	return Process{}.Query(ctx, s, sql)
}

func wantError(t *testing.T, want string, try func() error) {
	t.Helper()
	err := try()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q does not say %q in one line", err, want)
	}
}

func TestNothingPublishedMeansNoIDs(t *testing.T) {
	there := publishEmpty(t)
	there.Column = "video_id"
	nowhere := there
	nowhere.Path = filepath.Join(t.TempDir(), "outliers.duckdb")
	for _, s := range []IDs{there, nowhere} {
		got, err := s.Query(t.Context(), "select video_id, z_score from outliers")
		if len(got) != 0 || err != nil {
			t.Errorf("%s: %v, %v", s.Path, got, err)
		}
		for sql, want := range map[string]string{
			"select channel_id, z_score from outliers":   "the SQL returns no column video_id but channel_id, z_score",
			"select vidoe_id from outliers":              "line 1 of the SQL: Binder Error",
			"select video_id from outliers; select true": "one SELECT",
		} {
			wantError(t, want, func() error { _, err := s.Query(t.Context(), sql); return err })
		}
	}
	if left, err := os.ReadDir(filepath.Dir(nowhere.Path)); len(left) > 0 || err != nil {
		t.Errorf("asking left %v behind, %v", left, err)
	}
}

func TestColumnFindsNamedOrOnlyColumn(t *testing.T) {
	for name, c := range map[string]struct {
		columns []string
		want    string
		at      int // -1: none
	}{
		"named":                    {[]string{"z_score", "video_id"}, "video_id", 1},
		"named in capitals":        {[]string{"z_score", "VIDEO_ID"}, "video_id", 1},
		"alone":                    {[]string{"max(video_id)"}, "video_id", 0},
		"alone and none is wanted": {[]string{"a"}, "", 0},
		"first":                    {[]string{"a", "b"}, "", 0},
		"missing":                  {[]string{"a", "b"}, "video_id", -1},
		"no columns":               {nil, "", -1},
	} {
		var fields []Field
		for _, name := range c.columns {
			fields = append(fields, Field{Name: name})
		}
		at, err := Column(fields, c.want)
		if (err != nil) != (c.at < 0) || err == nil && at != c.at {
			t.Errorf("%s: %d, %v", name, at, err)
		}
		if err != nil && len(c.columns) > 0 && !strings.Contains(err.Error(), "no column video_id but a, b: select one column only, or rename the right one: AS video_id") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestColumnRefusesUnsuitableNamesAndTypes(t *testing.T) {
	cases := []struct{ sql, want, refused string }{
		{"select title from outliers", "video_id", "no column video_id but title: select video_id, or title AS video_id if it contains such ids"},
		{"select video_id from outliers", "channel_id", "no column channel_id but video_id: select channel_id"},
		{"select category_id from videos", "channel_id", "no column channel_id but category_id"},
		{"select Query from ops.query_yield, unnest(queries) t(Query)", "video_id", ""},
		{"select title as video_id from outliers", "video_id", ""},
		{"select video_id as id from outliers", "video_id", ""},
		{"select any_value(video_id) from outliers", "video_id", ""},
		{"select author_channel_id from comments", "channel_id", ""},
		{"select count(*) as video_id from outliers", "video_id", "column video_id has type BIGINT, which cannot be a video_id: select the column with the ids, or video_id::VARCHAR AS video_id if it contains them"},
		{"select avg(z_score) from outliers", "video_id", "column avg(z_score) has type DOUBLE"},
		{"select list(video_id) from outliers", "video_id", "contains lists: select unnest(list(video_id))"},
		{"select {'a': video_id} as x from outliers", "video_id", "has type STRUCT(a VARCHAR)"},
		{"select video_id is null as x from outliers", "channel_id", "has type BOOLEAN"},
		{"select z_score from outliers", "", "column z_score has type DOUBLE, which cannot be a text: select z_score::VARCHAR"},
		{"select published_at from outliers", "", "has type TIMESTAMP WITH TIME ZONE"},
		{"select count(*) from outliers", "", ""},
		{"select published_at::date from outliers", "", ""},
		{"select description from videos", "title", ""},
	}
	var texts []string
	for _, c := range cases {
		texts = append(texts, c.sql)
	}
	for i, bound := range Bind(t.Context(), texts...) {
		c := cases[i]
		if err := bound.Err(); err != nil {
			t.Fatal(err)
		}
		_, err := Column(bound.Fields, c.want)
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s for %q: %v, want %q", c.sql, c.want, err, c.refused)
		}
	}
}

func TestIDsAreLosslessTexts(t *testing.T) {
	s := publishEmpty(t)
	for sql, want := range map[string][]string{
		"values ('b'), ('a'), (null), ('b')":                 {"b", "a", "b"},
		"values (9007199254740993), (-1)":                    {"9007199254740993", "-1"},
		"select 18446744073709551615::ubigint":               {"18446744073709551615"},
		"select 170141183460469231731687303715884105727":     {"170141183460469231731687303715884105727"},
		"select 12345678901234567890.50::decimal(22,2)":      {"12345678901234567890.50"},
		"select uuid '550e8400-e29b-41d4-a716-446655440000'": {"550e8400-e29b-41d4-a716-446655440000"},
		"select date '2026-11-21'":                           {"2026-11-21"},
		"select '00123'":                                     {"00123"},
		"select 'v\"1'::enum('v\"1')":                        {`v"1`},
		"select i from range(3) r(i) order by i desc":        {"2", "1", "0"},
		"select 1 where false":                               nil,
	} {
		got, err := s.Query(t.Context(), sql)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", sql, err, diff)
		}
	}
}

// SQL whose results have no text as IDs is refused with a remedy.
func TestIDsRequireText(t *testing.T) {
	s := publishEmpty(t)
	maxValues = 10
	defer func() { maxValues = 100_000 }()
	for sql, want := range map[string]string{
		"select ['a', 'b'] as ids":                   "column ids contains lists: select unnest(ids)",
		"select 1.5::double as id":                   "select id::VARCHAR",
		"select {'a': 1} as id":                      "select id::VARCHAR",
		`select '\xAA'::blob as id`:                  "select id::VARCHAR",
		"select true as id":                          "select id::VARCHAR",
		"from range(11)":                             "more than 10 values: add a LIMIT",
		"select error('it\n went wrong')":            "it went wrong",
		"select i::varchar::date from range(3) r(i)": "Conversion Error",
	} {
		wantError(t, want, func() error { _, err := s.Query(t.Context(), sql); return err })
	}
}

func TestIDsComeFromLatestPublication(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(6)
	w, c := open(t, dir)
	seeds := IDs{Path: filepath.Join(dir, "outliers.duckdb")}
	for lo := int64(0); lo < 6; lo += 3 {
		b := j.Batch(lo, lo+3)
		if err := w.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		sinktest.Release(b)
		if err := c.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := seeds.Query(t.Context(), "select id from outlierd.marks where name = 'journal'")
		if diff := cmp.Diff([]string{string(rune('3' + lo))}, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

func TestDaysAreThoseOfTheZone(t *testing.T) {
	s := publishEmpty(t)
	for _, name := range []string{"Pacific/Kiritimati", "Etc/GMT+12", "UTC"} { // at least two of them have different days
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		s.Zone = zone
		before := time.Now().In(zone).Format(time.DateOnly)
		days, err := s.Query(t.Context(), "values (current_date), (today()), (now()::date), (localtimestamp::date)")
		after := time.Now().In(zone).Format(time.DateOnly)
		other := func(day string) bool { return day != before && day != after }
		if err != nil || len(days) != 4 || slices.ContainsFunc(days, other) {
			t.Errorf("%s: %v, %v, want %s", name, days, err, after)
		}
	}
}

func TestEndlessSQLIsStopped(t *testing.T) {
	s := publishEmpty(t)
	limitTime(t, 200*time.Millisecond)
	const endless = "select i from range(1000000000000000) r(i) where i < 0"
	wantError(t, "took longer than 200ms: make it read fewer rows", func() error { _, err := inProcess().Query(t.Context(), s, endless); return err })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Query(ctx, endless); err == nil || strings.Contains(err.Error(), "longer") {
		t.Errorf("cancelled by the caller: %v", err)
	}
}

func TestIDsMayExceedDefaultMemory(t *testing.T) {
	got, err := publishEmpty(t).Query(t.Context(), "select count(*) from (select i, repeat('x', 100) || i as x from range(600000) r(i) order by x)")
	if diff := cmp.Diff([]string{"600000"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestIDsHaveAMemoryLimit: that of a small machine, where it is reached sooner.
func TestIDsHaveAMemoryLimit(t *testing.T) {
	machineMemory = func() int64 { return 300 << 20 }
	t.Cleanup(func() { machineMemory = machine.Memory })
	s := publishEmpty(t)
	wantError(t, "needs more memory than 100MB", func() error {
		_, err := s.Query(t.Context(), "select len(x) from (select repeat('x', 1000000) || i as x from range(300) r(i) order by x)")
		return err
	})
}

func TestInvalidFileIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outliers.duckdb")
	if err := os.WriteFile(path, []byte("id,title\n1,x\n"), 0o444); err != nil {
		t.Fatal(err)
	}
	wantError(t, path, func() error { _, err := IDs{Path: path}.Query(t.Context(), "select 1"); return err })
}
