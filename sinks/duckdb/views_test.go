package duckdb_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/duckdb/query"
	"outlierd/sinks/sinktest"
	"outlierd/sinks/warehouse"
)

// whole are the options of a warehouse with every table of the program, and thus the views.
func whole(dir string) warehouse.Options {
	o := sinktest.Options(dir)
	o.Tables = schema.AllTables()
	return o
}

// openWhole opens a line with the tables and views of the program.
func openWhole(t testing.TB, dir string) *sinktest.Line {
	t.Helper()
	return openWith(t, dir, whole(dir))
}

// openCommented is openWhole with the comments.
func openCommented(t testing.TB, dir string) *sinktest.Line {
	t.Helper()
	o := whole(dir)
	o.Uncommented = false
	return openWith(t, dir, o)
}

func openWith(t testing.TB, dir string, o warehouse.Options) *sinktest.Line {
	t.Helper()
	l := sinktest.Open(openCopy).With(t, dir, o)
	t.Cleanup(func() { l.Close(t) })
	return l
}

// view is one of the views that the files hold.
func view(t *testing.T, name string) database.View {
	t.Helper()
	views := database.Views()
	i := slices.IndexFunc(views, func(v database.View) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("there is no view %s", name)
	}
	return views[i]
}

// tell publishes rows of operations tables, which get the ids 1, 2, 3 …
func tell(t *testing.T, l *sinktest.Line, told map[*schema.Table][]sinktest.Row) {
	t.Helper()
	for _, rows := range told {
		for i := range rows {
			rows[i]["id"] = int64(i + 1)
		}
	}
	ops := sinktest.Changes(0, 2, nil, told, 1000)
	for _, table := range schema.OpsTables() {
		ops.From[table.Name] = 0
	}
	l.WriteOps(t, ops)
	l.Publish(t)
}

// writeAndPublish writes a batch, and publishes it.
func writeAndPublish(t testing.TB, l *sinktest.Line, b sinks.Batch) {
	t.Helper()
	defer sinktest.Release(b)
	if err := l.Warehouse.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	l.Publish(t)
}

// results reads a result from the published file, by column.
func results(t *testing.T, dir, sql string) []sinktest.Row {
	t.Helper()
	var names []string
	var all []sinktest.Row
	err := query.Run(t.Context(), filepath.Join(dir, "outliers.duckdb"), sql, func(columns []string) error {
		names = columns
		return nil
	}, func(values []any) error {
		row := sinktest.Row{}
		for i, v := range values {
			row[names[i]] = v
		}
		all = append(all, row)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// query_yield has the hits that each query brought, and its credits.
func TestQueryYieldCountsHitsAndCredits(t *testing.T) {
	type row = sinktest.Row
	dir := t.TempDir()
	s := openWhole(t, dir)
	hit := func(table *schema.Table, job, query, id string) row {
		return row{table.Key[0]: id, "_job": job, "queries": []any{query}, "item": query, "_response_id": int64(1), "observed_at": time.Unix(0, 0).UTC()}
	}
	var videos []row
	for _, h := range [][3]string{
		{"coffee", "moka", "a"}, {"coffee", "moka", "b"}, {"coffee", "moka", "a"}, // again, in a later run
		{"coffee", "latte", "b"}, {"coffee", "latte", "c"}, {"coffee", "latte", "d"},
		{"tea", "latte", "d"},
	} {
		videos = append(videos, hit(schema.OutliersHistory, h[0], h[1], h[2]))
	}
	batch := sinks.Batch{Lo: 0, Hi: 1, Parts: []schema.Part{
		{Table: schema.OutliersHistory, Rows: sinktest.Record(schema.OutliersHistory.Schema(), videos)},
		{Table: schema.FoundChannelsHistory, Rows: sinktest.Record(schema.FoundChannelsHistory.Schema(),
			[]row{hit(schema.FoundChannelsHistory, "channels", "moka", "x")})},
	}}
	writeAndPublish(t, s, batch)
	search := func(job, op, query string, pages, credits, hits, fresh int64) row {
		return row{"run_id": "r", "job": job, "operation": op, "queries": []any{query}, "item": query,
			"pages": pages, "credits": credits, "hits": hits, "new_hits": fresh}
	}
	tell(t, s, map[*schema.Table][]row{schema.OpsSearches: {
		search("coffee", "search", "moka", 1, 2, 2, 2), search("coffee", "search", "moka", 1, 2, 1, 0),
		search("coffee", "search", "latte", 2, 4, 3, 2), search("tea", "search", "latte", 1, 2, 1, 0),
		search("channels", "find_channels", "moka", 1, 5, 1, 1), search("reuses", "search", "moka", 1, 0, 2, 0),
	}})
	brought := func(job, op, query string, searches, pages, credits, hits, fresh int64, ids, shared, price any) row {
		return row{"job": job, "operation": op, "queries": json.RawMessage(`["` + query + `"]`), "seeds": nil, "item": query, "searches": searches, "pages": pages,
			"credits": credits, "hits": hits, "new_ids": fresh, "ids": ids, "shared_ids": shared, "credits_per_new_id": price}
	}
	want := []row{
		brought("channels", "find_channels", "moka", 1, 1, 5, 1, 1, int64(1), int64(0), 5.0),
		brought("coffee", "search", "latte", 1, 2, 4, 3, 2, int64(3), int64(2), 2.0),
		brought("coffee", "search", "moka", 2, 2, 4, 3, 2, int64(2), int64(1), 2.0),
		brought("reuses", "search", "moka", 1, 1, 0, 2, 0, nil, nil, nil),
		brought("tea", "search", "latte", 1, 1, 2, 1, 0, int64(1), int64(1), nil),
	}
	if diff := cmp.Diff(want, results(t, dir, "FROM ops.query_yield ORDER BY job, item")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSpendByDaySumsLedger, and keeps adjustments apart.
func TestSpendByDaySumsLedger(t *testing.T) {
	const month, day, next = "2026-12-14", "2026-12-21", "2026-12-22"
	dir := t.TempDir()
	tell(t, openWhole(t, dir), map[*schema.Table][]sinktest.Row{schema.OpsCredits: {
		spending("2026-10-14", "2026-11-12", "spent", 2, int64(50)), spending("2026-10-14", "2026-11-12", "refunded", 2, int64(50)),
		spending("2026-10-14", "2026-11-12", "unknown", 50, int64(60)),
		spending("2026-10-14", "2026-11-13", "spent", 2, nil),
		spending("2026-11-14", "2026-11-14", "reserved", 5, nil),
		spending(month, day, "spent", 2, int64(50)), spending(month, day, "spent", 10, int64(50)),
		adjusting(month, day, -20), // after the last call: it knows no caps
		adjusting(month, next, 7), adjusting(month, next, 1),
	}})
	want := []sinktest.Row{
		{"month": "2026-10-14", "day": "2026-11-12", "reservations": int64(3), "credits": int64(52), "spent": int64(2), "unknown": int64(50),
			"reserved": int64(0), "refunded": int64(2), "adjusted": int64(0), "credits_in_month": int64(52), "adjusted_in_month": int64(0),
			"cap_day": int64(60), "cap_month": int64(400)},
		{"month": "2026-10-14", "day": "2026-11-13", "reservations": int64(1), "credits": int64(2), "spent": int64(2), "unknown": int64(0),
			"reserved": int64(0), "refunded": int64(0), "adjusted": int64(0), "credits_in_month": int64(54), "adjusted_in_month": int64(0),
			"cap_day": nil, "cap_month": int64(400)},
		{"month": "2026-11-14", "day": "2026-11-14", "reservations": int64(1), "credits": int64(5), "spent": int64(0), "unknown": int64(0),
			"reserved": int64(5), "refunded": int64(0), "adjusted": int64(0), "credits_in_month": int64(5), "adjusted_in_month": int64(0),
			"cap_day": nil, "cap_month": int64(400)},
		{"month": month, "day": day, "reservations": int64(2), "credits": int64(12), "spent": int64(12), "unknown": int64(0),
			"reserved": int64(0), "refunded": int64(0), "adjusted": int64(-20), "credits_in_month": int64(12), "adjusted_in_month": int64(-20),
			"cap_day": int64(50), "cap_month": int64(400)},
		{"month": month, "day": next, "reservations": int64(0), "credits": int64(0), "spent": int64(0), "unknown": int64(0),
			"reserved": int64(0), "refunded": int64(0), "adjusted": int64(8), "credits_in_month": int64(12), "adjusted_in_month": int64(-12),
			"cap_day": nil, "cap_month": nil},
	}
	if diff := cmp.Diff(want, results(t, dir, "FROM ops.spend_by_day ORDER BY day")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// spending is a paid call in the ledger.
func spending(month, day, outcome string, price int64, capDay any) sinktest.Row {
	row := sinktest.Row{"month": month, "day": day, "operation": "search", "outcome": outcome, "price": price, "cap_month": int64(400)}
	if capDay != nil {
		row["cap_day"] = capDay
	}
	return row
}

// adjusting is an adjustment in the ledger.
func adjusting(month, day string, price int64) sinktest.Row {
	return sinktest.Row{"month": month, "day": day, "operation": "adjustment", "outcome": "spent", "price": price}
}

// checkComments checks that every column of a published file has a comment, in tables and views alike.
func checkComments(t *testing.T, dir string) {
	t.Helper()
	got := results(t, dir, `SELECT table_name || '.' || column_name AS name FROM duckdb_columns() WHERE NOT internal AND coalesce(comment, '') = ''
		UNION SELECT table_name FROM duckdb_tables() WHERE coalesce(comment, '') = ''
		UNION SELECT view_name FROM duckdb_views() WHERE NOT internal AND coalesce(comment, '') = '' ORDER BY 1`)
	if len(got) > 0 {
		t.Errorf("%d have none: %v", len(got), got)
	}
	columns := results(t, dir, `SELECT v.schema_name || '.' || view_name AS view, list(c.column_name ORDER BY c.column_index) AS columns
		FROM duckdb_views() AS v JOIN duckdb_columns() AS c ON c.table_oid = v.view_oid WHERE NOT v.internal GROUP BY ALL`)
	for _, v := range database.Views() {
		var declared []string
		for _, c := range v.Columns {
			declared = append(declared, c.Name)
		}
		names, err := json.Marshal(declared)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(columns, func(r sinktest.Row) bool {
			return r["view"] == v.Name && cmp.Equal(r["columns"], any(json.RawMessage(names)))
		}) {
			t.Errorf("the columns of %s are declared as %s, and are not in %v", v.Name, names, columns)
		}
	}
}

func TestViewsAreBroughtToTheirDefinition(t *testing.T) {
	changes := map[string]string{
		"ops.query_yield":  "DROP VIEW %s",
		"ops.spend_by_day": "CREATE OR REPLACE VIEW %s AS SELECT 1 AS one",
		"ops.coverage":     "COMMENT ON VIEW %s IS 'of an earlier version'",
		"main.growth":      "COMMENT ON COLUMN %s.video_id IS NULL",
		"main.weekly_top":  "COMMENT ON VIEW %s IS NULL",
	}
	dir := t.TempDir()
	var ddl, want []string
	for name, change := range changes {
		ddl = append(ddl, fmt.Sprintf(change, "warehouse."+name))
		v := view(t, name)
		want = append(want, v.Comment)
		for _, c := range v.Columns {
			want = append(want, name+"."+c.Name+": "+c.Comment)
		}
	}
	alter(t, openCommented(t, dir), strings.Join(ddl, "; "))
	openCommented(t, dir).Publish(t)
	var got []string
	for _, row := range results(t, dir, `SELECT v.schema_name || '.' || view_name AS name, v.comment AS of_view,
		c.column_name AS column_name, c.comment AS of_column
		FROM duckdb_views() AS v JOIN duckdb_columns() AS c ON c.table_oid = v.view_oid WHERE NOT v.internal`) {
		if name := row["name"].(string); changes[name] != "" {
			got = append(got, fmt.Sprint(row["of_view"]), fmt.Sprintf("%s.%s: %v", name, row["column_name"], row["of_column"]))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name := range changes {
		results(t, dir, "FROM "+name)
	}
}

// TestCommentsSeenReportsOnlyCertainties about deleted comments: an answer with fewer than 100 comments has
// all of them.
func TestCommentsSeenReportsOnlyCertainties(t *testing.T) {
	dir := t.TempDir()
	s := openWhole(t, dir)
	day := func(n int64) time.Time { return time.Date(2026, 11, int(n), 0, 0, 0, 0, time.UTC) }
	var comments, counts []sinktest.Row
	for n, answer := range [][]string{{"a", "b", "c", "d"}, {"a", "b"}, {"a", "c"}} {
		id := int64(n + 1)
		for _, key := range answer {
			comments = append(comments, sinktest.Row{"video_id": "v", "comment_key": key, "likes_count": id, "_response_id": id})
		}
		sampled := int64(len(answer))
		if id == 3 {
			sampled = 100 // as far as the service gives them
		}
		counts = append(counts, sinktest.Row{"video_id": "v", "count": int64(150), "sampled": sampled, "_response_id": id, "observed_at": day(id)})
	}
	batch := sinks.Batch{Lo: 0, Hi: 3, Parts: []schema.Part{
		{Table: schema.CommentsHistory, Rows: sinktest.Record(schema.CommentsHistory.Schema(), comments)},
		{Table: schema.CommentCountsHistory, Rows: sinktest.Record(schema.CommentCountsHistory.Schema(), counts)},
	}}
	writeAndPublish(t, s, batch)
	seen := func(key string, first, last, times int64, gone, deleted any) sinktest.Row {
		return sinktest.Row{"comment_key": key, "first_seen_at": day(first), "last_seen_at": day(last), "times_seen": times,
			"likes_first": first, "likes_count": last, "gone_since": gone, "deleted": deleted}
	}
	want := []sinktest.Row{seen("a", 1, 3, 3, nil, nil), seen("b", 1, 2, 2, day(3), false), seen("c", 1, 3, 2, nil, nil), seen("d", 1, 1, 1, day(2), true)}
	const query = `SELECT comment_key, first_seen_at, last_seen_at, times_seen, likes_first, likes_count, gone_since, deleted
		FROM comments_seen ORDER BY comment_key`
	if diff := cmp.Diff(want, results(t, dir, query)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// alter changes a file behind the warehouse's back, as one of an earlier version may be, and closes it.
func alter(t *testing.T, l *sinktest.Line, ddl string) {
	t.Helper()
	err := l.Warehouse.Run(t.Context(), func(db *database.DB) error {
		_, err := db.Exec(t.Context(), ddl+"; UPDATE warehouse.outlierd.marks SET id = 0 WHERE name = 'declared'")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Warehouse.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFileThatAgreesIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	path := sinktest.Options(dir).Path
	var before string
	for n := range 2 {
		l := open(t, dir)
		l.Marks(t)
		l.Close(t)
		if n > 0 && content(t, path) != before {
			t.Errorf("%s was written to", path)
		}
		before = content(t, path)
	}
}

// An older file has what it lacks at the end of the table, wherever the declaration
// has it.
func TestOperationsTablesGainMiddleColumns(t *testing.T) {
	dir := t.TempDir()
	alter(t, openWhole(t, dir), "ALTER TABLE warehouse.ops.credits DROP COLUMN cap_job_month")
	s := openWhole(t, dir)
	want := sinktest.Row{"run_id": "r", "job": "coffee", "operation": "search", "price": int64(2), "outcome": "spent",
		"reserved_at": time.Unix(1, 0).UTC(), "settled_at": time.Unix(2, 0).UTC(), "day": "2026-11-21", "month": "2026-11-14",
		"cap_run": int64(1), "cap_day": int64(2), "cap_job_month": int64(3), "cap_month": int64(4), "reserve": int64(5), "response_id": int64(6)}
	tell(t, s, map[*schema.Table][]sinktest.Row{schema.OpsCredits: {want}})
	if diff := cmp.Diff([]sinktest.Row{want}, results(t, dir, "SELECT * EXCLUDE _version FROM ops.credits")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	columns := results(t, dir, "SELECT last(column_name ORDER BY column_index) AS last FROM duckdb_columns() WHERE table_name = 'credits'")
	if diff := cmp.Diff([]sinktest.Row{{"last": "cap_job_month"}}, columns); diff != "" {
		t.Errorf("the file is not like an older one (-want +got):\n%s", diff)
	}
}

// TestViewsAreReadDespiteExtremeNumbers in any column: the service counts, and one count of its would else break a view
// for every reader.
func TestViewsAreReadDespiteExtremeNumbers(t *testing.T) {
	dir := t.TempDir()
	s := openWhole(t, dir)
	writeAndPublish(t, s, sinktest.Warehouse(0, 10))
	path := filepath.Join(dir, "extreme.duckdb")
	if err := database.Copy(published(dir), path, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := database.Open(t.Context(), database.Options{Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(t.Context(), "ATTACH "+database.Text(path)+" AS warehouse; USE warehouse"); err != nil {
		t.Fatal(err)
	}
	// Few videos of one channel, so that the views compare and add up their numbers.
	numbers, err := db.Query(t.Context(), `SELECT c.table_name, c.column_name, c.data_type
		FROM duckdb_columns() c JOIN duckdb_tables() t USING (database_name, schema_name, table_name)
		WHERE c.database_name = 'warehouse' AND c.schema_name = 'main' AND c.column_name <> '_response_id'
		AND (data_type IN ('BIGINT', 'DOUBLE', 'TIMESTAMP WITH TIME ZONE') OR c.column_name IN ('video_id', 'channel_id'))`)
	if err != nil {
		t.Fatal(err)
	}
	for pattern, extremes := range map[string]map[string]string{
		"large": {"BIGINT": "9223372036854775807", "DOUBLE": "1.7976931348623157e308"},
		"mixed": {
			"BIGINT": "CASE (rowid + hash(%[2]s)) %% 2 WHEN 0 THEN 9223372036854775807 ELSE -9223372036854775808 END",
			"DOUBLE": "CASE (rowid + hash(%[2]s)) %% 2 WHEN 0 THEN 1.7976931348623157e308 ELSE 0 END",
			"TIMESTAMP WITH TIME ZONE": "CASE (rowid + hash(%[2]s)) %% 2 WHEN 0 THEN '9999-12-31 23:59:59+00'::TIMESTAMPTZ " +
				"ELSE '0001-01-01 00:00:00+00'::TIMESTAMPTZ END",
		},
	} {
		for _, c := range numbers {
			value := extremes[c[2].(string)]
			switch of := strings.HasPrefix(c[0].(string), "outliers"); {
			case of && c[1] == "video_id":
				value = "'video ' || rowid %% 3"
			case of && c[1] == "channel_id":
				value = "'channel'"
			}
			if value == "" {
				continue
			}
			change := fmt.Sprintf("UPDATE main.%[1]s SET %[3]s = "+value, c[0], database.Text(c[1].(string)), database.Name(c[1].(string)))
			if _, err := db.Exec(t.Context(), change); err != nil {
				t.Fatal(err)
			}
		}
		for _, v := range database.Views() {
			if _, err := db.Query(t.Context(), "SELECT sum(hash(v)) FROM "+v.Name+" AS v"); err != nil {
				t.Errorf("%s, %s numbers: %v", v.Name, pattern, err)
			}
		}
	}
}
