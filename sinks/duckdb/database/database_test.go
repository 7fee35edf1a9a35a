package database_test

import (
	"fmt"
	"testing"

	"outlierd/sinks/duckdb/database"
)

// TestThreadsFollowTheOptions: the default is one thread, whatever the number of processors.
func TestThreadsFollowTheOptions(t *testing.T) {
	t.Parallel()
	for threads, want := range map[int]string{0: "1", 1: "1", 3: "3"} {
		db, err := database.Open(t.Context(), database.Options{Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		rows, err := db.Query(t.Context(), "select current_setting('threads')::varchar")
		if err != nil || fmt.Sprint(rows) != "[["+want+"]]" {
			t.Errorf("%d threads: %v, %v, want %s", threads, rows, err, want)
		}
	}
}
