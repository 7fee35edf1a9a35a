package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sync/runs"
)

// flaky is a copy whose publication fails on request: before or after it.
type flaky struct {
	sinks.Copy
	fails func() string
}

func (s flaky) Publish(ctx context.Context) error {
	when := s.fails()
	if when == "before" {
		return errBroken
	}
	if err := s.Copy.Publish(ctx); err != nil {
		return err
	}
	if when != "" {
		return errBroken
	}
	return nil
}

// opsAgree compares the operations tables of both sinks, every value.
func (w *workshop) opsAgree(when string) {
	w.Helper()
	for _, table := range schema.OpsTables() {
		file, err := filepath.Glob(filepath.Join(w.data(), "parquet", table.FileName(), "*"))
		if err != nil {
			w.Fatal(err)
		}
		var other []string
		one := w.rows("select columns(*)::varchar from " + table.Name)
		if len(file) > 0 {
			other = w.rows(fmt.Sprintf("select columns(*)::varchar from read_parquet('%s/**/*.parquet', union_by_name = true)",
				filepath.Join(w.data(), "parquet", table.FileName())))
		}
		slices.Sort(one)
		slices.Sort(other)
		if diff := cmp.Diff(one, other); diff != "" {
			w.Errorf("%s: %s (-in DuckDB +in Parquet):\n%s", when, table.Name, diff)
		}
	}
}

// TestSinksAgreeAgainAfterOneFailed to publish, in any way, by the end of the process.
func TestSinksAgreeAgainAfterOneFailed(t *testing.T) {
	t.Parallel()
	const file = "version: 1\nservice: {url: \"sim://\"}\njobs: {coffee: {every: 1h, reuse_for: 1m, search: {query: [home espresso]}}}\n"
	bubble(t, file, func(w *workshop) {
		w.withSinks(func(e *Engine) {
			w.see(e, "coffee")
			if err := e.Publish(w.ctx); err != nil {
				t.Fatal(err)
			}
		})
		hows := []string{"before", "after"}
		testenv.Random(t).Shuffle(2, func(i, k int) { hows[i], hows[k] = hows[k], hows[i] })
		for which, how := range hows { // one of the two for each sink, by chance
			e, stop := w.open()
			failed := 0
			e.Line.Copies[which] = flaky{e.Line.Copies[which], func() string {
				if failed++; failed == 1 {
					return how
				}
				return ""
			}}
			row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
			if err != nil || row.Status != runs.Partial {
				t.Errorf("%s %d: status %s, %v", how, which, row.Status, err)
			}
			stop()
			w.opsAgree(fmt.Sprintf("sink %d failed %s", which, how))
			time.Sleep(time.Hour)
		}
		// A sink that is repaired while the daemon runs waits for its next attempt.
		e, stop := w.open()
		began := time.Now()
		e.Line.Copies[1] = flaky{e.Line.Copies[1], func() string {
			if time.Since(began) < 62*time.Minute {
				return "before"
			}
			return ""
		}}
		if _, err := e.Agenda(began); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := contextFor(w, 63*time.Minute)
		defer cancel()
		e.Serve(ctx)
		stop()
		w.opsAgree("up was stopped")
	})
}
