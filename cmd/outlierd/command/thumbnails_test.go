package command

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outlierd/cmd/outlierd/thumbnails"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
)

// Pictures of all kinds of tables are found, and forget removes those of its videos.
func TestForgetRemovesPictures(t *testing.T) {
	t.Parallel()
	bubble(t, `
version: 1
service: {url: "sim://"}
jobs: {coffee: {search: {query: espresso}, enrich: {channel_videos: {top: 2}, channel_shorts: {top: 2}, details: {top: 2}}}}
`, func(p *person) {
		p.must("run")
		config, err := job.Load(filepath.Join(p.dir, "jobs.yaml"), p.env)
		if err != nil {
			t.Fatal(err)
		}
		pictures := newThumbnails(config, newPublishedTables(published(config), config.Timezone), nil)
		var kept []string
		for _, table := range []string{"outliers", "videos", "channel_uploads where kind = 'video'", "channel_uploads where kind = 'short'"} {
			for _, id := range strings.Fields(p.ask("select video_id from " + table + " order by 1 limit 4")) {
				picture, err := pictures.Get(p.Context(), id, 320)
				if err == thumbnails.ErrNone {
					continue
				}
				if err != nil || picture.Type != "image/jpeg" {
					t.Fatalf("%s of %s: %v", id, table, err)
				}
				kept = append(kept, id)
			}
		}
		cache := filepath.Join(config.Data, thumbnails.Folder)
		before, err := os.ReadDir(cache)
		if err != nil || len(before) < 8 {
			t.Fatalf("%d pictures are kept: %v", len(before), err)
		}
		p.must("forget", "--yes", "--video", kept[0])
		after, err := os.ReadDir(cache)
		if err != nil || len(after) != len(before)-1 {
			t.Errorf("%d pictures of %d are kept: %v", len(after), len(before), err)
		}
		if _, err := pictures.Get(p.Context(), kept[0], 320); err != thumbnails.ErrNone {
			t.Errorf("the picture is found again: %v", err)
		}
	})
}

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
	tables := newPublishedTables(path, time.UTC)
	tables.reader = query.NewReader(path, "", keepOpen) // which needs no other tables
	changed := time.Date(2026, 11, 10, 12, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]string{
		changed: "https://i.ytimg.com/1", changed.Add(time.Second): "https://i.ytimg.com/2", changed.AddDate(0, 0, 11): "",
	} {
		if got, err := tables.formerImage(t.Context(), "a", at); err != nil || got.URL != want {
			t.Errorf("at %s: %q, %v, want %q", at, got.URL, err, want)
		}
	}
}
