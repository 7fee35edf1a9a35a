package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"outlierd/outlier/simulator"
	"outlierd/sinks/duckdb/database"
	"outlierd/sync/state"
)

// pages are searches for forty topics in some orders, and fetch nothing about what they find.
func pages() string {
	var jobs strings.Builder
	jobs.WriteString("version: 1\nservice: {url: \"${OUTLIERD_URL}\", key: \"${OUTLIERD_KEY}\", limit: 1000000/min}\n" +
		"budget: {per_month: 100000}\njobs:\n")
	for _, order := range []string{"z_score", "views", "published_at", "average_views_ratio", "revenue", "rpm"} {
		fmt.Fprintf(&jobs, "  by-%s:\n%s    search: {query: \"${topic}\", sort: %[1]s desc, pages: 19}\n", order, topics)
	}
	return jobs.String()
}

const topics = `    for_each:
      topic: [home espresso, moka pot, minecraft, sourdough, mechanical keyboards, home lab, woodworking,
        yoga, chess, gardening, guitar, drones, camping, marathon training, watercolor, bouldering, knitting,
        fishing, astronomy, bread, pottery, running shoes, electric cars, budget travel, meal prep,
        calisthenics, photography, podcasts, interior design, skateboarding, 3d printing, tattoos, aquariums,
        beekeeping, calligraphy, cycling, parkour, origami, cocktails, fermentation]
`

// readJSON makes one table of the hits in files of answers, with the types that the interface
// names, as a person would who has only DuckDB.
const readJSON = `CREATE OR REPLACE TABLE hits AS
	SELECT h.id, h.kind, h.snippet.channelId, h.snippet.channelTitle, h.snippet.channelHandle, h.snippet.channelSubscribers,
		h.snippet.title, h.snippet.publishedAt, h.snippet."language", h.snippet.duration, h.snippet.thumbnails.high.url,
		unnest(h.snippet.monetization), unnest(h.snippet.channelMonetization), unnest(h.statistics), unnest(h.classification), h.time
	FROM (SELECT unnest(hits) AS h FROM read_json(%s, maximum_object_size = 100000000, columns = {hits: 'STRUCT(
		id VARCHAR, kind VARCHAR, "time" VARCHAR,
		snippet STRUCT(channelId VARCHAR, channelTitle VARCHAR, channelHandle VARCHAR, channelSubscribers BIGINT, title VARCHAR,
			publishedAt TIMESTAMP, "language" VARCHAR, duration BIGINT, thumbnails STRUCT("high" STRUCT(url VARCHAR)),
			monetization STRUCT(rpmEstimationFrom DOUBLE, rpmEstimationTo DOUBLE, revenueEstimationFrom DOUBLE, revenueEstimationTo DOUBLE),
			channelMonetization STRUCT(revenueMonthlyEstimationFrom DOUBLE, revenueMonthlyEstimationTo DOUBLE,
				rpmEstimationFrom DOUBLE, rpmEstimationTo DOUBLE, adsense BOOLEAN)),
		statistics STRUCT(commentCount BIGINT, likeCount BIGINT, viewCount BIGINT, zScore DOUBLE, averageViewsRatio DOUBLE,
			isPositiveOutlier BOOLEAN, isNegativeOutlier BOOLEAN),
		classification STRUCT(isFaceless BOOLEAN, quality VARCHAR))[]'}))`

// BenchmarkRebuildBesideReadJSON is how many hits a second of CPU brings into DuckDB: by the whole
// command "rebuild duckdb", which opens the journal, judges the answers, keeps a history and the
// last state of each video and publishes a copy, as a multiple of what DuckDB's read_json makes of
// the same answers in one plain table, from one file and from a file an answer.
func BenchmarkRebuildBesideReadJSON(b *testing.B) {
	w := newWorld(b, simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000})
	w.write(pages())
	w.mustRun("run", "--all", "--yes")
	dir := b.TempDir()
	w.exportAnswers(dir)
	db, err := database.Open(b.Context(), database.Options{Memory: 4 << 30, Threads: 2, Temp: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(b.Context(), "ATTACH "+database.Text(filepath.Join(dir, "hits.duckdb"))+" AS plain; USE plain"); err != nil {
		b.Fatal(err)
	}
	read := func(files string) float64 {
		before := cpuOfThisProcess(b)
		if _, err := db.Exec(b.Context(), fmt.Sprintf(readJSON, database.Text(filepath.Join(dir, files)))+"; CHECKPOINT"); err != nil {
			b.Fatal(err)
		}
		return cpuOfThisProcess(b) - before
	}
	var ours, one, many float64
	for b.Loop() {
		cmd, out := w.command(b.Context(), "rebuild", "duckdb")
		if err := cmd.Run(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		ours += cpuSeconds(cmd)
		one += read("all.ndjson")
		many += read("answers/*.json")
	}
	hits := w.count("outliers_history")
	b.ReportMetric(hits, "hits")
	b.ReportMetric(hits*float64(b.N)/ours, "hits/cpu-s")
	b.ReportMetric(one/ours, "of-one-file")
	b.ReportMetric(many/ours, "of-many-files")
}

// exportAnswers writes the answers of the journal into all.ndjson, and each into a file of its own.
func (w *testWorld) exportAnswers(dir string) {
	w.Helper()
	s, err := state.Open(w.Context(), filepath.Join(w.dir, "data", "state"), state.Options{Service: w.url})
	if err != nil {
		w.Fatal(err)
	}
	defer s.Close()
	all, err := os.Create(filepath.Join(dir, "all.ndjson"))
	if err != nil {
		w.Fatal(err)
	}
	defer all.Close()
	lines := bufio.NewWriter(all)
	if err := os.Mkdir(filepath.Join(dir, "answers"), 0o755); err != nil {
		w.Fatal(err)
	}
	for e, err := range s.Journal.After(0) {
		if err != nil {
			w.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "answers", fmt.Sprintf("%d.json", e.ID)), e.Body, 0o644); err != nil {
			w.Fatal(err)
		}
		fmt.Fprintln(lines, strings.ReplaceAll(string(e.Body), "\n", ""))
	}
	if err := lines.Flush(); err != nil {
		w.Fatal(err)
	}
}

func cpuOfThisProcess(b *testing.B) float64 {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return float64(use.Utime.Nano()+use.Stime.Nano()) / 1e9
}
