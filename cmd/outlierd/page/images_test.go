package page

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outlierd/cmd/outlierd/thumbnails"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/duckdb/query"
)

// TestFormerPictureMatchesItsTime: a time before a change of a video's picture has the picture from before
// that change.
func TestFormerPictureMatchesItsTime(t *testing.T) {
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
	tables.reader = query.NewReader(path, "SELECT 1", keepOpen) // which needs no other tables
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

// TestListPicturesAreFoundTogether, each for its own video: a page of a list asks for dozens at once.
func TestListPicturesAreFoundTogether(t *testing.T) {
	t.Parallel()
	db, err := database.Open(t.Context(), database.Options{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pictures.duckdb")
	_, err = db.Exec(t.Context(), "ATTACH "+database.Text(path)+` AS pictures; USE pictures;
		CREATE TABLE outliers AS SELECT id AS video_id, timestamptz '2026-11-10 00:00:00+00' AS last_seen_at,
			{"default": {url: id || '1', width: 120}, medium: {url: id || '3', width: 320}, high: {url: NULL::TEXT, width: NULL::INTEGER}} AS thumbnails FROM (VALUES ('a'), ('b'), ('c')) AS t(id);
		CREATE TABLE videos AS SELECT * REPLACE ('b' AS video_id, last_seen_at + INTERVAL 1 DAY AS last_seen_at) FROM outliers WHERE video_id = 'c';
		CREATE TABLE channel_uploads (video_id TEXT, last_seen_at TIMESTAMPTZ, thumbnails STRUCT(url TEXT, width BIGINT, height BIGINT)[])`)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	tables := NewTables(path, time.UTC)
	tables.reader = query.NewReader(path, "SELECT 1", keepOpen)
	defer tables.Close()
	add := tables.lists.begin()
	for _, id := range []string{"a", "b", "none"} {
		add(id)
	}
	for id, want := range map[string]string{"a": "a1 a3", "b": "c1 c3", "none": "", "c": "c1 c3", "unknown": ""} {
		var got []string
		images, err := tables.Images(t.Context(), id, time.Time{})
		for _, image := range images {
			got = append(got, image.URL)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v, want %s", id, images, err, want)
		}
	}
	for _, id := range []string{"a", "b", "none"} {
		if got := tables.lists.with(id); len(got) != 3 {
			t.Errorf("%s is asked for with %v", id, got)
		}
	}
	for range maxLists {
		tables.lists.begin()
	}
	if got := tables.lists.with("a"); len(got) != 1 {
		t.Errorf("after other lists it is asked for with %v", got)
	}
}
