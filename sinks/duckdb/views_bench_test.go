package duckdb_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

var sightings = flag.Int("sightings", 200_000, "how many sightings the benchmark of the views has")

// BenchmarkViews queries views over many sightings, and compares each with a query of the history that
// has the same result. It reports seconds, and how many times faster the view is.
func BenchmarkViews(b *testing.B) {
	db, err := database.Open(b.Context(), database.Options{Memory: 4 << 30, Threads: 2, Temp: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	exec := func(sql string) {
		b.Helper()
		if _, err := db.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
	exec("ATTACH " + database.Text(filepath.Join(b.TempDir(), "bench.duckdb")) + " AS warehouse")
	if err := db.Declare(b.Context(), database.NewDeclarations(schema.AllTables(), false), ""); err != nil {
		b.Fatal(err)
	}
	exec(fmt.Sprintf(`INSERT INTO warehouse.main.outliers_history
			(video_id, title, channel_id, view_count, average_views_ratio, z_score, queries, published_at, observed_at, _response_id)
		SELECT md5(v::VARCHAR)[:11], 'title ' || v, md5((v %% 50000)::VARCHAR)[:24], 1000 + v %% 1000000 + i // 40000 * (v %% 977),
			hash(i) %% 1000 / 50, v %% 700 / 70, ['query ' || i %% 40], TIMESTAMP '2025-06-01' + to_minutes(v %% 300000),
			TIMESTAMP '2026-01-01' + to_microseconds((i / %[1]d * 5184000000000)::BIGINT), i // 40
		FROM (SELECT i, (hash(i) %% greatest(%[1]d // 20, 1))::BIGINT AS v FROM range(%[1]d) AS r(i))`, *sightings))
	// The current table as a sink would derive it from the history.
	exec(`INSERT INTO warehouse.main.outliers (video_id, title, channel_id, view_count, average_views_ratio, last_seen_at, first_seen_at,
			previous_seen_at, previous_view_count)
		SELECT video_id, any_value(title), any_value(channel_id), arg_max(view_count, observed_at), max(average_views_ratio),
			max(observed_at), min(observed_at), max(observed_at, 2)[2], arg_max(view_count, observed_at, 2)[2]
		FROM warehouse.main.outliers_history GROUP BY video_id`)
	exec(`INSERT INTO warehouse.ops.searches (id, run_id, job, operation, queries, pages, hits, new_hits, total, seen, left_hits)
		SELECT id, 'run ' || id // 40, 'job', 'search', ['query ' || id % 40], 2, 80, id % 7, 400, 80, 320
		FROM (SELECT DISTINCT _response_id AS id FROM warehouse.main.outliers_history)`)
	exec("CHECKPOINT warehouse; USE warehouse")
	for _, question := range []struct{ name, view, raw string }{
		{"growth", "SELECT video_id, views_per_day FROM growth ORDER BY views_per_day DESC LIMIT 10",
			`SELECT video_id, 24 * (view_count - earlier) / nullif((epoch_us(observed_at) - epoch_us(since)) / 3600000000, 0) AS views_per_day FROM (
				SELECT video_id, view_count, observed_at, lag(view_count) OVER w AS earlier, lag(observed_at) OVER w AS since, lead(observed_at) OVER w AS later
				FROM outliers_history WINDOW w AS (PARTITION BY video_id ORDER BY observed_at)) WHERE later IS NULL ORDER BY views_per_day DESC LIMIT 10`},
		{"one video", "FROM growth_curve WHERE video_id = md5('1')[:11]",
			`SELECT video_id, observed_at, view_count - lag(view_count) OVER (PARTITION BY video_id ORDER BY observed_at)
				FROM outliers_history QUALIFY video_id = md5('1')[:11]`},
		{"top of a week", "FROM weekly_top WHERE week = DATE '2026-02-23' AND query = 'query 7'",
			`SELECT video_id, max(average_views_ratio) AS ratio FROM outliers_history
				WHERE date_trunc('week', observed_at::TIMESTAMP) = TIMESTAMP '2026-02-23' AND list_contains(queries, 'query 7')
				GROUP BY video_id ORDER BY ratio DESC LIMIT 10`},
		{"coverage", "SELECT count(*), sum(left_hits) FROM ops.coverage",
			"SELECT _response_id // 40, queries, count(DISTINCT video_id) FROM outliers_history GROUP BY ALL"},
	} {
		b.Run(question.name, func(b *testing.B) {
			var view, raw time.Duration
			took := func(sql string) time.Duration {
				began := time.Now()
				if _, err := db.Query(b.Context(), sql); err != nil {
					b.Fatal(err)
				}
				return time.Since(began)
			}
			for b.Loop() {
				view += took(question.view)
				raw += took(question.raw)
			}
			b.ReportMetric(view.Seconds()/float64(b.N), "s/view")
			b.ReportMetric(raw.Seconds()/float64(b.N), "s/raw")
			b.ReportMetric(float64(raw)/float64(view), "times")
		})
	}
}
