package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outlierd/sinks/duckdb"
	"outlierd/sinks/duckdb/database"
)

// TestCheckBesideADaemon checks while a daemon publishes. What a sink has got after the check began is not damage.
func TestCheckBesideADaemon(t *testing.T) {
	t.Parallel() // it runs processes of its own
	w := &testWorld{TB: t, dir: t.TempDir(), url: "sim://"}
	w.write(strings.Replace(keptJobs, "  tea: {", "  tea: {every: 6h, ", 1))
	w.mustRun("run", "coffee")
	// So that the check of the state takes as long as a run.
	large := `CREATE TABLE large AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) SELECT i, randomblob(300) AS x FROM n;
		CREATE INDEX large_x ON large (x)`
	if err := sqliteExec(filepath.Join(w.dir, "data", "state", "state.db"), large); err != nil {
		t.Fatal(err)
	}
	stop := w.daemon()
	ended := make(chan error)
	go func() {
		for range 6 {
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
				t.Fatalf("a run beside %d checks: %v", checks, err)
			}
			stop()
			w.sound()
			return
		default:
			w.mustRun("check")
		}
	}
}

// TestCheckLeavesAFileInUse: the writer's own file is not damaged because a process has just begun to write to it.
func TestCheckLeavesAFileInUse(t *testing.T) {
	t.Parallel() // it runs processes of its own
	w := &testWorld{TB: t, dir: t.TempDir(), url: "sim://"}
	w.write(keptJobs)
	w.mustRun("run", "coffee")
	db, err := database.Open(t.Context(), database.Options{Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	private := filepath.Join(w.dir, "data", "state", duckdb.PrivateName)
	if _, err := db.Exec(t.Context(), "ATTACH "+database.Text(private)+" AS held"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(private + ".wal"); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if said := w.mustRun("check"); strings.Contains(said, duckdb.PrivateName) {
		t.Errorf("a file in use was checked:\n%s", said)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if said := w.mustRun("check"); !strings.Contains(said, duckdb.PrivateName) {
		t.Errorf("the writer's own file was not checked:\n%s", said)
	}
}
