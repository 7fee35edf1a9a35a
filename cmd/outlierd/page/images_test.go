package page

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"outlierd/cmd/outlierd/thumbnails"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/duckdb/query"
)

// TestFormerPictureIsThatOfItsTime: a video's picture until each of its changes.
func TestFormerPictureIsThatOfItsTime(t *testing.T) {
	t.Parallel()
	db, err := database.Open(t.Context(), database.Options{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "changes.duckdb")
	_, err = db.Exec(t.Context(), "ATTACH "+database.Text(path)+` AS changes; CREATE TABLE changes.title_changes AS
		FROM (VALUES ('a', 'thumbnail', 'https://i.ytimg.com/1', timestamptz '2026-11-10 12:00:00.5+00'),
			('a', 'title', 'a title', timestamptz '2026-11-15 12:00:00+00'),
			('a', 'thumbnail', 'https://i.ytimg.com/2', timestamptz '2026-11-20 12:00:00+00'),
			('b', 'thumbnail', 'https://i.ytimg.com/3', timestamptz '2026-11-25 12:00:00+00')) AS t(video_id, what, before, changed_by)`)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	tables := NewTables(path, time.UTC)
	tables.reader = query.NewReader(path, "", keepOpen) // which needs no other tables
	changed := time.Date(2026, 11, 10, 12, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]string{
		changed: "https://i.ytimg.com/1", changed.Add(time.Second): "https://i.ytimg.com/2", changed.AddDate(0, 0, 11): "",
	} {
		got := []thumbnails.Image{}
		err := tables.read(t.Context(), rows(tables, query.FormerThumbnail("a", at), &got))
		if got = append(got, thumbnails.Image{}); err != nil || got[0].URL != want {
			t.Errorf("at %s: %q, %v, want %q", at, got[0].URL, err, want)
		}
	}
}
