package statetest

import (
	"database/sql"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
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
	rows, err = TextColumn(found)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TextColumn reads one column.
func TextColumn(rows *sql.Rows) (all []string, err error) {
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		all = append(all, one)
	}
	return all, errors.Join(rows.Err(), rows.Close())
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

// Loops returns the body of each loop over one of the indexes in the program of a query: the names of its
// operations, as SQLite's EXPLAIN shows them.
func Loops(t *testing.T, s *state.Store, query string, indexes ...string) (bodies [][]string) {
	t.Helper()
	type operation struct {
		Code            string
		Address, P1, P2 int
	}
	var program []operation
	err := s.DB.View(func(tx *store.Tx) (err error) {
		var unused any
		program, err = store.List(tx, func(o *operation) []any {
			return []any{&o.Address, &o.Code, &o.P1, &o.P2, &unused, &unused, &unused, &unused}
		}, "EXPLAIN "+query, make([]any, Arguments(query))...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	cursors := map[int]bool{}
	for _, o := range program {
		codes = append(codes, o.Code)
		if o.Code == "OpenRead" {
			cursors[o.P1] = slices.Contains(indexes, objectAt(t, s, o.P2))
		}
	}
	for at, o := range program {
		if o.Code == "Next" && cursors[o.P1] {
			bodies = append(bodies, codes[o.P2:at])
		}
	}
	return bodies
}

// objectAt returns the name of the table or index whose root is a page of the file.
func objectAt(t *testing.T, s *state.Store, page int) (name string) {
	t.Helper()
	err := s.DB.View(func(tx *store.Tx) error {
		return tx.Row(`SELECT name FROM sqlite_schema WHERE rootpage = ?`, page).Scan(&name)
	})
	if err != nil {
		t.Fatal(err)
	}
	return name
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
