package statetest

import (
	"database/sql"
	"path/filepath"
	"regexp"
	"testing"

	"outlierd/sync/state"
	"outlierd/sync/store"
)

// Ask gives the rows of a query for one text.
func Ask(t *testing.T, dir, query string) (rows []string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	found, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	for found.Next() {
		rows = append(rows, "")
		if err := found.Scan(&rows[len(rows)-1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// Plan is how the database performs a query, a step a line.
func Plan(t *testing.T, s *state.Store, query string, arguments int) (steps []string) {
	t.Helper()
	type step struct {
		id, parent, unused int
		detail             string
	}
	err := s.DB.View(func(tx *store.Tx) error {
		all, err := store.List(tx, func(l *step) []any { return []any{&l.id, &l.parent, &l.unused, &l.detail} },
			`EXPLAIN QUERY PLAN `+query, make([]any, arguments)...)
		for _, l := range all {
			steps = append(steps, l.detail)
		}
		return err
	})
	if err != nil {
		t.Fatalf("explain %s: %v", query, err)
	}
	return steps
}

// Arguments is how many a query has.
func Arguments(query string) (n int) {
	for _, number := range regexp.MustCompile(`\?(\d?)`).FindAllStringSubmatch(query, -1) {
		if number[1] == "" {
			n++
		} else {
			n = max(n, int(number[1][0]-'0'))
		}
	}
	return n
}
