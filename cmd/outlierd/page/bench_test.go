package page

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/marks"
)

var manyOutliers = flag.Int("outliers", 100_000, "how many outliers BenchmarkPage shows some of, each seen three times")

// publishMany writes a published file with so many outliers, each seen three times.
func publishMany(b testing.TB, outliers int) (path string) {
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
	if err := db.Declare(b.Context(), database.NewDeclarations(schema.AllTables(), false), ""); err != nil {
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

// TestTabsHaveCounts even if there are as many saved views as there may be.
func TestTabsHaveCounts(t *testing.T) {
	tables := NewTables(publishMany(t, 100), time.UTC)
	defer tables.Close()
	tables.Marks = func() (*Marked, error) {
		m := &Marked{}
		for i := range 200 {
			m.Views = append(m.Views, marks.View{Address: fmt.Sprint("/found?ratio=", i)})
		}
		return m, nil
	}
	for range 2 {
		found, err := tables.Found(t.Context(), Filter{Show: ShowAll, Outliers: query.Outliers{Limit: 1}})
		if err != nil || len(found.Views) != 203 || *found.Views[1].Count != 100 || *found.Views[3].Count != 100 || *found.Views[202].Count != 0 {
			t.Fatalf("views %+v: %v", found.Views, err)
		}
	}
}

// BenchmarkPage requests pages over many outliers, whose numbers are counted each time. Those of the tabs are kept, as
// they are as long as nothing is published.
func BenchmarkPage(b *testing.B) {
	tables := NewTables(publishMany(b, *manyOutliers), time.UTC)
	defer tables.reader.Close()
	site := New(b.Context(), Sources{
		Now:   func(context.Context) (*Now, error) { return &Now{}, nil },
		Found: tables.Found, Video: tables.Video, Channel: tables.Channel, Niche: tables.Niche,
	}, "", slog.New(slog.DiscardHandler))
	mux := http.NewServeMux()
	for pattern, handler := range site.Routes() {
		mux.HandleFunc(pattern, handler)
	}
	get := func(b *testing.B, path string) {
		b.Helper()
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK || w.Body.Len() > 150_000 {
			b.Fatalf("%s: HTTP %d, %d bytes", path, w.Code, w.Body.Len())
		}
	}
	get(b, "/found?more=faceless") // opens the file, and counts what is in the tabs
	days := 90_000                 // makes each filter another one, so that its numbers are counted
	for name, path := range map[string]string{
		"size":       "/found?size=10K",
		"words":      "/found?q=moka+art",
		"many words": "/found?q=e&kind=video&ratio=3",
		"gain":       "/found?order=gain",
		"topic":      "/found?topic=query+7",
		"query":      "/found?query=query+7",
		"job":        "/found?job=job-3&order=views",
		"several":    "/found?kind=video&ratio=5&order=published",
		"steady":     "/found?more=steady&more=rising",
		"table":      "/found?as=table&order=median",
		"far down":   "/found?order=found&page=1000",
		"no match":   "/found?q=nosuchword&ratio=30",
		"video":      "/videos/c81e728d9d4",
		"channel":    "/channels/c81e728d9d4c2f636f067f89",
		"niche":      "/niches/query%207",
		"kept":       "/found",
	} {
		b.Run(name, func(b *testing.B) {
			began := cpuTime(b)
			for b.Loop() {
				if days++; strings.Contains(path, "?") {
					get(b, fmt.Sprintf("%s&days=%d", path, days))
				} else {
					get(b, path)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-began).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// cpuTime returns the CPU time of the process, which a busy machine does not lengthen.
func cpuTime(b *testing.B) time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
