package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/warehouse"
)

// TestCheckBesideADaemon checks while a daemon publishes: rows that a sink received during the check are not damage.
func TestCheckBesideADaemon(t *testing.T) {
	t.Parallel() // it runs processes of its own
	w := newKeptWorld(t)
	w.write(strings.Replace(keptJobs, "  tea: {", "  tea: {every: 6h, ", 1))
	runs, rows := 2, 30_000
	if *long {
		runs, rows = 3, 200_000
	}
	// A large table, so that the check of the state takes as long as a run.
	large := fmt.Sprintf(`CREATE TABLE large AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		SELECT i, randomblob(300) AS x FROM n; CREATE INDEX large_x ON large (x)`, rows)
	if err := programtest.ExecSQLite(filepath.Join(w.dir, "data", "state", "state.db"), large); err != nil {
		t.Fatal(err)
	}
	stop := w.daemon()
	ended := make(chan error)
	go func() {
		for range runs {
			cmd, out := w.command(t.Context(), "run", "tea", "--again")
			if err := cmd.Run(); err != nil {
				ended <- fmt.Errorf("%w: %s", err, out)
				return
			}
		}
		ended <- nil
	}()
	for checks := 0; ; checks++ {
		select {
		case err := <-ended:
			if err != nil || checks == 0 {
				t.Fatalf("runs during %d checks: %v, want success, and at least one check", checks, err)
			}
			stop()
			w.sound()
			return
		default:
			w.mustRun("check")
		}
	}
}

// TestCheckLeavesPrivateFileUnlocked, so that a run that starts meanwhile can write to it: check reads a copy, also of a
// file that another process has open for writing.
func TestCheckLeavesPrivateFileUnlocked(t *testing.T) {
	t.Parallel() // it runs processes of its own
	w := newKeptWorld(t)
	private := filepath.Join(w.dir, "data", "state", warehouse.Name)
	held := w.hold(private)
	check := func(args ...string) {
		t.Helper()
		if output := w.mustRun(args...); !strings.Contains(output, warehouse.Name+" holds") {
			t.Errorf("%v: the private file was not checked:\n%s", args, output)
		}
	}
	check("check")
	check("check", "--read-data")
	if _, err := held.Exec(t.Context(), "CREATE TABLE held.more AS SELECT 1 AS a; CHECKPOINT held"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(private + ".wal"); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	check("check")
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
}

// hold opens a DuckDB file as its writer does, under the name held.
func (w *testWorld) hold(path string) *database.DB {
	w.Helper()
	db, err := database.Open(w.Context(), database.Options{Memory: 64 << 20})
	if err != nil {
		w.Fatal(err)
	}
	if _, err := db.Exec(w.Context(), "ATTACH "+database.Text(path)+" AS held"); err != nil {
		w.Fatal(err)
	}
	return db
}
