//go:build iceberg

package iceberg

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

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

// options are those of a writer of the lake in dir.
func options(dir, instance string) Options {
	return Options{
		Catalog: filepath.Join(dir, "catalog.db"), Warehouse: filepath.Join(dir, "lake"), Namespace: "outlierd",
		Staging:  filepath.Join(dir, "staging-"+instance),
		Instance: instance, Tables: slices.Concat(sinktest.Tables(), sinktest.Ops()), Env: os.LookupEnv,
	}
}

func openAs(o Options) sinktest.Open {
	return func(t testing.TB, dir string, w *warehouse.Warehouse) sinktest.Copy {
		t.Helper()
		c := New(w, o)
		if _, err := c.Shows(t.Context()); err != nil {
			t.Fatal(err)
		}
		return sinktest.Copy{Copy: c, Read: readOf(o)}
	}
}

// readOf returns a function that reads the rows of a writer.
func readOf(o Options) func(t testing.TB, of *schema.Table) []sinktest.Row {
	return func(t testing.TB, of *schema.Table) []sinktest.Row {
		t.Helper()
		found, err := Read(t.Context(), o, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for _, path := range found.Paths(of) {
			paths = append(paths, database.Text(path))
		}
		if paths == nil {
			return nil
		}
		return sinktest.Query(t, of, "read_parquet(["+strings.Join(paths, ", ")+"])")
	}
}

// line opens the line of a writer; several have one lake in dir.
func line(t testing.TB, dir, instance string) *sinktest.Line {
	t.Helper()
	return openAs(options(dir, instance)).Line(t, filepath.Join(dir, instance))
}

func TestCopyFulfilsTheContract(t *testing.T) {
	sinktest.Run(t, func(t testing.TB, dir string, w *warehouse.Warehouse) sinktest.Copy {
		return openAs(options(dir, "a"))(t, dir, w)
	})
}

// TestTwoWritersKeepTheirRows: two daemons fill the same tables at once.
func TestTwoWritersKeepTheirRows(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(6)
	lines := []*sinktest.Line{line(t, dir, "a"), line(t, dir, "b")}
	var running sync.WaitGroup
	for _, l := range lines {
		running.Go(func() {
			for lo := int64(0); lo < 6; lo += 2 {
				b := j.Batch(lo, lo+2)
				err := l.Warehouse.Write(t.Context(), b)
				sinktest.Release(b)
				if err := errors.Join(err, l.Copy.Publish(t.Context())); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	checkGarbage(t, options(dir, "a"))
	for _, l := range lines {
		l.Check(t, j, 6)
		l.Close(t)
	}
}

var errStopped = errors.New("stopped here")

// TestKilledPublicationIsCompleted: a publication is stopped before each upload and each commit in turn. The next
// one has all rows, and leaves no file that no list has, though other rows were written meanwhile.
func TestKilledPublicationIsCompleted(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(200)
	l := line(t, dir, "a")
	defer func() { l.Close(t) }()
	for stop, hi := 1, int64(0); hi < 200; stop += 5 {
		l.Write(t, j, hi, hi+1)
		steps := 0
		l.Copy.Copy.(*Copy).step = func(string) error {
			if steps++; steps == stop {
				return errStopped
			}
			return nil
		}
		err := l.Copy.Publish(t.Context())
		if err != nil && !errors.Is(err, errStopped) {
			t.Fatal(err)
		}
		if err == nil && stop > 5 {
			l.Check(t, j, hi+1)
			return
		}
		if err := l.Copy.Close(); err != nil {
			t.Fatal(err)
		}
		l.Copy = openAs(options(dir, "a"))(t, dir, l.Warehouse)
		l.Write(t, j, hi+1, hi+2)
		l.Publish(t)
		l.Check(t, j, hi+2)
		checkGarbage(t, options(dir, "a"))
		hi += 2
	}
	t.Error("no publication was complete")
}

// refusing is a catalog that refuses commits, or commits and says that it did not.
type refusing struct {
	catalog.Catalog
	commits bool
}

var errRefused = errors.New("HTTP 403")

func (r refusing) CommitTable(ctx context.Context, id table.Identifier, needs []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	if r.commits {
		if _, _, err := r.Catalog.CommitTable(ctx, id, needs, updates); err != nil {
			return nil, "", err
		}
	}
	return nil, "", errRefused
}

// LoadTable returns a table that commits by r.
func (r refusing) LoadTable(ctx context.Context, id table.Identifier) (*table.Table, error) {
	t, err := r.Catalog.LoadTable(ctx, id)
	if err != nil {
		return nil, err
	}
	return table.New(id, t.Metadata(), t.MetadataLocation(), t.FS, r), nil
}

// refuseCommits makes commits of c fail, or only their answers.
func refuseCommits(c *Copy, commits bool) {
	c.place.Catalog = refusing{c.place.Catalog, commits}
}

// TestCatalogThatRefusesLeavesNoGarbage: each hour new rows are brought, and none is listed.
func TestCatalogThatRefusesLeavesNoGarbage(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(26)
	l := line(t, dir, "a")
	l.Write(t, j, 0, 1)
	l.Publish(t)
	for hour := int64(1); hour < 25; hour++ {
		c := l.Copy.Copy.(*Copy)
		refuseCommits(c, false)
		l.Write(t, j, hour, hour+1)
		if err := c.Publish(t.Context()); err == nil || !strings.Contains(err.Error(), "HTTP 403") {
			t.Fatalf("got %v", err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		l.Copy = openAs(options(dir, "a"))(t, dir, l.Warehouse)
	}
	l.Publish(t)
	l.Check(t, j, 25)
	checkGarbage(t, options(dir, "a"))
	l.Close(t)
}

// TestLostCommitAnswerIsNoError: the catalog commits, and its answer is lost.
func TestLostCommitAnswerIsNoError(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(4)
	l := line(t, dir, "a")
	refuseCommits(l.Copy.Copy.(*Copy), true)
	l.Write(t, j, 0, 2)
	l.Publish(t)
	l.Write(t, j, 2, 4)
	l.Publish(t)
	l.Check(t, j, 4)
	checkGarbage(t, options(dir, "a"))
	l.Close(t)
}

// TestNewNamespaceKeepsOldFiles: what was carried to one namespace, and may be listed there, stays in use after the
// sink got another one.
func TestNewNamespaceKeepsOldFiles(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(4)
	l := line(t, dir, "a")
	l.Write(t, j, 0, 4)
	l.Publish(t)
	for _, of := range l.Copy.Copy.(*Copy).tables { // as if the process was killed after each commit
		if err := of.carried().add(dataFiles(t, dir, "a")...); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Copy.Close(); err != nil {
		t.Fatal(err)
	}
	o := options(dir, "a")
	o.Namespace = "another"
	l.Copy = openAs(o)(t, dir, l.Warehouse)
	l.Publish(t)
	l.Check(t, j, 4)
	if _, err := Read(t.Context(), options(dir, "a"), t.TempDir()); err != nil {
		t.Error(err)
	}
	l.Close(t)
}

// checkGarbage checks that each file in the warehouse, of rows or of metadata, is needed by a snapshot or is in the
// log of the metadata.
func checkGarbage(t *testing.T, o Options) {
	t.Helper()
	c, err := openToRead(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	needed, found := map[string]bool{}, 0
	for _, l := range c.tables {
		if err := l.load(t.Context()); err != nil {
			t.Fatal(err)
		}
		add := func(address string) { needed[files{}.nameOf(address)] = true }
		add(l.table.MetadataLocation())
		for entry := range l.table.Metadata().PreviousFiles() {
			add(entry.MetadataFile)
		}
		for _, s := range l.table.Metadata().Snapshots() {
			add(s.ManifestList)
			manifests, err := s.Manifests(l.files)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range manifests {
				add(m.FilePath())
				for entry, err := range m.Entries(l.files, true) {
					if err != nil {
						t.Fatal(err)
					}
					add(entry.DataFile().FilePath())
				}
			}
		}
	}
	err = filepath.WalkDir(o.Warehouse, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if found++; !needed[path] {
				t.Errorf("no snapshot needs %s", path)
			}
		}
		return err
	})
	if err != nil || found == 0 {
		t.Fatalf("%d files, error %v", found, err)
	}
}

// TestRebuiltWarehouseReplacesEverything: also in older snapshots, but nothing of another writer.
func TestRebuiltWarehouseReplacesEverything(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(6)
	a, b := line(t, dir, "a"), line(t, dir, "b")
	for hi := int64(2); hi <= 6; hi += 2 {
		for _, l := range []*sinktest.Line{a, b} {
			l.Write(t, j, hi-2, hi)
			l.Publish(t)
		}
	}
	before := dataFiles(t, dir, "a")
	a.Close(t)
	if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	a = line(t, dir, "a")
	a.Write(t, j, 0, 5)
	a.Publish(t)
	for _, path := range dataFiles(t, dir, "a") {
		if slices.Contains(before, path) {
			t.Errorf("%s is still there", path)
		}
	}
	a.Check(t, j, 5)
	b.Check(t, j, 6)
	a.Close(t)
	b.Close(t)
}

// TestMissingColumnIsAdded: a table that another version has created, or another program has altered, gets the
// columns that it lacks when it is opened, and the rows are written again with them.
func TestMissingColumnIsAdded(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(4)
	l := line(t, dir, "a")
	l.Write(t, j, 0, 2)
	l.Publish(t)
	c := l.Copy.Copy.(*Copy)
	altered := c.tables[0]
	if err := altered.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx := altered.table.NewTransaction()
	name := altered.of.All()[len(altered.of.All())-1].Name
	if err := tx.UpdateSchema(true, true).DeleteColumn([]string{name}).Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	l.Copy = openAs(options(dir, "a"))(t, dir, l.Warehouse)
	l.Write(t, j, 2, 4)
	l.Publish(t)
	l.Check(t, j, 4)
	l.Close(t)
}

// TestEmptiedTableIsReadable: the part of an operations table that has lost all its rows stays in the folder.
func TestEmptiedTableIsReadable(t *testing.T) {
	l := line(t, t.TempDir(), "a")
	for version, rows := range []int{3, 0, 0, 2} {
		ops := sinktest.Runs(0, int64(rows))
		ops.Version = int64(version + 1)
		l.WriteOps(t, ops)
		l.Publish(t)
		if found := l.Copy.Read(t, schema.OpsRuns); len(found) != rows {
			t.Errorf("version %d: the table has %d rows, want %d", version+1, len(found), rows)
		}
	}
	l.Close(t)
}

func TestDroppedTableIsFilledAgain(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(4)
	l := line(t, dir, "a")
	l.Write(t, j, 0, 4)
	l.Publish(t)
	c := l.Copy.Copy.(*Copy)
	if err := errors.Join(c.place.DropTable(t.Context(), c.tables[0].id()), c.Close()); err != nil {
		t.Fatal(err)
	}
	l.Copy = openAs(options(dir, "a"))(t, dir, l.Warehouse)
	l.Publish(t)
	l.Check(t, j, 4)
	l.Close(t)
}

// TestRemovedCatalogIsFilledAgain: the SQLite file is removed while it is in use, with the other files of SQLite.
func TestRemovedCatalogIsFilledAgain(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(4)
	l := line(t, dir, "a")
	l.Write(t, j, 0, 2)
	l.Publish(t)
	files, err := filepath.Glob(filepath.Join(dir, "catalog.db*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	l.Write(t, j, 2, 4)
	if err := l.Copy.Publish(t.Context()); err == nil || !strings.Contains(err.Error(), "no such table: iceberg_tables") {
		t.Errorf("got %v", err)
	}
	if err := l.Copy.Close(); err != nil {
		t.Fatal(err)
	}
	l.Copy = openAs(options(dir, "a"))(t, dir, l.Warehouse) // as package sinks does after an error
	l.Publish(t)
	l.Check(t, j, 4)
	l.Close(t)
}

// TestOldSnapshotsExpire: a table has no more snapshots after twenty publications than after two, and no file of
// the others is left.
func TestOldSnapshotsExpire(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(20)
	l := line(t, dir, "a")
	c := l.Copy.Copy.(*Copy)
	c.keep = time.Millisecond
	for hi := int64(1); hi <= 20; hi++ {
		l.Write(t, j, hi-1, hi)
		l.Publish(t)
	}
	for _, table := range c.tables {
		if err := table.load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(table.table.Metadata().Snapshots()); n > 2 {
			t.Errorf("table %s has %d snapshots", table.name(), n)
		}
	}
	l.Check(t, j, 20)
	checkGarbage(t, options(dir, "a"))
	l.Close(t)
}

// TestLostFileIsRestored: a check finds it, and the first publication of the next day stores it again.
func TestLostFileIsRestored(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(4)
	l := line(t, dir, "a")
	l.Write(t, j, 0, 4)
	l.Publish(t)
	if err := os.Remove(dataFiles(t, dir, "a")[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(t.Context(), options(dir, "a"), t.TempDir()); !errors.Is(err, ErrRebuild) {
		t.Errorf("got %v", err)
	}
	l.Copy.Copy.(*Copy).now = func() time.Time { return time.Now().Add(24 * time.Hour) }
	l.Publish(t)
	l.Check(t, j, 4)
	l.Close(t)
}

func dataFiles(t *testing.T, dir, instance string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "lake", "outlierd", "*", "data", instance, "*", "*.parquet"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files, error %v", len(paths), err)
	}
	return paths
}
