package query

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/duckdb/duckdb-go/v2"
	"golang.org/x/sys/unix"

	"outlierd/internal/machine"
	"outlierd/sinks/duckdb/database"
)

// TestRoomFollowsTheMachine: in a small container the kernel would kill the query or a daemon beside it.
func TestRoomFollowsTheMachine(t *testing.T) {
	defer func() { machineMemory = machine.Memory }()
	for has, want := range map[int64]int64{128: 56, 256: 85, 1024: 341, 16384: 512} {
		machineMemory = func() int64 { return has << 20 }
		if got := memoryLimit(exportMemory) >> 20; got != want {
			t.Errorf("%d MiB of %d, want %d", got, has, want)
		}
	}
	machineMemory = func() int64 { return 16 << 30 }
	if got := memoryLimit(jobMemory) >> 20; got != 1024 {
		t.Errorf("SQL of a job may take %d MiB, want 1024", got)
	}
}

// inSmallContainer is a published file, an empty folder for temporary files, and 168 MB of memory.
func inSmallContainer(t *testing.T) (path, temp string) {
	path, temp = publishEmpty(t).Path, t.TempDir()
	t.Setenv("TMPDIR", temp)
	machineMemory = func() int64 { return 3 * database.DefaultMemory }
	t.Cleanup(func() { machineMemory = machine.Memory })
	return path, temp
}

// files returns the number of files below a folder.
func files(t *testing.T, folder string) (n int) {
	t.Helper()
	err := filepath.WalkDir(folder, func(_ string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return n
}

const (
	wide = "(select i, repeat(md5(i::varchar), 8) as x from range(300000) r(i))"
	join = "select max(len(a.x || b.x)) from " + wide + " a join " + wide + " b using (i)"
)

// TestLargeQueryUsesDisk, for a join as for a large result, and removes its temporary files.
func TestLargeQueryUsesDisk(t *testing.T) {
	path, temp := inSmallContainer(t)
	for name, c := range map[string]struct {
		sql  string
		want int
	}{
		"a join":         {join, 1},
		"a large result": {"select *, -i as rowid from " + wide + " order by i", 300_000},
	} {
		rows, spilled := 0, c.want == 1 // a join has no such files any more when its result is read
		err := Run(t.Context(), path, c.sql, nil, func(row []any) error {
			if c.want > 1 && row[0] != int64(rows) {
				t.Fatalf("%s: row %d is %v", name, rows, row[0])
			}
			rows++
			spilled = spilled || rows == c.want && files(t, temp) > 0
			return nil
		})
		if err != nil || rows != c.want || !spilled {
			t.Errorf("%s: %d rows (%v), temporary files: %v, want %d rows and files", name, rows, err, spilled, c.want)
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("%s: left in the temporary folder: %v %v", name, left, err)
		}
	}
}

func TestFoldersOfKilledQueriesAreRemoved(t *testing.T) {
	path, temp := inSmallContainer(t)
	for name, age := range map[string]time.Duration{"outlierd-query-1": 25 * time.Hour, "outlierd-query-2": time.Hour, "other": 100 * time.Hour} {
		folder, at := filepath.Join(temp, name), time.Now().Add(-age)
		err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, "spilled"), nil, 0o600), os.Chtimes(folder, at, at))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := Run(t.Context(), path, "select 1", nil, func([]any) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(temp, "*")); err != nil || len(left) != 2 || filepath.Base(left[1]) != "outlierd-query-2" {
		t.Errorf("left are %v (%v), want the younger folder and the one of another program", left, err)
	}
}

func TestLackOfMemoryHasARemedy(t *testing.T) {
	path, temp := inSmallContainer(t)
	query := func(sql string) func() error {
		return func() error { return Run(t.Context(), path, sql, nil, func([]any) error { return nil }) }
	}
	wantError(t, "needs more memory than 56MB, its limit on this machine: make it read fewer rows",
		query("select list(repeat(md5(i::varchar), 100)) from range(100000) r(i)")) // one value
	t.Setenv("TMPDIR", filepath.Join(temp, "missing"))
	wantError(t, "needs more memory than 56MB, and temporary files are not possible", query(join))

	const full = "failed to offload data block of size 256.0 KiB (17.9 MiB/18.0 MiB used).\nThis limit was set by …"
	t.Setenv("TMPDIR", temp)
	for _, folder := range []string{temp, "/exports"} {
		r := resources{temp: filepath.Join(folder, "some"), memory: 56 << 20}
		wantError(t, "more space for temporary files than half of what is free in "+folder+": ", func() error {
			return r.explainMemory(&duckdb.Error{Type: duckdb.ErrorTypeOutOfMemory, Msg: full})
		})
		if err := r.explainMemory(errors.New(full)); !strings.HasSuffix(err.Error(), "free space there, or set TMPDIR to a folder on another disk") {
			t.Errorf("%v names no remedy", err)
		}
	}
}

// TestCatalogHasOnlyThePublishedTables: the temporary table is in no list of tables or columns.
func TestCatalogHasOnlyThePublishedTables(t *testing.T) {
	path := publishEmpty(t).Path
	for _, sql := range []string{
		"select table_name from duckdb_tables() union all select table_name from duckdb_columns() union all " +
			"select table_name from information_schema.tables union all select name from sqlite_master " +
			"union all select relname from pg_class",
		"from (show all tables)", "show tables",
	} {
		n, told := int64(0), int64(0)
		listed := func(row []any) error {
			n++
			if name := fmt.Sprint(row...); strings.Contains(name, "spooled") || strings.Contains(name, "result") {
				t.Errorf("%s: a row with a table of ours: %v", sql, row)
			}
			return nil
		}
		err := Run(t.Context(), path, sql, nil, listed)
		if err != nil || n == 0 {
			t.Errorf("%s: %d rows and error %v, want the published tables", sql, n, err)
		}
		n = 0
		err = Spool(t.Context(), path, sql, t.TempDir(), func(_ []Field, rows int64) error { told = rows; return nil }, listed)
		if err != nil || n == 0 || told != n {
			t.Errorf("%s: exported %d rows of %d, error %v", sql, n, told, err)
		}
	}
}

// TestQueryLeavesHalfOfTheDisk to a daemon, which buys nothing without space.
func TestQueryLeavesHalfOfTheDisk(t *testing.T) {
	path, temp := inSmallContainer(t)
	var disk unix.Statfs_t
	if err := unix.Statfs(temp, &disk); err != nil {
		t.Fatal(err)
	}
	const ask = "select parse_formatted_bytes(current_setting('max_temp_directory_size'))::bigint"
	err := Run(t.Context(), path, ask, nil, func(row []any) error {
		free := float64(disk.Bavail) * float64(disk.Bsize)
		if share := float64(row[0].(int64)) / free; share < 0.4 || share > 0.6 {
			t.Errorf("temporary files may take %.2f of the free space, want half", share)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
