package main

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"outlierd/outlier/pace"
	"outlierd/outlier/simulator"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
)

// jobsOfALargeState are two of the forty jobs of [statetest.Large], one of them with 300 searches.
const jobsOfALargeState = `
version: 1
service: {url: "https://service.test", key: "${OUTLIERD_KEY}", limit: 10/min}
budget: {per_month: 10000, pace: even}
jobs:
  job-00:
    every: 6h
    for_each: {topic: [TOPICS]}
    search: {query: ["${topic}"], pages: 2, where: {published_at: "since last success, overlap 14d, first 30d"}}
    enrich: {details: {}, comments: {}, transcript: {}}
  job-01:
    schedule: "30 6 * * *"
    search: {query: [home espresso]}
    enrich: {details: {}, transcript: {top: 10}}
`

// BenchmarkGlance measures commands that read a large state, each in a process of its own: time and peak
// memory, of which 40 to 60 MB are the program itself. On Linux a process starts with the peak of its
// parent, so the memory is right only if the state was generated before.
func BenchmarkGlance(b *testing.B) {
	w, jobs := largeWorld(b)
	w.write(jobs)
	for _, args := range [][]string{{"version"}, {"budget"}, {"plan"}, {"why", "v0000000123"}, {"queue"}, {"queue", "job-07"}, {"queue", "-o", "ndjson"}} {
		b.Run(strings.Join(args, "_"), func(b *testing.B) {
			var cpu time.Duration
			peak := 0.0
			for b.Loop() {
				cmd, _ := w.command(b.Context(), args...)
				cmd.Stdout, cmd.Stderr = nil, nil // output in memory here would count as memory of the program
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
				cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				peak = max(peak, float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024)
			}
			b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
			b.ReportMetric(peak, "peak-MB")
		})
	}
}

// largeWorld returns a world whose state has a million queued calls, and a job file for it.
func largeWorld(b *testing.B) (w *testWorld, jobs string) {
	w = newWorld(b, simulator.Options{Seed: 1})
	var topics []string
	for n := range 300 {
		topics = append(topics, "topic number "+strings.Repeat("i", n%7)+string(rune('a'+n%26))+string(rune('a'+n/26)))
	}
	statetest.Large(b, filepath.Join(w.dir, "data", "state"), func(dir string) error {
		s, err := state.Open(b.Context(), dir, state.Options{Service: "https://service.test"})
		if err != nil {
			return err
		}
		return s.Close()
	})
	return w, strings.ReplaceAll(jobsOfALargeState, "TOPICS", strings.Join(topics, ", "))
}

// BenchmarkNow measures what the daemon does for the page Now with that state.
func BenchmarkNow(b *testing.B) {
	w, jobs := largeWorld(b)
	file := filepath.Join(w.dir, "jobs.yaml")
	config, err := job.Parse(file, []byte(jobs), func(name string) (string, bool) { return "demo", name == "OUTLIERD_KEY" })
	if err != nil {
		b.Fatal(err)
	}
	store, err := state.Open(b.Context(), filepath.Join(w.dir, "data", "state"), state.Options{Service: config.Service.URL})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	limiter, err := pace.Open(config.Service.Limit, pace.Options{Path: filepath.Join(w.dir, "pace.json")})
	if err != nil {
		b.Fatal(err)
	}
	known := &facts.Reader{Config: config, Store: store}
	for b.Loop() {
		s, err := (&forecast.Reader{Facts: known, Pace: limiter}).Status()
		if err != nil {
			b.Fatal(err)
		}
		_, failed := cycleOf(known, &s.Budget[0])
		_, unread := (runsOnRecord{store, time.UTC}).troubles(s.At)
		if err := errors.Join(failed, unread); err != nil {
			b.Fatal(err)
		}
	}
}
