package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/internal/testenv"
	"outlierd/outlier/simulator"
	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/duckdb/query"
)

// lineage has the columns with the origin and the times of a row, which differ between a run that was killed and one
// that was not.
var lineage = []string{"_run_id", "_response_id", "_first_response_id", "observed_at", "first_seen_at", "last_seen_at", "checked_at", "retry_at"}

// withoutLineage returns the rows of a table without these columns.
func (w *testWorld) withoutLineage(table string) []string {
	rows := w.rows(table)
	for _, row := range rows {
		for _, name := range lineage {
			delete(row, name)
		}
	}
	return texts(rows)
}

var long = flag.Bool("long", false, "kill 50 times and open the published file 1,000 times, in place of samples, and fetch every page and answer")

// oneSearch returns a job of three queries in one search, with all five enrichments: of three pages and six hits, or
// with -long of five pages and fifteen hits.
func oneSearch() string {
	pages, top := 3, 6
	if *long {
		pages, top = 5, 15
	}
	return fmt.Sprintf(`
version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 1000000/min}
budget: {per_month: 1000}
jobs:
  wide:
    search: {query: [home espresso, moka pot, minecraft], sort: z_score desc, pages: %d}
    enrich:
      sort: z_score desc
      channel_videos: {top: %[2]d}
      channel_shorts: {top: %[2]d}
      details: {top: %[2]d}
      comments: {top: %[2]d}
      transcript: {top: %[2]d}
`, pages, top)
}

// TestKilledRunLosesNothing and buys nothing twice: it kills the program with SIGKILL at random moments of a
// run, runs it again, and compares with an uninterrupted run.
func TestKilledRunLosesNothing(t *testing.T) {
	t.Parallel() // it runs processes of its own
	kills := 1
	if *long {
		kills = 50
	}
	// Without a cache, the service's books show every repeated purchase.
	o := simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000, CachePeriod: time.Nanosecond}
	calm := newWorld(t, o)
	calm.write(oneSearch())
	began := time.Now()
	calm.mustRun("run")
	length := time.Since(began)

	// The moments are different in every test run, so that a few are enough in each.
	random := testenv.Random(t)
	for hit := 0; hit < kills && !t.Failed(); {
		w := newWorld(t, o)
		w.write(oneSearch())
		began := time.Now()
		w.killAfter(time.Duration(random.Int64N(int64(length))))
		lasted := time.Since(began)
		w.mustRun("run")
		w.sameInBothSinks()
		if len(w.rows("ops.runs")) > 1 { // the first run had ended before the kill
			length = min(length, lasted)
			continue
		}
		hit++
		w.sameAs(hit, calm)
		w.repeatsAreUnknown()
	}
}

// sameAs compares every table with that of an uninterrupted run, without lineage.
func (w *testWorld) sameAs(kill int, calm *testWorld) {
	w.Helper()
	w.query("attach if not exists "+database.Text(calm.published())+" as calm (read_only)", func([]any) {})
	for _, table := range schema.Tables() {
		if w.alike(table.Name, "calm."+table.Name, lineage...) {
			continue
		}
		if diff := difference(calm.withoutLineage(table.Name), w.withoutLineage(table.Name)); diff != "" {
			w.Errorf("kill %d: table %s differs from that of an uninterrupted run:\n%s", kill, table.Name, diff)
		}
	}
}

// killAfter starts the run and kills it. A run may end before that.
func (w *testWorld) killAfter(d time.Duration) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), d) // CommandContext kills with SIGKILL
	defer cancel()
	cmd, out := w.command(ctx, "run")
	err := cmd.Run()
	if _, killed := errors.AsType[*exec.ExitError](err); err != nil && !killed && ctx.Err() == nil {
		w.Fatalf("outlierd run: %v\n%s", err, out)
	}
}

// repeatsAreUnknown checks that only answers that were lost in a kill were charged twice, and that the ledger has each
// with the outcome unknown.
func (w *testWorld) repeatsAreUnknown() {
	w.Helper()
	times := map[string]int{}
	for _, call := range w.service.Books().Calls {
		if call.Charged > call.Refunded {
			times[call.Identity]++
		}
	}
	repeats := 0
	for _, n := range times {
		repeats += n - 1
	}
	unknown, held := 0, 0.0
	for _, row := range w.rows("ops.credits") {
		switch row["outcome"] {
		case "unknown":
			unknown++
			held += row["price"].(float64)
		case "spent":
			held += row["price"].(float64)
		}
	}
	if repeats > unknown {
		w.Errorf("%d answers were charged twice, but the ledger has %d attempts with the outcome unknown", repeats, unknown)
	}
	if charged := w.service.Books().Total.Spent(); float64(charged) > held {
		w.Errorf("the ledger has %.0f credits, want at least the %d that the service charged", held, charged)
	}
}

// TestReadersSeeWholeUnlockedBatches opens the published file repeatedly while a run writes and publishes,
// and never meets a lock or a part of a batch.
func TestReadersSeeWholeUnlockedBatches(t *testing.T) {
	t.Parallel() // it runs processes of its own
	if testing.Short() {
		t.Skip("opens the file hundreds of times")
	}
	w := newWorld(t, simulator.Options{Seed: 1, Limit: 1_000_000, Latency: func() time.Duration { return 5 * time.Millisecond }})
	// Short runs, so that the readers meet many publications.
	w.write(strings.Replace(programtest.Searches(1, 2), "per_month: 1000", "per_month: 100000", 1))
	w.mustRun("run", "search-0") // so that the first reader finds a file
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		for {
			cmd, out := w.command(ctx, "run", "--again", "search-0", "search-1", "search-2")
			if err := cmd.Run(); err != nil {
				if ctx.Err() != nil {
					err = nil
				} else {
					err = errors.New(out.String())
				}
				done <- err
				return
			}
		}
	}()
	// A history and its current table are written in one batch, and so are a transcript and its lines: a reader that
	// sees only one of them has read half a batch.
	const torn = `select (select count(*) from (select video_id from outliers_history except select video_id from outliers))
		+ (select count(*) from transcripts t where event_count != (select count(*) from transcript_events e where e.video_id = t.video_id))
		+ (select count(*) from comment_counts c where sampled != (select count(*) from comments m where m.video_id = c.video_id)) as torn`
	var seen int64
	opens := 12
	if *long {
		opens = 1000
	}
	for i := range opens {
		var hits, broken int64
		err := query.RunUnsafe(t.Context(), w.published(), "select (select count(*) from outliers_history), ("+torn+")",
			nil, func(values []any) error {
				hits, _ = values[0].(int64)
				broken = int64(number(values[1]))
				return nil
			})
		if err != nil || broken != 0 || hits < seen {
			t.Fatalf("read %d: %d hits after %d, %d torn rows, error %v", i, hits, seen, broken, err)
		}
		seen = hits
	}
	cancel()
	if err := <-done; err != nil && !strings.Contains(err.Error(), "interrupted") {
		t.Error(err)
	}
}

// number converts a sum, whose type depends on its size.
func number(v any) float64 {
	n, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	if err != nil {
		return -1
	}
	return n
}
