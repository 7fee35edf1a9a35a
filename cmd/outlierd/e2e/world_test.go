package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

// The exit codes that docs/commands.md documents.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitPartial     = 3
	exitPaused      = 4
	exitHeld        = 6
	exitInterrupted = 130
)

// object is a JSON object.
type object = map[string]any

// testWorld is a folder with a job file, a service that listens on loopback, and
// the program as a process of its own.
type testWorld struct {
	testing.TB
	dir     string
	service *simulator.Service
	url     string

	reader *database.DB // has the published file open, as described by read; nil before the first query
	read   os.FileInfo
}

func newWorld(t testing.TB, o simulator.Options) *testWorld {
	service := simulator.New(o)
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	return &testWorld{TB: t, dir: t.TempDir(), service: service, url: server.URL}
}

func (w *testWorld) write(jobs string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "jobs.yaml"), []byte(jobs), 0o644); err != nil {
		w.Fatal(err)
	}
}

// withParquet returns a job file with both sinks.
func withParquet(jobs string) string { return strings.Replace(jobs, programtest.DuckDBAlone, "", 1) }

// command returns a command of the program, ready to start.
func (w *testWorld) command(ctx context.Context, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, "outlierd", args...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "OUTLIERD_URL="+w.url, "OUTLIERD_KEY=demo")
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

func (w *testWorld) mustRun(args ...string) string {
	w.Helper()
	cmd, out := w.command(w.Context(), args...)
	if err := cmd.Run(); err != nil {
		w.Fatalf("outlierd %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out.String()
}

func (w *testWorld) published() string { return filepath.Join(w.dir, "data", "outliers.duckdb") }

// parquet returns the Parquet files of a table, as DuckDB reads them.
func (w *testWorld) parquet(table string) string {
	folder := strings.ReplaceAll(table, ".", "_")
	return fmt.Sprintf("read_parquet('%s/**/*.parquet', hive_partitioning = false)", filepath.Join(w.dir, "data", "parquet", folder))
}

// rows returns all rows of a table or table function, decoded from JSON.
func (w *testWorld) rows(from string) (rows []object) {
	w.Helper()
	w.query(fmt.Sprintf("select to_json(t)::varchar from %s t", from), func(values []any) {
		var row object
		if err := json.Unmarshal([]byte(values[0].(string)), &row); err != nil {
			w.Fatal(err)
		}
		// JSON is a text in Parquet, which has no such type.
		for _, name := range []string{"extra", "is_live_broadcast"} {
			if text, ok := row[name].(string); ok {
				var inner any
				if json.Unmarshal([]byte(text), &inner) == nil {
					row[name] = inner
				}
			}
		}
		rows = append(rows, row)
	})
	return rows
}

// query queries the published file.
func (w *testWorld) query(text string, row func([]any)) {
	w.Helper()
	rows, err := w.open().Query(w.Context(), text)
	if err != nil {
		w.Fatal(err)
	}
	for _, values := range rows {
		all := make([]any, len(values))
		for i, v := range values {
			all[i] = v
		}
		row(all)
	}
}

// open opens the published file for reading, and keeps it open until another file is published: starting DuckDB
// takes as long as twenty queries.
func (w *testWorld) open() *database.DB {
	w.Helper()
	for {
		info := w.stat()
		if w.reader != nil && isSame(info, w.read) {
			return w.reader
		}
		w.close()
		w.Cleanup(w.close)
		db, err := database.Open(w.Context(), database.Options{Memory: 512 << 20})
		if err != nil {
			w.Fatal(err)
		}
		w.reader = db
		attach := "ATTACH " + database.Text(w.published()) + " AS warehouse (READ_ONLY); USE warehouse"
		if _, err := db.Exec(w.Context(), attach); err != nil {
			w.Fatal(err)
		}
		// A daemon may have published another file before this one was opened.
		if isSame(info, w.stat()) {
			w.read = info
			return db
		}
		w.close()
	}
}

func (w *testWorld) stat() os.FileInfo {
	w.Helper()
	info, err := os.Stat(w.published())
	if err != nil {
		w.Fatal(err)
	}
	return info
}

// isSame reports whether two descriptions are of the same publication. Files are published in turn, so that an older
// one comes back with other content.
func isSame(a, b os.FileInfo) bool { return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) }

func (w *testWorld) close() {
	if w.reader == nil {
		return
	}
	if err := w.reader.Close(); err != nil {
		w.Error(err)
	}
	w.reader = nil
}

// sameInBothSinks compares every data table in DuckDB and in Parquet.
func (w *testWorld) sameInBothSinks() {
	w.Helper()
	for _, table := range schema.Tables() {
		if matches, _ := filepath.Glob(filepath.Join(w.dir, "data", "parquet", table.FileName(), "*")); len(matches) == 0 {
			if n := len(w.rows(table.Name)); n > 0 {
				w.Errorf("table %s has %d rows in DuckDB and no file in Parquet", table.Name, n)
			}
			continue
		}
		if w.alike(table.Name, w.parquet(table.Name)) {
			continue
		}
		duck, files := texts(w.rows(table.Name)), texts(w.rows(w.parquet(table.Name)))
		if diff := difference(duck, files); diff != "" {
			w.Errorf("table %s differs between DuckDB (-) and Parquet (+):\n%s", table.Name, diff)
		}
	}
}

// alike compares two tables or table functions, except for some columns, by the sums of the hashes of their rows.
// That takes a tenth of the CPU of comparing rows as JSON, which is needed to show differences, and is stricter:
// nulls in lists count.
func (w *testWorld) alike(a, b string, but ...string) bool {
	w.Helper()
	return w.fingerprint("all", a, but) == w.fingerprint("all", b, but)
}

// fingerprint returns a hash of the rows, all or distinct, except for some columns.
func (w *testWorld) fingerprint(which, from string, but []string) (sum string) {
	w.Helper()
	var columns []string
	w.query("describe from "+from, func(values []any) {
		if name := values[0].(string); !slices.Contains(but, name) {
			columns = append(columns, database.Name(name))
		}
	})
	slices.Sort(columns)
	names := strings.Join(columns, ", ")
	w.query(fmt.Sprintf("select concat_ws(' ', count(*), sum(h)) from (select %s hash(%s)::hugeint as h from %s)", which, names, from),
		func(values []any) { sum = fmt.Sprint(names, values) })
	return sum
}

// booksAgree compares the ledger with the books of the service.
func (w *testWorld) booksAgree() {
	w.Helper()
	var held outlier.Credits
	for _, row := range w.rows("ops.credits") {
		if row["outcome"] == "spent" || row["outcome"] == "unknown" {
			held += outlier.Credits(row["price"].(float64))
		}
	}
	if books := w.service.Books(); books.Total.Spent() != held {
		w.Errorf("the ledger has %d credits, want %d as the service charged", held, books.Total.Spent())
	}
}

func list(v any) (objects []object) {
	all, _ := v.([]any)
	for _, o := range all {
		objects = append(objects, o.(object))
	}
	return objects
}

// texts returns a text per row, sorted, with all columns.
func texts(rows []object) []string {
	var all []string
	for _, row := range rows {
		text, _ := json.Marshal(uniform(row)) // decoded JSON can be encoded
		all = append(all, string(text))
	}
	slices.Sort(all)
	return all
}

// difference returns the first rows that only one of two sorted lists has.
func difference(want, got []string) string {
	var lines []string
	for len(lines) < 10 && (len(want) > 0 || len(got) > 0) {
		switch {
		case len(got) == 0 || len(want) > 0 && want[0] < got[0]:
			lines, want = append(lines, "- "+want[0]), want[1:]
		case len(want) == 0 || got[0] < want[0]:
			lines, got = append(lines, "+ "+got[0]), got[1:]
		default:
			want, got = want[1:], got[1:]
		}
	}
	for i, line := range lines {
		lines[i] = line[:min(len(line), 400)]
	}
	return strings.Join(lines, "\n")
}

// uniform removes nulls in nested values and formats times uniformly.
func uniform(v any) any {
	switch v := v.(type) {
	case string:
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999-07"} {
			if at, err := time.Parse(layout, v); err == nil {
				return at.UTC().Format(time.RFC3339Nano)
			}
		}
	case object:
		kept := object{}
		for name, inner := range v {
			if inner != nil {
				kept[name] = uniform(inner)
			}
		}
		return kept
	case []any:
		var all []any
		for _, inner := range v {
			all = append(all, uniform(inner))
		}
		return all
	}
	return v
}
