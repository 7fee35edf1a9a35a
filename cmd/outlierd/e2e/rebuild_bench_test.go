package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	allocator "github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/outlier/simulator"
	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
	"outlierd/sync/state"
)

// pages returns a job file with searches for forty topics in some sort orders, without enrichment.
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

// hitType is the DuckDB type of a hit, with the documented types of its fields.
const hitType = `STRUCT(
	id VARCHAR, kind VARCHAR, "time" %[1]s,
	snippet STRUCT(channelId VARCHAR, channelTitle VARCHAR, channelHandle VARCHAR, channelSubscribers BIGINT, title VARCHAR,
		publishedAt %[1]s, "language" VARCHAR, duration BIGINT, thumbnails %[2]s,
		monetization STRUCT(rpmEstimationFrom DOUBLE, rpmEstimationTo DOUBLE, revenueEstimationFrom DOUBLE, revenueEstimationTo DOUBLE),
		channelMonetization STRUCT(revenueMonthlyEstimationFrom DOUBLE, revenueMonthlyEstimationTo DOUBLE,
			rpmEstimationFrom DOUBLE, rpmEstimationTo DOUBLE, adsense BOOLEAN)),
	statistics STRUCT(commentCount BIGINT, likeCount BIGINT, viewCount BIGINT, zScore DOUBLE, averageViewsRatio DOUBLE,
		isPositiveOutlier BOOLEAN, isNegativeOutlier BOOLEAN),
	classification STRUCT(isFaceless BOOLEAN, quality VARCHAR))[]`

// readTables builds the tables of hits with SQL, from files with answers and their rows of the journal. It omits what
// read_json cannot return, which are missing and additional fields: the columns extra and fields_missing are NULL.
var readTables = `INSERT INTO warehouse.main.outliers_history BY NAME
	SELECT h.id AS video_id, h.kind, h.snippet.title, h.snippet.channelId AS channel_id, h.snippet.channelTitle AS channel_title,
		h.snippet.channelHandle AS channel_handle, h.snippet.channelSubscribers AS channel_subscribers,
		h.snippet.publishedAt AS published_at, h.snippet."language", h.snippet.thumbnails,
		h.snippet.thumbnails.high.url AS thumbnail_url, h.snippet.duration,
		h.snippet.monetization.rpmEstimationFrom AS rpm_estimation_from, h.snippet.monetization.rpmEstimationTo AS rpm_estimation_to,
		h.snippet.monetization.revenueEstimationFrom AS revenue_estimation_from,
		h.snippet.monetization.revenueEstimationTo AS revenue_estimation_to,
		h.snippet.channelMonetization.revenueMonthlyEstimationFrom AS channel_revenue_monthly_estimation_from,
		h.snippet.channelMonetization.revenueMonthlyEstimationTo AS channel_revenue_monthly_estimation_to,
		h.snippet.channelMonetization.rpmEstimationFrom AS channel_rpm_estimation_from,
		h.snippet.channelMonetization.rpmEstimationTo AS channel_rpm_estimation_to,
		h.snippet.channelMonetization.adsense AS channel_adsense,
		h.statistics.commentCount AS comment_count, h.statistics.likeCount AS like_count, h.statistics.viewCount AS view_count,
		h.statistics.zScore AS z_score, h.statistics.averageViewsRatio AS average_views_ratio,
		h.statistics.isPositiveOutlier AS is_positive_outlier, h.statistics.isNegativeOutlier AS is_negative_outlier,
		h.classification.isFaceless AS is_faceless, h.classification.quality, h."time" AS service_time,
		'search' AS source, queries, item, page, rank_base + place AS "rank",
		run AS _run_id, job AS _job, response AS _response_id, observed_at
	FROM (SELECT * EXCLUDE (answer), unnest(answer.hits) AS h, generate_subscripts(answer.hits, 1) AS place
		FROM read_json(%[1]s, maximum_object_size = 100000000, columns = {
			response: 'BIGINT', run: 'VARCHAR', job: 'VARCHAR', observed_at: 'TIMESTAMPTZ', queries: 'VARCHAR[]', item: 'VARCHAR',
			page: 'BIGINT', rank_base: 'BIGINT', answer: 'STRUCT(hits ` + fmt.Sprintf(hitType, "TIMESTAMPTZ", imagesOf("default", "medium", "high")) + `)'}));
	INSERT INTO warehouse.main.outliers BY NAME
	WITH seen AS (SELECT video_id, max(_response_id) AS _response_id, min(observed_at) AS first_seen_at, max(observed_at) AS last_seen_at,
			count(*) AS times_seen FROM warehouse.main.outliers_history GROUP BY video_id),
		earlier AS (SELECT h.video_id, max(observed_at) AS previous_seen_at, arg_max(view_count, observed_at) AS previous_view_count
			FROM warehouse.main.outliers_history AS h JOIN seen USING (video_id)
			WHERE epoch_us(observed_at) // 86400000000 < epoch_us(last_seen_at) // 86400000000 GROUP BY h.video_id)
	SELECT h.* EXCLUDE (source, queries, seeds, item, page, "rank", scan_id), first_seen_at, last_seen_at, times_seen,
		previous_seen_at, previous_view_count
	FROM warehouse.main.outliers_history AS h JOIN seen USING (video_id, _response_id) LEFT JOIN earlier USING (video_id)`

func imagesOf(sizes ...string) string {
	var fields []string
	for _, size := range sizes {
		fields = append(fields, fmt.Sprintf("%q STRUCT(url VARCHAR, width BIGINT, height BIGINT)", size))
	}
	return "STRUCT(" + strings.Join(fields, ", ") + ")"
}

// readHits builds a single table with some columns of the hits, as a user of DuckDB would.
var readHits = `CREATE OR REPLACE TABLE warehouse.main.hits AS
	SELECT h.id, h.kind, h.snippet.channelId, h.snippet.channelTitle, h.snippet.channelHandle, h.snippet.channelSubscribers,
		h.snippet.title, h.snippet.publishedAt, h.snippet."language", h.snippet.duration, h.snippet.thumbnails.high.url,
		unnest(h.snippet.monetization), unnest(h.snippet.channelMonetization), unnest(h.statistics), unnest(h.classification), h.time
	FROM (SELECT unnest(answer.hits) AS h FROM read_json(%[1]s, maximum_object_size = 100000000, columns = {
		answer: 'STRUCT(hits ` + fmt.Sprintf(hitType, "VARCHAR", `STRUCT("high" STRUCT(url VARCHAR))`) + `)'}))`

// BenchmarkRebuildBesideReadJSON measures how many rows are written to DuckDB per second of CPU time: by the whole
// command "rebuild duckdb", which opens the journal, checks the answers, builds the operations tables too and publishes
// a copy, relative to DuckDB's read_json and SQL with the same answers, from one file and from a file per answer.
// "tables" builds the same tables, which are compared. "plain" builds one table with some columns, without lineage and
// current tables. "appended" decodes the same answers and appends their hits to the history, relative to that table.
func BenchmarkRebuildBesideReadJSON(b *testing.B) {
	w := newWorld(b, simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000})
	w.write(pages())
	w.mustRun("run", "--all", "--yes")
	dir := b.TempDir()
	w.exportAnswers(dir)
	took := func(work func(*database.DB)) float64 {
		db, err := database.Open(b.Context(), database.Options{Memory: 4 << 30, Threads: 2, Temp: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		path := filepath.Join(b.TempDir(), "read.duckdb")
		_, err = db.Exec(b.Context(), "ATTACH "+database.Text(path)+" AS warehouse (BLOCK_SIZE 65536, STORAGE_VERSION 'v1.4.0')")
		if err == nil {
			err = db.Create(b.Context(), slices.Concat(schema.Tables(), schema.OpsTables()))
		}
		if err != nil {
			b.Fatal(err)
		}
		before := cpuOfThisProcess(b)
		work(db)
		if _, err := db.Exec(b.Context(), "CHECKPOINT warehouse"); err != nil {
			b.Fatal(err)
		}
		cpu := cpuOfThisProcess(b) - before
		if rows, err := db.Query(b.Context(), "SELECT count(*) FROM warehouse.main.outliers"); err != nil || rows[0][0] != int64(0) {
			w.sameHits(db)
		}
		return cpu
	}
	read := func(sql, files string) float64 {
		return took(func(db *database.DB) {
			if _, err := db.Exec(b.Context(), fmt.Sprintf(sql, database.Text(filepath.Join(dir, files)))); err != nil {
				b.Fatal(err)
			}
		})
	}
	sums := map[string]float64{}
	for b.Loop() {
		cmd, out := w.command(b.Context(), "rebuild", "duckdb")
		if err := cmd.Run(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		each := map[string]float64{
			"ours": cpuSeconds(cmd), "appended": took(w.appendHits),
			"one": read(readTables, "all.ndjson"), "many": read(readTables, "answers/*.json"),
			"plain one": read(readHits, "all.ndjson"), "plain many": read(readHits, "answers/*.json"),
		}
		for name, cpu := range each {
			b.Logf("%s: %.2f s of CPU", name, cpu)
			sums[name] += cpu
		}
	}
	rows := w.count("outliers_history") + w.count("outliers")
	b.ReportMetric(rows, "rows")
	b.ReportMetric(rows*float64(b.N)/sums["ours"], "rows/cpu-s")
	b.ReportMetric(sums["one"]/sums["ours"], "of-tables-of-one-file")
	b.ReportMetric(sums["many"]/sums["ours"], "of-tables-of-many-files")
	b.ReportMetric(sums["plain one"]/sums["ours"], "of-plain-of-one-file")
	b.ReportMetric(sums["plain many"]/sums["ours"], "of-plain-of-many-files")
	b.ReportMetric(sums["plain one"]/sums["appended"], "appended-of-plain-of-one-file")
	b.ReportMetric(sums["plain many"]/sums["appended"], "appended-of-plain-of-many-files")
}

// appendHits decodes the answers of the journal, and appends their hits to the history, a batch at a time.
func (w *testWorld) appendHits(db *database.DB) {
	w.Helper()
	s, err := state.Open(w.Context(), filepath.Join(w.dir, "data", "state"), state.Options{Service: w.url})
	if err != nil {
		w.Fatal(err)
	}
	defer s.Close()
	decoder := schema.NewDecoder(allocator.DefaultAllocator)
	flush := func() {
		for _, part := range decoder.Take() {
			if part.Table == schema.OutliersHistory {
				release, err := db.Offer("hits", part.Rows)
				if err == nil {
					_, err = db.Exec(w.Context(), "INSERT INTO warehouse.main.outliers_history BY NAME FROM hits")
				}
				if err != nil {
					w.Fatal(err)
				}
				release()
			}
			part.Release()
		}
	}
	for e, err := range s.Journal.After(0) {
		if err == nil {
			err = decoder.Decode(schema.Source{
				Response: e.ID, Run: e.Run, Job: e.Job, ObservedAt: e.ReceivedAt, Op: e.Op, Kind: "search", Queries: e.Params["query"],
				Item: e.Item, Page: e.Page, RankBase: e.RankBase,
			}, e.Body)
		}
		if err != nil {
			w.Fatal(err)
		}
		if decoder.Bytes() >= 8<<20 {
			flush()
		}
	}
	flush()
}

// sameHits compares the tables of hits with those of the published file, without the columns that
// [readTables] omits.
func (w *testWorld) sameHits(db *database.DB) {
	w.Helper()
	if _, err := db.Exec(w.Context(), "ATTACH "+database.Text(w.published())+" AS published (READ_ONLY)"); err != nil {
		w.Fatal(err)
	}
	for _, table := range []string{"outliers", "outliers_history"} {
		rows, err := db.Query(w.Context(), fmt.Sprintf(`SELECT count(*) FROM (
			(SELECT 1, * FROM warehouse.main.%[1]s EXCEPT ALL SELECT 1, * REPLACE (NULL AS fields_missing) FROM published.%[1]s) UNION ALL
			(SELECT 2, * REPLACE (NULL AS fields_missing) FROM published.%[1]s EXCEPT ALL SELECT 2, * FROM warehouse.main.%[1]s))`, table))
		if err != nil {
			w.Fatal(err)
		}
		if rows[0][0] != int64(0) {
			w.Fatalf("%v rows of %s differ", rows[0][0], table)
		}
	}
}

// exportAnswers writes the answers of the journal with their rows to all.ndjson, and each to a file of its own.
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
		line, err := json.Marshal(map[string]any{
			"response": e.ID, "run": e.Run, "job": e.Job, "observed_at": e.ReceivedAt, "queries": e.Params["query"], "item": e.Item,
			"page": e.Page, "rank_base": e.RankBase, "answer": json.RawMessage(e.Body),
		})
		if err != nil {
			w.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "answers", fmt.Sprintf("%d.json", e.ID)), line, 0o644); err != nil {
			w.Fatal(err)
		}
		fmt.Fprintf(lines, "%s\n", line)
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
