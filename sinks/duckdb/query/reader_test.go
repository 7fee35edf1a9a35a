package query

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/sinks/duckdb/database"
)

// publishNumber replaces the file at path, as a publication does, by one whose table t has a number.
func publishNumber(t *testing.T, path, number string) {
	t.Helper()
	db, err := database.Open(t.Context(), database.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh.duckdb")
	_, err = db.Exec(t.Context(), "ATTACH "+database.Text(fresh)+" AS f; CREATE TABLE f.t AS SELECT "+number+"::BIGINT AS n; DETACH f")
	if err := errors.Join(err, db.Close(), os.Rename(fresh, path)); err != nil {
		t.Fatal(err)
	}
}

// number returns the number, and the publication that it was read from.
func number(t *testing.T, r *Reader) (n int64, publication int) {
	t.Helper()
	publication, err := r.All(t.Context(), Question{SQL: "SELECT n + one FROM t, added", Row: func(row []any) error { n = row[0].(int64); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return n, publication
}

const addOne = "CREATE TEMP TABLE added AS SELECT 1 AS one"

func TestReaderReadsTheNewestPublication(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outliers.duckdb")
	r := NewReader(path, addOne, time.Hour)
	defer r.Close()
	if _, err := r.All(t.Context()); !errors.Is(err, ErrNotPublished) {
		t.Fatalf("without a file: %v, want %v", err, ErrNotPublished)
	}
	publishNumber(t, path, "41")
	for range 2 {
		if n, publication := number(t, r); n != 42 || publication != 1 {
			t.Errorf("got %d of publication %d, want 42 of 1", n, publication)
		}
	}
	publishNumber(t, path, "70")
	if n, publication := number(t, r); n != 71 || publication != 2 {
		t.Errorf("got %d of publication %d, want 71 of 2", n, publication)
	}
}

func TestReaderSurvivesErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outliers.duckdb")
	publishNumber(t, path, "41")
	r := NewReader(path, addOne, time.Hour)
	defer r.Close()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, try := range map[string]func() error{
		"wrong SQL": func() error { _, err := r.All(t.Context(), Question{SQL: "SELECT nosuch FROM t"}); return err },
		"writing":   func() error { _, err := r.All(t.Context(), Question{SQL: "INSERT INTO t VALUES (1)"}); return err },
		"interruption": func() error {
			_, err := r.All(cancelled, Question{SQL: "SELECT count(*) FROM range(1000000000000)"})
			return err
		},
	} {
		if try() == nil {
			t.Errorf("%s: no error", name)
		}
		if n, _ := number(t, r); n != 42 {
			t.Errorf("after %s: got %d, want 42", name, n)
		}
	}
}

func TestReaderClosesTheFileWhenIdle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outliers.duckdb")
	publishNumber(t, path, "41")
	synctest.Test(t, func(t *testing.T) {
		r := NewReader(path, addOne, 10*time.Minute)
		isOpen := func() bool {
			r.turn <- struct{}{}
			defer func() { <-r.turn }()
			return r.file != nil
		}
		for range 3 {
			number(t, r)
			time.Sleep(9 * time.Minute)
			if !isOpen() {
				t.Fatal("the file is closed although it was read a short while ago")
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if isOpen() {
			t.Error("the file is still open ten minutes after the last query")
		}
		if n, publication := number(t, r); n != 42 || publication != 2 {
			t.Errorf("got %d of publication %d after the pause, want 42 of 2", n, publication)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}
