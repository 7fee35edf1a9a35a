package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/thumbnails"
	"outlierd/sync/job"
)

// Pictures of all kinds of tables are found, and forget removes those of its videos.
func TestForgetRemovesPictures(t *testing.T) {
	t.Parallel()
	bubble(t, `
version: 1
service: {url: "sim://"}
sinks: [{duckdb: outliers.duckdb}]
jobs: {coffee: {search: {query: espresso}, enrich: {channel_videos: {top: 2}, channel_shorts: {top: 2}, details: {top: 2}}}}
`, func(p *person) {
		p.must("run")
		config, err := job.Load(filepath.Join(p.dir, "jobs.yaml"), p.env)
		if err != nil {
			t.Fatal(err)
		}
		pictures := newThumbnails(config, page.NewTables(published(config), config.Timezone), nil)
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
