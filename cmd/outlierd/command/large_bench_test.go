package command

import (
	"path/filepath"
	"testing"
	"time"

	"outlierd/outlier/pace"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
)

// BenchmarkNow measures what the daemon does for the page Now with 100,800 queued calls, as many as can be served
// before they expire.
func BenchmarkNow(b *testing.B) {
	dir := b.TempDir()
	folder := filepath.Join(dir, "data", "state")
	statetest.Large(b, folder, func(dir string) error {
		s, err := state.Open(b.Context(), dir, state.Options{Service: "https://service.test"})
		if err != nil {
			return err
		}
		return s.Close()
	})
	config, err := job.Parse(filepath.Join(dir, "jobs.yaml"), []byte(statetest.LargeJobs),
		func(name string) (string, bool) { return "demo", name == "OUTLIERD_KEY" })
	if err != nil {
		b.Fatal(err)
	}
	store, err := state.Open(b.Context(), folder, state.Options{Service: config.Service.URL})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	limiter, err := pace.Open(config.Service.Limit, pace.Options{Path: filepath.Join(dir, "pace.json")})
	if err != nil {
		b.Fatal(err)
	}
	known := &facts.Reader{Config: config, Store: store}
	for b.Loop() {
		s, err := (&forecast.Reader{Reader: known, Pace: limiter}).Status()
		if err != nil {
			b.Fatal(err)
		}
		cycleOf(known, &s.Budget[0])
		if _, err := listLast(store, runs.Filter{}, lastRuns, time.UTC); err != nil {
			b.Fatal(err)
		}
	}
}
