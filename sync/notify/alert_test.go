package notify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"outlierd/sync/store"
)

const rivalAlert = `alerts: {rival-hit: {about: A rival, key: [Video_ID], sql: "select 1 -- all;", notify: hook}}
`

// found are rows of a result as DuckDB writes them.
func found(ids ...int) (rows []string) {
	for _, id := range ids {
		rows = append(rows, fmt.Sprintf(`{"video_id":"video-%06d","title":"Title %d <!channel>","z_score":5.25}`, id, id))
	}
	return rows
}

func upTo(n int) (ids []int) {
	for i := range n {
		ids = append(ids, i)
	}
	return ids
}

func TestEachNewRowOfAnAlertIsToldOnce(t *testing.T) {
	w := newWorld(t, rivalAlert)
	var rows []string
	var failure error
	a := &Alerts{Watcher: w.watcher, Store: w.state.DB, Log: w.logger(), Ask: func(_ context.Context, sql string) ([]string, error) {
		if !strings.Contains(sql, "select 1 -- all\n)") {
			t.Errorf("asked %s", sql)
		}
		return rows, failure
	}}
	evaluate := func(want int, ids ...int) {
		t.Helper()
		rows = found(ids...)
		a.Evaluate(t.Context())
		told := 0
		for _, e := range w.events("hook") {
			told += len(e.Rows)
		}
		if told != want {
			t.Errorf("after %d rows %d are told, want %d", len(ids), told, want)
		}
	}
	evaluate(0, 1, 2, 2)
	evaluate(0, 1, 2)
	evaluate(1, 1, 2, 3, 3)
	evaluate(1)
	evaluate(1, 1, 2, 3)
	e := w.events("hook")[0]
	if r := e.Rows[0]; e.Title != "A rival: Title 3 <!channel>" || e.Kind != Alert || e.Alert != "rival-hit" ||
		r.Link != "" || fmt.Sprint(r.Values["z_score"]) != "5.25" {
		t.Errorf("got %+v", e)
	}
	evaluate(100, upTo(102)...) // 0 and 4 to 101 are new
	if n := len(w.events("hook")); n != 1+5 {
		t.Errorf("%d events, want 5 with up to %d rows each", n, MaxRows)
	}

	failure = errors.New("no such table")
	evaluate(100)
	evaluate(100)
	if said := w.log.String(); strings.Count(said, "alert failed") != 1 {
		t.Errorf("the log says:\n%s", said)
	}
	failure = nil

	// Another key means other rows: they are recorded again.
	w.config.Alerts[0].Key = []string{"title"}
	evaluate(100, upTo(103)...)
	evaluate(101, 103)
	w.config.Alerts[0].Key = []string{"nothing"}
	evaluate(101, 104)
	if said := w.log.String(); !strings.Contains(said, "no column nothing") {
		t.Errorf("the log says:\n%s", said)
	}
	w.close()
}

// TestSeenRowsAreLookedUp: an alert that has told many rows costs no more than one that is new.
func TestSeenRowsAreLookedUp(t *testing.T) {
	w := newWorld(t, rivalAlert)
	err := w.state.DB.View(func(tx *store.Tx) error {
		plan, err := store.List(tx, func(s *step) []any { return []any{&s.id, &s.parent, &s.unused, &s.does} },
			"EXPLAIN QUERY PLAN "+seenBefore, "rival-hit", `["a"]`)
		got := fmt.Sprint(plan)
		if err == nil && !strings.Contains(got, "SEARCH r USING PRIMARY KEY (alert=? AND key=?)") {
			t.Errorf("the rows are found by %s", got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.close()
}

// step is one of how SQLite performs a query.
type step struct {
	id, parent, unused int64
	does               string
}

func TestARowLeadsToItsVideo(t *testing.T) {
	for text, want := range map[string]string{
		`{"video_id":"dQw4w9WgXcQ"}`:                              "https://youtu.be/dQw4w9WgXcQ",
		`{"video_id":"dQw4w9WgXcQ","link":"https://a.example/1"}`: "https://a.example/1",
		`{"video_id":"../../evil1"}`:                              "",
		`{"VIDEO_ID":"dQw4w9WgXcQ"}`:                              "https://youtu.be/dQw4w9WgXcQ",
	} {
		if k, err := readRow(text, nil); err != nil || k.row.Link != want {
			t.Errorf("%s leads to %q (%v)", text, k.row.Link, err)
		}
	}
}
