package parquet

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/sinktest"
	"outlierd/sinks/warehouse"
)

func TestPartsStayWithinLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 20 { // a check costs nothing here
			l := limit{rows: rapid.Int64Range(1, 50).Draw(t, "rows"), bytes: rapid.Int64Range(1, 500).Draw(t, "bytes")}
			var all []weight
			for placing := range rapid.Int64Range(0, 60).Draw(t, "answers") {
				all = append(all, weight{placing, rapid.Int64Range(1, 20).Draw(t, "n"), rapid.Int64Range(0, 200).Draw(t, "b")})
			}
			published := rapid.Int64Range(-1, 70).Draw(t, "published")
			los := l.cutRows(all, published)
			for i, lo := range los {
				if i > 0 && lo <= published {
					t.Fatalf("a part begins with %d, and readers have found up to %d in one", lo, published)
				}
				var rows, bytes, answers int64
				for _, w := range all {
					if w.placing >= lo && (i+1 == len(los) || w.placing < los[i+1]) && w.placing > published {
						rows, bytes, answers = rows+w.rows, bytes+w.bytes, answers+1
					}
				}
				if answers > 1 && (rows > l.rows || bytes > l.bytes) {
					t.Fatalf("part %d has %d rows and %d bytes of %d answers", lo, rows, bytes, answers)
				}
			}
		}
	})
}

func TestCopyEqualsWarehouse(t *testing.T) {
	w, j := newWorld(t, sinktest.Tables(), sinktest.Ops()), sinktest.Sample(40)
	w.publish() // an empty warehouse
	w.check()
	for hi := int64(0); hi < int64(len(j)); {
		hi = min(hi+20, int64(len(j)))
		w.write(j, hi)
		w.publish()
		w.check()
	}
	if n := len(w.files(schema.Outliers)); n < 2 {
		t.Errorf("%d parts", n)
	}
	before := namesIn(t, w.dir)
	w.copy.step = func(what string) error { return errors.New("nothing is new: " + what) }
	w.publish()
	w.reopen(w.copy.step)
	w.publish()
	if after := namesIn(t, w.dir); !slices.Equal(before, after) {
		t.Errorf("files %v became %v", before, after)
	}
}

// TestRowsLeftOutBeforeTheyCame: the last row of a key up to the boundary stays until a later answer up to it has
// another.
func TestRowsLeftOutBeforeTheyCame(t *testing.T) {
	w, j := newWorld(t, []*schema.Table{schema.ChannelsHistory}, nil), sinktest.Journal{}
	for id, title := range []string{"one", "two", "three"} {
		at := time.Date(2026, 3, 1+id, 0, 0, 0, 0, time.UTC)
		j = append(j, sinktest.Answer{ID: int64(id + 1), At: at, Rows: map[*schema.Table][]sinktest.Row{schema.ChannelsHistory: {{
			"_run_id": "run", "_job": "job", sinks.ResponseID: int64(id + 1), sinks.ObservedAt: at, "channel_id": "a", "title": title,
		}}}})
	}
	w.write(j, 1)
	w.publish()
	w.omit(sinks.Omitted{UpTo: map[string]int64{schema.ChannelsHistory.Name: 2}})
	for i, want := range []int64{1, 1, 2} {
		w.write(j, int64(i+1))
		w.publish()
		w.check()
		if n := w.count(schema.ChannelsHistory); n != want {
			t.Errorf("the warehouse has %d rows after answer %d, want %d", n, i+1, want)
		}
	}
}

// TestReturningKeyStaysInPart: a reader may have found it there before it was deleted.
func TestReturningKeyStaysInPart(t *testing.T) {
	w, j := newWorld(t, []*schema.Table{schema.Comments}, nil), sinktest.Journal{}
	w.copy.limit = limit{rows: 4, bytes: math.MaxInt64}
	for i, has := range []struct {
		video    string
		comments int64
	}{{"a", 3}, {"b", 1}, {"b", 0}, {"b", 3}} {
		id, at := int64(i+1), time.Date(2026, 3, 1, i, 0, 0, 0, time.UTC)
		a := sinktest.Answer{ID: id, At: at, Rows: map[*schema.Table][]sinktest.Row{}, Gone: map[*schema.Table][]sinktest.Row{}}
		for n := range has.comments {
			a.Rows[schema.Comments] = append(a.Rows[schema.Comments], sinktest.Row{"_run_id": "run", "_job": "job", sinks.ResponseID: id,
				sinks.ObservedAt: at, "video_id": has.video, "comment_key": fmt.Sprint(n), "position": n})
		}
		if has.comments == 0 {
			a.Gone[schema.Comments] = []sinktest.Row{{"video_id": has.video, sinks.ResponseID: id}}
		}
		j = append(j, a)
		w.write(j, id)
		w.publish()
		w.check()
	}
	if parts := w.files(schema.Comments); len(parts) != 1 {
		t.Errorf("parts %v, want the one of the first publication", parts)
	}
}

// TestMixedFilesHaveEveryKeyOnce: whatever a reader opens before and after publications.
func TestMixedFilesHaveEveryKeyOnce(t *testing.T) {
	tables := []*schema.Table{schema.Outliers, schema.OutliersHistory, schema.ChannelUploads, schema.Transcripts, schema.Comments, schema.Missing}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 20).Draw(rt, "answers")
		j := sinktest.Generate(n, func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "pick") }).Only(tables...)
		w := newWorld(t, tables, nil)
		w.copy.limit = limit{rows: rapid.Int64Range(1, 20).Draw(rt, "limit"), bytes: math.MaxInt64}
		dir := t.TempDir()
		versions := map[string][]string{} // by name: the contents of a file, oldest first; "" before it was written
		for publication, hi := 0, int64(0); hi < int64(n); publication++ {
			hi = min(hi+rapid.Int64Range(1, 8).Draw(rt, "batch"), int64(n))
			w.write(j, hi)
			if rapid.IntRange(0, 5).Draw(rt, "reset") == 0 {
				if err := os.RemoveAll(filepath.Join(w.dir, manifestFolder)); err != nil {
					t.Fatal(err)
				}
			}
			w.publish()
			for _, table := range tables {
				for _, path := range w.files(table) {
					name := strings.TrimPrefix(path, w.dir+"/")
					kept := filepath.Join(dir, fmt.Sprint(publication, "-", strings.ReplaceAll(name, "/", "-")))
					for len(versions[name]) < publication {
						versions[name] = append(versions[name], "")
					}
					if err := os.Link(path, kept); err != nil {
						t.Fatal(err)
					}
					versions[name] = append(versions[name], kept)
				}
			}
			for range 2 {
				w.checkMixture(rt, tables, versions, publication)
			}
		}
		w.check()
	})
}

// checkMixture opens a random version of each file since a random publication. It must have the keys of that
// publication, and may have those of later ones, none twice. In the last two tables keys are deleted and come back.
func (w *world) checkMixture(rt *rapid.T, tables []*schema.Table, versions map[string][]string, last int) {
	since := rapid.IntRange(0, last).Draw(rt, "since")
	for _, table := range tables {
		var old, mixed, newest []string
		for _, name := range slices.Sorted(maps.Keys(versions)) {
			if all := versions[name]; strings.HasPrefix(name, table.FileName()+"/") {
				old, newest = append(old, all[since]), append(newest, all[last])
				mixed = append(mixed, all[rapid.IntRange(since, last).Draw(rt, "version")])
			}
		}
		if len(newest) == 0 || slices.Max(old) == "" {
			continue
		}
		keys := func(paths []string) string {
			paths = slices.DeleteFunc(paths, func(path string) bool { return path == "" })
			if id := strings.Join(table.Identity(), ", "); id != "" { // one row for each file that has rows of a parent
				return "SELECT DISTINCT " + id + ", filename FROM " + strings.Replace(readAll(paths), "hive", "filename = true, hive", 1)
			}
			return "SELECT " + strings.Join(append(slices.Clone(table.Key), table.Placing()), ", ") + " FROM " + readAll(paths)
		}
		w.exec(func(db *database.DB) error {
			if table == schema.Comments || table == schema.Missing {
				rows, err := db.Query(w.Context(), fmt.Sprintf("SELECT count(*) - count(DISTINCT (%s)) FROM (%s)",
					strings.Join(table.Identity(), ", "), keys(mixed)))
				if err == nil && rows[0][0] != int64(0) {
					rt.Fatalf("table %s: %v keys twice", table.Name, rows[0][0])
				}
				return err
			}
			rows, err := db.Query(w.Context(), fmt.Sprintf(`SELECT (SELECT count(*) FROM (%[4]s (%[1]s) EXCEPT ALL %[4]s (%[2]s))),
				(SELECT count(*) FROM (%[4]s (%[2]s) EXCEPT ALL %[4]s (%[3]s)))`, keys(old), keys(mixed), keys(newest), withoutFile(table)))
			if err == nil && (rows[0][0] != int64(0) || rows[0][1] != int64(0)) {
				rt.Fatalf("table %s: %v keys are not found, and %v twice", table.Name, rows[0][0], rows[0][1])
			}
			return err
		})
	}
}

func withoutFile(t *schema.Table) string {
	if t.Identity() == nil {
		return "FROM"
	}
	return "SELECT " + strings.Join(t.Identity(), ", ") + " FROM"
}

var manyHits = flag.Int64("hits", 50_000, "how many hits TestNewRowsCostLittle has before the new ones")

// TestNewRowsCostLittle: a publication of 40 new hits writes little of many rows again.
func TestNewRowsCostLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("makes many rows")
	}
	w := newWorld(t, schema.Tables(), schema.OpsTables())
	w.copy.limit = defaultLimit
	fill := func(from, to int64) {
		w.exec(func(db *database.DB) error {
			ctx := t.Context()
			for _, table := range []*schema.Table{schema.Outliers, schema.OutliersHistory, schema.OpsRequests} {
				per := int64(40)
				if table == schema.OpsRequests {
					per = 1
				}
				_, err := db.Exec(ctx, fmt.Sprintf("INSERT INTO %s BY NAME SELECT %s FROM range(%d, %d) AS r(i)",
					database.TableName(table), made(table, per), from*per, to*per))
				if err != nil {
					return err
				}
			}
			_, err := db.Exec(ctx, fmt.Sprintf("UPDATE warehouse.outlierd.marks SET id = %d WHERE name IN ('journal', 'operations')", to-1))
			return err
		})
		if err := w.warehouse.Close(); err != nil {
			t.Fatal(err)
		}
	}
	end := *manyHits/40 + 1
	fill(1, end)
	began := time.Now()
	w.publish()
	var whole int64
	for _, info := range filesOf(t, w.dir) {
		whole += info.Size()
	}
	t.Logf("%d hits took %v: %d bytes, %d parts", *manyHits, time.Since(began), whole, len(w.files(schema.Outliers)))
	for round := range int64(2) {
		before := filesOf(t, w.dir)
		fill(end+round, end+round+1)
		began = time.Now()
		w.publish()
		var written int64
		for name, info := range filesOf(t, w.dir) {
			if old := before[name]; old == nil || !os.SameFile(old, info) {
				written += info.Size()
				t.Logf("%s: %d bytes", name, info.Size())
			}
		}
		t.Logf("40 hits took %v and %d bytes", time.Since(began), written)
		if written > 5_000_000 || written == 0 || whole < 5*written {
			t.Errorf("%d bytes were written for 40 new hits, and %d for all others", written, whole)
		}
	}
	w.check()
}

// made is SQL of a row of a table: texts of 60 characters that compress as usual ones, numbers and times.
func made(t *schema.Table, per int64) string {
	var values []string
	for _, c := range t.All() {
		value := ""
		switch {
		case c.Name == t.Placing() || c.Name == t.Version():
			value = fmt.Sprintf("i // %d", per)
		case slices.Equal(t.Key, []string{c.Name}):
			value = "'v' || hash(i)"
		case c.Name == "observed_at":
			value = fmt.Sprintf("TIMESTAMPTZ '2026-01-01 00:00:00+00' + INTERVAL 10 MINUTE * (i // %d)", per)
		case c.SQLType() == "VARCHAR" && t.Repeats(c.Name):
			value = "'value ' || i % 7"
		case c.SQLType() == "VARCHAR":
			value = "'the water has to boil before you add noodles and ' || hash(i)"
		case c.SQLType() == "BIGINT":
			value = "(hash(i) % 100000)::BIGINT"
		case c.SQLType() == "DOUBLE":
			value = "random()"
		case c.SQLType() == "TIMESTAMPTZ":
			value = "TIMESTAMPTZ '2026-01-01 00:00:00+00' + INTERVAL 1 SECOND * (hash(i) % 10000000)::BIGINT"
		default:
			continue
		}
		values = append(values, value+" AS "+database.Name(c.Name))
	}
	return strings.Join(values, ", ")
}

func filesOf(t *testing.T, dir string) map[string]fs.FileInfo {
	all := map[string]fs.FileInfo{}
	for _, name := range namesIn(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = info
	}
	return all
}

// TestLargeTextsFit: answers of 30 MB, in little memory.
func TestLargeTextsFit(t *testing.T) {
	w := newWorld(t, []*schema.Table{schema.Outliers}, nil)
	w.warehouse = warehouse.New(warehouse.Options{
		Path: filepath.Join(t.TempDir(), "warehouse.duckdb"), Temp: t.TempDir(), Tables: w.tables, Memory: 512 << 20,
		Uncommented: true,
	})
	w.copy.warehouse, w.copy.limit = w.warehouse, defaultLimit
	for answer := range 2 {
		w.exec(func(db *database.DB) error {
			_, err := db.Exec(t.Context(), fmt.Sprintf("INSERT INTO warehouse.outliers BY NAME SELECT 'v' || i AS video_id, "+
				"%d AS _response_id, %[1]d AS _first_response_id, repeat(md5(i::VARCHAR), 10 * 32768) AS title "+
				"FROM range(%[1]d * 3, %[1]d * 3 + 3) AS r(i); "+
				"UPDATE warehouse.outlierd.marks SET id = 2 WHERE name = 'journal'", answer))
			return err
		})
	}
	w.publish()
	if n := len(w.files(schema.Outliers)); n != 2 {
		t.Errorf("%d parts", n)
	}
	w.check()
}
