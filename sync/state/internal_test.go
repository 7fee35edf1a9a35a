package state

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"outlierd/sync/store"
)

// What these tests know of the packages that the state is made of.
const (
	newest       = 256                // answers and runs that are checked after a kill
	chunk        = 16                 // answers that are read at a time
	maxErrorText = 500                // bytes that are kept of a text
	keepQueued   = 7 * 24 * time.Hour // how long a call stays queued
	heldPrefix   = "answer-"          // of files that keep an answer in hand
	patience     = 10 * time.Second   // with a lock
)

// textColumn reads one column.
func textColumn(rows *sql.Rows) (all []string, err error) {
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		all = append(all, one)
	}
	return all, errors.Join(rows.Err(), rows.Close())
}

// plan is how the database performs a query, a step a line.
func plan(t *testing.T, s *Store, query string, arguments int) (steps []string) {
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
