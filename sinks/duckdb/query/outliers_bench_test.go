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

// published writes a published file with so many outliers, each seen three times.
func published(b *testing.B, outliers int) (path string) {
	path = filepath.Join(b.TempDir(), "outliers.duckdb")
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
	exec("ATTACH " + database.Text(path) + " AS warehouse (BLOCK_SIZE 65536, STORAGE_VERSION 'v1.4.0')")
	if err := db.Create(b.Context(), slices.Concat(schema.Tables(), schema.OpsTables())); err != nil {
		b.Fatal(err)
	}
	const words = `['home', 'espresso', 'machine', 'I', 'pulled', 'shots', 'sourdough', 'for', 'beginners', 'moka', 'pot', 'why', 'latte', 'art', 'tested', 'days']`
	const row = `md5(i::VARCHAR)[:11], CASE WHEN i % 3 = 0 THEN 'short' ELSE 'video' END,
		concat_ws(' ', ` + words + `[(1 + hash(i) % 16)::BIGINT], ` + words + `[(1 + hash(i + 5) % 16)::BIGINT], ` + words + `[(1 + hash(i + 6) % 16)::BIGINT], ` + words + `[(1 + hash(i + 7) % 16)::BIGINT], i),
		md5((i % 50000)::VARCHAR)[:24], 'channel ' || i % 50000, '@handle' || i % 50000, (hash(i % 50000) % 2000000)::BIGINT,
		['en', 'de', 'pt', 'es', 'ja'][(1 + hash(i + 3) % 60 // 14)::BIGINT], hash(i) % 10000000, hash(i + 1) % 1000 / 50, hash(i + 2) % 700 / 70,
		TIMESTAMP '2025-06-01' + to_minutes((i % 500000)::BIGINT), 'job-' || i % 7`
	const columns = "video_id, kind, title, channel_id, channel_title, channel_handle, channel_subscribers, language, view_count, average_views_ratio, z_score, published_at, _job"
	exec(fmt.Sprintf(`INSERT INTO warehouse.main.outliers (%s, first_seen_at, last_seen_at, previous_seen_at, previous_view_count)
		SELECT %s, now() - to_seconds(30 * (%d - i)), now() - to_seconds(10 * (%[3]d - i)), now() - to_seconds(20 * (%[3]d - i)) - INTERVAL 1 DAY, (hash(i) %% 10000000 // 2)::BIGINT
		FROM range(%[3]d) AS r(i)`, columns, row, outliers))
	exec(fmt.Sprintf(`INSERT INTO warehouse.main.outliers_history (%s, queries, observed_at)
		SELECT %s, ['query ' || i %% 40], now() - to_seconds(10 * (3 * %d - n)) FROM (SELECT n, n %% %[3]d AS i FROM range(3 * %[3]d) AS r(n))`, columns, row, outliers))
	exec(`INSERT INTO warehouse.main.channel_statistics (channel_id, kind, median_views_estimate, view_variation_coefficient)
		SELECT md5(i::VARCHAR)[:24], 'video', hash(i) % 100000, hash(i) % 200 / 100 FROM range(50000) AS r(i)`)
	exec(fmt.Sprintf("INSERT INTO warehouse.main.videos_history (video_id, view_count, observed_at) SELECT md5(i::VARCHAR)[:11], i, TIMESTAMP '2026-01-01' FROM range(%d) AS r(i)", outliers/10))
	exec(fmt.Sprintf(`INSERT INTO warehouse.main.transcript_events (video_id, position, start_ms, "text")
		SELECT md5((i // 100)::VARCHAR)[:11], i %% 100, i %% 100 * 1000, 'line ' || i FROM range(%d) AS r(i)`, outliers*5))
	exec("CHECKPOINT warehouse; DETACH warehouse")
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkOutliers queries a published file as the pages in the browser do.
func BenchmarkOutliers(b *testing.B) {
	path := published(b, *outliers)
	reader := query.NewReader(path, query.Setup, time.Hour)
	defer reader.Close()
	ask := func(b *testing.B, most int, sql ...string) {
		b.Helper()
		rows := 0
		var questions []query.Question
		for _, one := range sql {
			if one != "" {
				questions = append(questions, query.Question{SQL: one, Row: func([]any) error { rows++; return nil }})
			}
		}
		for b.Loop() {
			rows = 0
			if _, err := reader.All(b.Context(), questions...); err != nil || rows > most {
				b.Fatal(rows, err)
			}
		}
	}
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			if err := reader.Close(); err != nil {
				b.Fatal(err)
			}
			if _, err := reader.All(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	const video, channel = "c81e728d9d4", "c81e728d9d4c2f636f067f89" // of i = 2
	for name, sql := range map[string][]string{
		"video":   {query.Video(video), query.Curve(video, 500), query.Sightings(video, 20), query.Changes(video), query.Comments(video), query.Lines(video, "", 0, 500)},
		"channel": {query.Channel(channel), query.Subscribers(channel, 500), query.Uploads(channel, 0, 50)},
	} {
		b.Run(name, func(b *testing.B) { ask(b, 1000, sql...) })
	}
	for _, q := range query.Questions {
		b.Run("question/"+q.Name, func(b *testing.B) { ask(b, 1000, "SELECT * FROM ("+q.SQL+") LIMIT 1000") })
	}
	for name, o := range map[string]query.Outliers{
		"everything": {},
		"week":       {Week: true},
		"words":      {Words: "moka art"},
		"gain":       {Order: "gain"},
		"median":     {Order: "median"},
		"query":      {Query: "query 7"},
		"topic":      {Chosen: map[string][]string{"topic": {"query 7"}}},
		"job":        {Order: "views", Job: "job-3"},
		"channel":    {Order: "score", Channel: "channel 77"},
		"several":    {Order: "published", Chosen: map[string][]string{"kind": {"video"}, "ratio": {"5"}, "days": {"400"}}},
		"most words": {Words: "e", Chosen: map[string][]string{"kind": {"video"}, "ratio": {"3"}}},
		"far down":   {Order: "found", Offset: 50_000},
	} {
		o.Now, o.Limit = time.Now(), 48
		b.Run("page/"+name, func(b *testing.B) { ask(b, 49, o.Search(), o.Cards()) })
		b.Run("counts/"+name, func(b *testing.B) { ask(b, 300, o.Search(), o.Counts()) })
	}
}
