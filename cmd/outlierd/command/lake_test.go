//go:build iceberg

package command

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestLakeAwayForADay: the DuckDB file gets all rows meanwhile. The log, the notifications and the status say
// it once. Then the lake catches up by one commit to each table, not one for each of the 24 runs.
func TestLakeAwayForADay(t *testing.T) {
	t.Parallel()
	const jobs = `
version: 1
service: {url: "sim://"}
sinks: [{duckdb: outliers.duckdb}, {iceberg: {catalog: lake/catalog.db, warehouse: lake/files}}]
budget: {per_month: 1000}
notify:
  bell: {command: [/bin/sh, -c, "cat >> RECEIVED"], events: [sink_behind, recovered, failed, partial]}
jobs:
  tea: {every: 1h, reuse_for: 1m, search: {query: green tea}, enrich: {details: {top: 3}, comments: {top: 1, refresh_after: 2h}}, notify: [bell]}
`
	bubble(t, jobs, func(p *person) {
		received := filepath.Join(p.dir, "received")
		p.write(strings.Replace(jobs, "RECEIVED", received, 1))
		lake, away := filepath.Join(p.dir, "lake"), filepath.Join(p.dir, "away")
		move := func(from, to string) {
			if err := os.Rename(from, to); err != nil {
				t.Error(err)
			}
		}
		commits, status := make(chan int, 1), make(chan string, 1)
		ctx, stop := context.WithTimeout(p.Context(), 30*time.Hour)
		defer stop()
		go func() {
			time.Sleep(150 * time.Minute)
			before := p.commits("outliers_history")
			move(lake, away)
			if err := os.WriteFile(lake, nil, 0o644); err != nil {
				t.Error(err)
			}
			time.Sleep(12 * time.Hour)
			status <- p.must("status")
			time.Sleep(12 * time.Hour)
			if err := os.Remove(lake); err != nil {
				t.Error(err)
			}
			move(away, lake)
			time.Sleep(20 * time.Minute)
			commits <- p.commits("outliers_history") - before
		}()
		_, log, code := p.do(ctx, "up")
		if code != exitDone {
			t.Errorf("exit code %d", code)
		}
		events, err := os.ReadFile(received)
		if err != nil {
			t.Fatal(err)
		}
		shown := <-status
		for _, c := range []struct {
			where, text, part string
			want              int
		}{
			{"the log", log, `"msg":"sink disabled","sink":"iceberg"`, 1},
			{"the log", log, `"msg":"sink recovered","sink":"iceberg"`, 1},
			{"the status", shown, "sink    iceberg", 1},
			{"the status", shown, "sink    iceberg 12 answers behind, since 03:00; disabled since 03:00", 1},
			{"the notifications", string(events), `"event":`, 4},
			{"the notifications", string(events), `"event":"partial"`, 1},
			{"the notifications", string(events), `"event":"sink_behind"`, 1},
			{"the notifications", string(events), `"title":"Sink iceberg works again"`, 1},
			{"the notifications", string(events), `"title":"tea works again"`, 1},
		} {
			if got := strings.Count(c.text, c.part); got != c.want {
				t.Errorf("%s has %q %d times, want %d:\n%s", c.where, c.part, got, c.want, c.text)
			}
		}
		if n := <-commits; n != 1 {
			t.Errorf("the lake caught up by %d commits, want 1", n)
		}
		checked := p.must("check", "--read-data")
		if n := strings.Count(checked, "; all rows match the journal"); n != 3 { // DuckDB has two files
			t.Errorf("%d of 3 places match the journal:\n%s", n, checked)
		}
	})
}

// commits returns the number of the last commit to a table of the lake.
func (p *person) commits(table string) (last int) {
	names, err := filepath.Glob(filepath.Join(p.dir, "lake", "files", "outlierd", table, "metadata", "*.metadata.json"))
	if err != nil {
		p.Fatal(err)
	}
	for _, name := range names {
		number, _, _ := strings.Cut(filepath.Base(name), "-")
		n, err := strconv.Atoi(number)
		if err != nil {
			p.Fatal(err)
		}
		last = max(last, n)
	}
	return last
}

// TestForgetNamesNoUnopenedLake: the address of the catalog was mistyped at first.
func TestForgetNamesNoUnopenedLake(t *testing.T) {
	t.Parallel()
	const jobs = `
version: 1
service: {url: "sim://"}
sinks: [{duckdb: outliers.duckdb}, {iceberg: {catalog: "postgres://127.0.0.1:1/lkae", warehouse: lake/files}}]
jobs: {tea: {search: {query: green tea}}}
`
	p := &person{T: t, dir: t.TempDir(), env: os.LookupEnv}
	p.write(jobs)
	p.do(p.Context(), "run")
	p.write(strings.Replace(jobs, "postgres://127.0.0.1:1/lkae", "lake/catalog.db", 1))
	p.must("run", "--again")
	forget := []string{"forget", "--dry-run", "--video", "dQw4w9WgXcQ"}
	if out := p.must(forget...); strings.Contains(out, "lake") {
		t.Errorf("of a lake that was never opened: %s", out)
	}
	p.write(strings.Replace(jobs, "postgres://127.0.0.1:1/lkae", "other/catalog.db", 1))
	contains(t, p.must(forget...), "writes namespace outlierd of the lake ", "lake/catalog.db any more")
}
