package parquet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"outlierd/internal/testenv"
	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/sinktest"
	"outlierd/sinks/warehouse"
)

func TestMain(m *testing.M) {
	testenv.Prepare()
	m.Run()
}

func TestCopyFulfilsTheContract(t *testing.T) {
	testenv.RacesLittle(t)
	sinktest.Run(t, func(t testing.TB, dir string, w *warehouse.Warehouse) sinktest.Copy {
		o := Options{Dir: filepath.Join(dir, "parquet")}
		c := New(w, o)
		c.limit = small
		return sinktest.Copy{Copy: c, Read: func(t testing.TB, table *schema.Table) []sinktest.Row {
			if paths := filesIn(t, o.Dir, table); len(paths) > 0 {
				return sinktest.Query(t, table, readAll(paths))
			}
			return nil
		}}
	})
}

// world is a warehouse and its folder.
type world struct {
	testing.TB
	warehouse *warehouse.Warehouse
	dir       string
	copy      *Copy
	tables    []*schema.Table
}

// small is a limit by which a few answers make several parts.
var small = limit{rows: 4, bytes: 1 << 20}

func newWorld(t testing.TB, tables, ops []*schema.Table) *world {
	dir := t.TempDir()
	w := &world{TB: t, dir: filepath.Join(dir, "parquet"), tables: slices.Concat(tables, ops)}
	w.warehouse = warehouse.New(warehouse.Options{
		Path: filepath.Join(dir, "warehouse.duckdb"), Temp: filepath.Join(dir, "temp"), Tables: w.tables,
		Uncommented: true,
	})
	w.open(Options{Dir: w.dir}, func(string) error { return nil })
	t.Cleanup(w.close)
	return w
}

// open makes the copy, as the next process does.
func (w *world) open(o Options, step func(string) error) {
	w.copy = New(w.warehouse, o)
	w.copy.limit, w.copy.step = small, step
}

// reopen closes the copy and makes another one.
func (w *world) reopen(step func(string) error) {
	w.Helper()
	if err := w.copy.Close(); err != nil {
		w.Fatal(err)
	}
	w.open(w.copy.options, step)
}

func (w *world) close() {
	if err := errors.Join(w.copy.Close(), w.warehouse.Close()); err != nil {
		w.Error(err)
	}
}

// write writes the answers up to hi, and runs as many as there are answers.
func (w *world) write(j sinktest.Journal, hi int64) {
	w.Helper()
	marks, err := w.warehouse.Marks(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	if marks.Answers < hi {
		b := j.Batch(marks.Answers, hi)
		defer sinktest.Release(b)
		if err := w.warehouse.Write(w.Context(), b); err != nil {
			w.Fatal(err)
		}
	}
	if slices.ContainsFunc(w.tables, (*schema.Table).IsOps) && marks.Ops < hi {
		if err := w.warehouse.WriteOps(w.Context(), sinktest.Runs(marks.Ops, hi)); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) publish() {
	w.Helper()
	if err := w.copy.Publish(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// check compares what readers find by a glob with the warehouse, and the files with the manifest.
func (w *world) check() {
	w.Helper()
	marks, err := w.warehouse.Marks(w.Context())
	if shows, again := w.copy.Shows(w.Context()); err != nil || again != nil || shows != marks {
		w.Errorf("the copy shows %v, %v, and the warehouse has %v, %v", shows, again, marks, err)
	}
	w.exec(func(db *database.DB) error {
		for _, t := range w.tables {
			files := "(SELECT * FROM " + database.TableName(t) + " LIMIT 0)"
			if paths := filesIn(w, w.dir, t); len(paths) > 0 {
				files = readAll(paths)
			}
			sums := func(from string) string {
				return "SELECT count(*), sum(hash(r)) FROM (SELECT " + columnsOf(t) + " FROM " + from + ") AS r"
			}
			rows, err := db.Query(w.Context(), sums(database.TableName(t))+" UNION ALL "+sums(files))
			if err != nil {
				return err
			}
			if fmt.Sprint(rows[0]) != fmt.Sprint(rows[1]) {
				w.Errorf("table %s: rows and their sum are %v in the warehouse and %v in the files", t.Name, rows[0], rows[1])
			}
		}
		return nil
	})
	f, err := Look(w.Context(), w.dir, "", w.tables)
	if err != nil {
		w.Fatal(err)
	}
	damaged, err := f.Verify(w.Context())
	if problems := append(damaged, f.Problems...); err != nil || len(problems) > 0 {
		w.Errorf("problems %q, error %v", problems, err)
	}
	for _, name := range namesIn(w, w.dir) {
		if strings.HasSuffix(name, ".tmp") || name == nextName {
			w.Errorf("left behind: %s", name)
		}
	}
}

func (w *world) exec(do func(db *database.DB) error) {
	w.Helper()
	if err := w.warehouse.Run(w.Context(), do); err != nil {
		w.Fatal(err)
	}
}

func (w *world) files(t *schema.Table) []string { return filesIn(w, w.dir, t) }

// filesIn returns what a reader's glob finds.
func filesIn(t testing.TB, dir string, table *schema.Table) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"*.parquet", "date=*/*.parquet"} {
		found, err := filepath.Glob(filepath.Join(dir, table.FileName(), pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	return paths
}

func namesIn(t testing.TB, dir string) (names []string) {
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// columnsOf returns the columns of a table; JSON as the text that it is in files.
func columnsOf(t *schema.Table) string {
	query, _ := Options{}.copyFrom(t, "true")
	columns, _, _ := strings.Cut(strings.TrimPrefix(query, "SELECT "), " FROM ")
	return columns
}

func readAll(paths []string) string {
	var all []string
	for _, path := range paths {
		all = append(all, database.Text(path))
	}
	return "read_parquet([" + strings.Join(all, ", ") + "], hive_partitioning = false)"
}
