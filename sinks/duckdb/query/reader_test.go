package query

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

func number(t *testing.T, r *Reader) (n int64) {
	t.Helper()
	err := r.All(t.Context(), Question{SQL: "SELECT n + one FROM t, added", Row: func(row []any) error { n = row[0].(int64); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const addOne = "CREATE TEMP TABLE added AS SELECT 1 AS one"

func TestReaderReadsTheNewestPublication(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outliers.duckdb")
	r := NewReader(path, addOne, time.Hour)
	defer r.Close()
	if err := r.All(t.Context()); !errors.Is(err, ErrNotPublished) {
		t.Fatalf("without a file: %v, want %v", err, ErrNotPublished)
	}
	publishNumber(t, path, "41")
	for range 2 {
		if n := number(t, r); n != 42 {
			t.Errorf("got %d, want 42", n)
		}
	}
	publishNumber(t, path, "70")
	if n := number(t, r); n != 71 {
		t.Errorf("got %d, want 71", n)
	}
}

// TestReaderKeepsAnswers as long as nothing is published, and prepares what several questions need once.
func TestReaderKeepsAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outliers.duckdb")
	publishNumber(t, path, "41")
	r := NewReader(path, "CREATE TEMP SEQUENCE asked; CREATE TEMP SEQUENCE prepared", time.Hour)
	defer r.Close()
	ask := func(before, sql string, keep bool) (n int64) {
		t.Helper()
		err := r.All(t.Context(), Question{SQL: sql, Before: before, Keep: keep, Row: func(row []any) error { n = row[0].(int64); return nil }})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const prepare = "CREATE OR REPLACE TEMP TABLE p AS SELECT nextval('prepared') + %s AS n"
	one, ten := strings.ReplaceAll(prepare, "%s", "0"), strings.ReplaceAll(prepare, "%s", "10")
	for range 2 {
		for i, step := range []struct {
			before, sql string
			keep        bool
			want        int64
		}{
			{"", "SELECT nextval('asked')", true, 1}, {"", "SELECT nextval('asked')", true, 1},
			{"", "SELECT nextval('asked')", false, 2}, {"", "SELECT nextval('asked')", false, 3},
			{one, "SELECT n FROM p", true, 1}, {one, "SELECT n FROM p", false, 1}, {ten, "SELECT n FROM p", true, 12},
			{one, "SELECT n FROM p", true, 1}, {one, "SELECT n FROM p", false, 3},
		} {
			if n := ask(step.before, step.sql, step.keep); n != step.want {
				t.Errorf("step %d: got %d, want %d", i, n, step.want)
			}
		}
		publishNumber(t, path, "70")
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
		"wrong SQL": func() error { return r.All(t.Context(), Question{SQL: "SELECT nosuch FROM t"}) },
		"writing":   func() error { return r.All(t.Context(), Question{SQL: "INSERT INTO t VALUES (1)"}) },
		"interruption": func() error {
			return r.All(cancelled, Question{SQL: "SELECT count(*) FROM range(1000000000000)"})
		},
	} {
		if try() == nil {
			t.Errorf("%s: no error", name)
		}
		if n := number(t, r); n != 42 {
			t.Errorf("after %s: got %d, want 42", name, n)
		}
	}
}

// TestReaderPreparesAgainAfterAnInterruption of other SQL, of which a part may have run.
func TestReaderPreparesAgainAfterAnInterruption(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outliers.duckdb")
	publishNumber(t, path, "41")
	r := NewReader(path, addOne, time.Hour)
	defer r.Close()
	const prepare = "CREATE OR REPLACE TEMP TABLE added AS SELECT 2 AS one"
	ask := func() (n int64) {
		t.Helper()
		err := r.All(t.Context(), Question{SQL: "SELECT n + one FROM t, added", Before: prepare,
			Row: func(row []any) error { n = row[0].(int64); return nil }})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	ask()
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	other := strings.Replace(prepare, "2", "3", 1) + "; SELECT count(*) FROM range(1000000000000)"
	if r.All(short, Question{SQL: "SELECT 1", Before: other}) == nil {
		t.Fatal("it was not interrupted")
	}
	if n := ask(); n != 43 {
		t.Errorf("got %d, want 43", n)
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
		if n := number(t, r); n != 42 {
			t.Errorf("got %d after the pause, want 42", n)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}
