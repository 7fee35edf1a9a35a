//go:build iceberg

package iceberg

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go/table"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/sinktest"
)

// fill writes the answers up to hi one per batch, and publishes after each.
func fill(t *testing.T, s *Sink, journal sinktest.Journal, hi int64) {
	t.Helper()
	at, err := s.Watermark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for ; at < hi; at++ {
		b := journal.Batch(at, at+1)
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		sinktest.Release(b)
		if err := s.Publish(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// filesOf reads the files of the writer in a table.
func filesOf(t *testing.T, s *Sink, of *schema.Table) *ownFiles {
	t.Helper()
	l := s.tables[of]
	l.forget()
	if err := l.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l.own
}

// TestManyCommitsLeaveFewFiles: tables whose rows are replaced have their files merged immediately,
// tables with days when a day is over. Merging must not change rows, their order, or the rows of
// another writer.
func TestManyCommitsLeaveFewFiles(t *testing.T) {
	t.Parallel()
	const answers = 30
	dir, journal := t.TempDir(), sinktest.Sample(answers)
	other := openSink(t, dir, "b")
	defer other.Close()
	fill(t, other, journal, 3)
	s := openSink(t, dir, "a")
	defer func() { s.Close() }()
	fill(t, s, journal, answers)
	for _, table := range sinktest.Tables() {
		if l := s.tables[table]; !l.byDay() {
			h := filesOf(t, s, table)
			if n := len(h.data) + len(h.deletes); n > fewFiles {
				t.Errorf("table %s has %d files after %d commits", table.Name, n, answers)
			}
		}
	}
	s.now = func() time.Time { return time.Now().Add(400 * 24 * time.Hour) }
	if err := s.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	days := 0
	for _, table := range sinktest.Tables() {
		if l := s.tables[table]; l.byDay() {
			h := filesOf(t, s, table)
			perDay := map[string]int{}
			for _, f := range h.data {
				perDay[dayName(l.dayOf(f))]++
			}
			for day, n := range perDay {
				days++
				if n > 1 && day != "" {
					t.Errorf("table %s has %d files of %s, which is over", table.Name, n, day)
				}
			}
		}
	}
	if days == 0 {
		t.Error("no table has a day")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openSink(t, dir, "a")
	for instance, hi := range map[string]int64{"a": answers, "b": 3} {
		k := sinktest.Sink{Open: suite.Open, Read: func(t testing.TB, dir string, of *schema.Table) []arrow.RecordBatch {
			return readTable(t, dir, instance, of)
		}}
		for _, table := range sinktest.Tables() {
			k.CheckTable(t, dir, table, journal, hi)
		}
	}
	for _, table := range sinktest.Tables() {
		last := map[string]int64{}
		for _, rows := range readTable(t, dir, "a", table) {
			ids := rows.Column(rows.Schema().FieldIndices(sinks.ResponseID)[0]).(*array.Int64).Int64Values()
			if !s.tables[table].byDay() && (!slices.IsSorted(ids) || len(ids) > 0 && ids[0] < last[table.Name]) {
				t.Errorf("the rows of table %s are not in the order of the journal", table.Name)
			}
			if len(ids) > 0 {
				last[table.Name] = ids[len(ids)-1]
			}
			rows.Release()
		}
	}
}

// TestOldMetadataIsReleased: a table that has been committed to twice more does not keep the metadata of
// before in memory.
func TestOldMetadataIsReleased(t *testing.T) {
	t.Parallel()
	journal := sinktest.Sample(4)
	s := openSink(t, t.TempDir(), "a")
	defer s.Close()
	fill(t, s, journal, 1)
	old, released := map[*lakeTable]string{}, make(chan *lakeTable, len(s.tables))
	for _, l := range s.tables {
		if l.table != nil && l.table.CurrentSnapshot() != nil {
			old[l] = l.table.MetadataLocation()
			runtime.SetFinalizer(l.table.Metadata(), func(table.Metadata) { released <- l })
		}
	}
	fill(t, s, journal, 4)
	maps.DeleteFunc(old, func(l *lakeTable, location string) bool { return l.table.MetadataLocation() == location })
	if len(old) < 3 {
		t.Fatalf("%d tables have changed, want at least 3", len(old))
	}
	for len(old) > 0 {
		runtime.GC()
		select {
		case l := <-released:
			delete(old, l)
		case <-time.After(5 * time.Second):
			for l := range old {
				t.Errorf("table %s still has its metadata of three answers ago in memory", l.name())
			}
			return
		}
	}
	runtime.KeepAlive(s)
}

// TestOldSnapshotsAndOrphansAreDeleted: old snapshots and orphans are deleted, young orphans and all rows stay.
func TestOldSnapshotsAndOrphansAreDeleted(t *testing.T) {
	t.Parallel()
	dir, journal := t.TempDir(), sinktest.Sample(6)
	s := openSink(t, dir, "a")
	defer s.Close()
	fill(t, s, journal, 6)
	old, young := filepath.Join(dir, "lake", "outlierd", "outliers", "data", "a", "old.parquet"), ""
	young = strings.Replace(old, "old.", "young.", 1)
	mark := filepath.Join(dir, "lake", "outlierd", "outlierd_writers", "metadata", "old.metadata.json")
	for _, name := range []string{old, mark, young} {
		if err := os.WriteFile(name, []byte("cut short"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-orphansKept - time.Hour)
	for _, name := range []string{old, mark} {
		if err := os.Chtimes(name, long, long); err != nil {
			t.Fatal(err)
		}
	}
	s.now = func() time.Time { return time.Now().Add(48 * time.Hour) }
	if err := s.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{old, mark} {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("%s, which no snapshot has, is still there after three days (%v)", name, err)
		}
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("a file that may belong to a commit under way is gone: %v", err)
	}
	before := files(t, dir)
	for _, l := range s.tables {
		if err := l.expire(t.Context(), 0, 1); err != nil {
			t.Fatal(err)
		}
		if n := len(l.table.Metadata().Snapshots()); n > 1 {
			t.Errorf("table %s has %d snapshots after all but the newest expired", l.name(), n)
		}
	}
	if after := files(t, dir); after >= before {
		t.Errorf("%d files before snapshots expired, %d after", before, after)
	}
	for _, table := range sinktest.Tables() {
		suite.CheckTable(t, dir, table, journal, 6)
	}
}

// TestManyCommitsLeaveFewSnapshots: the number of snapshots is bounded, and those that queries may be
// reading stay.
func TestManyCommitsLeaveFewSnapshots(t *testing.T) {
	t.Parallel()
	const answers = 12
	for _, c := range []struct {
		name string
		keep retention
		want int
	}{
		{"busy", retention{age: time.Hour, most: 4}, 5},
		{"younger than a query may take", retention{age: time.Hour, most: 4, query: time.Minute}, answers},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, journal := t.TempDir(), sinktest.Sample(answers)
			s := openSink(t, dir, "a")
			defer s.Close()
			s.keep = c.keep
			most := 0
			for hi := range int64(answers) {
				fill(t, s, journal, hi+1)
				for _, of := range sinktest.Tables() {
					most = max(most, len(s.tables[of].snapshotLog()))
				}
			}
			if most != c.want {
				t.Errorf("a table had %d snapshots, want %d", most, c.want)
			}
			for _, of := range sinktest.Tables() {
				suite.CheckTable(t, dir, of, journal, answers)
			}
		})
	}
}

// TestFilesOfOtherWritersAreNoOrphans: a writer that has not looked at a table for days must not take
// for orphans what another writer has committed meanwhile.
func TestFilesOfOtherWritersAreNoOrphans(t *testing.T) {
	t.Parallel()
	const answers = 6
	dir, journal := t.TempDir(), sinktest.Sample(answers)
	a, b := openSink(t, dir, "a"), openSink(t, dir, "b")
	defer a.Close()
	defer b.Close()
	if err := a.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	fill(t, b, journal, answers)
	old := time.Now().Add(-orphansKept - time.Hour)
	err := filepath.WalkDir(filepath.Join(dir, "lake"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			err = os.Chtimes(path, old, old)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	a.now = func() time.Time { return time.Now().Add(5 * 24 * time.Hour) }
	if err := a.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	ofB := sinktest.Sink{Open: suite.Open, Read: readAs("b")}
	for _, table := range sinktest.Tables() {
		ofB.CheckTable(t, dir, table, journal, answers)
	}
}

// files counts the files in the warehouse.
func files(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, "lake"), func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
