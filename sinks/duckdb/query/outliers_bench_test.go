package query_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/duckdb/query"
)

var outliers = flag.Int("outliers", 100_000, "how many outliers BenchmarkOutliers finds some among, each seen three times")

// BenchmarkOutliers queries a published file for 50 outliers, as a page in the browser does, and runs
// the other queries of these pages.
func BenchmarkOutliers(b *testing.B) {
	path := filepath.Join(b.TempDir(), "outliers.duckdb")
	db, err := database.Open(b.Context(), database.Options{Memory: 2 << 30, Threads: 2, Temp: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	exec := func(sql string) {
		b.Helper()
		if _, err := db.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
	exec("ATTACH " + database.Text(path) + " AS warehouse")
	if err := db.Create(b.Context(), slices.Concat(schema.Tables(), schema.OpsTables())); err != nil {
		b.Fatal(err)
	}
	const row = `md5(i::VARCHAR)[:11], CASE WHEN i % 3 = 0 THEN 'short' ELSE 'video' END, 'title of video ' || i, md5((i % 50000)::VARCHAR)[:24],
		'channel ' || i % 50000, '@handle' || i % 50000, 'en', hash(i) % 10000000, hash(i + 1) % 1000 / 50, hash(i + 2) % 700 / 70,
		TIMESTAMP '2025-06-01' + to_minutes((i % 500000)::BIGINT), 'job-' || i % 7`
	exec(fmt.Sprintf(`INSERT INTO warehouse.main.outliers (video_id, kind, title, channel_id, channel_title, channel_handle, language, view_count,
			average_views_ratio, z_score, published_at, _job, first_seen_at, last_seen_at)
		SELECT %s, now() - to_seconds(30 * (%d - i)), now() - to_seconds(10 * (%[2]d - i)) FROM range(%[2]d) AS r(i)`, row, *outliers))
	exec(fmt.Sprintf(`INSERT INTO warehouse.main.outliers_history (video_id, kind, title, channel_id, channel_title, channel_handle, language, view_count,
			average_views_ratio, z_score, published_at, _job, queries, observed_at)
		SELECT %s, ['query ' || i %% 40], now() - to_seconds(10 * (3 * %d - n)) FROM (SELECT n, n %% %[2]d AS i FROM range(3 * %[2]d) AS r(n))`, row, *outliers))
	exec(fmt.Sprintf("INSERT INTO warehouse.main.videos_history (video_id, view_count, observed_at) SELECT md5(i::VARCHAR)[:11], i, TIMESTAMP '2026-01-01' FROM range(%d) AS r(i)", *outliers/10))
	exec(fmt.Sprintf(`INSERT INTO warehouse.main.transcript_events (video_id, position, start_ms, "text")
		SELECT md5((i // 100)::VARCHAR)[:11], i %% 100, i %% 100 * 1000, 'line ' || i FROM range(%d) AS r(i)`, *outliers*5))
	exec("CHECKPOINT warehouse; DETACH warehouse")
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	const video, channel = "c81e728d9d4", "c81e728d9d4c2f636f067f89" // of i = 2
	for name, sql := range map[string][]string{
		"video":   {query.Video(video), query.Curve(video, 500), query.Sightings(video, 20), query.Changes(video), query.Comments(video), query.Lines(video, "", 0, 500)},
		"channel": {query.Channel(channel), query.Subscribers(channel, 500), query.Uploads(channel, 0, 50)},
		"curves":  {query.Curves([]string{video, "c4ca4238a0b", "eccbc87e4b5"}, 30)},
	} {
		b.Run(name, func(b *testing.B) {
			var questions []query.Question
			for _, one := range sql {
				questions = append(questions, query.Question{SQL: one, Row: func([]any) error { return nil }})
			}
			for b.Loop() {
				if err := query.RunAll(b.Context(), path, questions...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, q := range query.Questions {
		b.Run("question/"+q.Name, func(b *testing.B) {
			for b.Loop() {
				if err := query.RunAll(b.Context(), path, query.Question{SQL: "SELECT * FROM (" + q.SQL + ") LIMIT 1000", Row: func([]any) error { return nil }}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for name, o := range map[string]query.Outliers{
		"newest":   {Order: "first_seen_at"},
		"query":    {Order: "average_views_ratio", Query: "query 7"},
		"job":      {Order: "view_count", Job: "job-3"},
		"channel":  {Order: "z_score", Channel: "channel 77"},
		"several":  {Order: "published_at", Kind: "video", Ratio: 5, Since: time.Date(2025, 7, 15, 0, 0, 0, 0, time.UTC)},
		"far down": {Order: "first_seen_at", Offset: 50_000},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				rows := 0
				o.Limit = 50
				if err := query.Run(b.Context(), path, o.SQL(), nil, func([]any) error { rows++; return nil }); err != nil || rows != 50 {
					b.Fatal(rows, err)
				}
			}
		})
	}
}
