package facts

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/state"
)

// TestNeverRunIsWhatAnEmptyStateSays: lint prices a job without a state as plan does with one
// in which nothing has happened.
func TestNeverRunIsWhatAnEmptyStateSays(t *testing.T) {
	for _, file := range []string{manyJobs, autoJob} {
		compareWithEmptyState(t, file)
	}
}

// autoJob has a cap of its own, which the reserve of the budget does not reduce.
const autoJob = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 400, reserve: 20}
jobs:
  niches:
    schedule: auto at 06:30
    at_least: 14d
    budget: {per_month: 30}
    for_each: {topic: [home espresso, moka pot, latte art, sourdough, cycling]}
    search: {query: "${topic}", sort: published_at desc, where: {z_score: 1..}}
`

const manyJobs = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 400, pace: even}
lists: {rivals: [UCaaaaaaaaaaaaaaaaaaaaaa, UCbbbbbbbbbbbbbbbbbbbbbb]}
jobs:
  news: {every: 8h, search: {query: [a, b], pages: 3, where: {published_at: since last success}}}
  all: {search: {query: [a], pages: all}, enrich: {details: {top: 5}}, budget: {per_run: 9}}
  scan: {scan: {query: [a], read: {pages: 2}}}
  rivals: {every: 8h, channels: {id: {list: rivals}, fetch: channel_videos}}
  found: {related: {video_id: {sql: SELECT video_id FROM videos}}}
`

func compareWithEmptyState(t *testing.T, file string) {
	t.Helper()
	dir := t.TempDir()
	config, err := job.Parse(filepath.Join(dir, "jobs.yaml"), []byte(file),
		func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	store, err := state.Open(t.Context(), filepath.Join(dir, "state"), state.Options{Service: config.Service.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	o := Options{At: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), Now: true, Assume: true, Calls: true}
	for i := range config.Jobs {
		spec := &config.Jobs[i]
		priced := func(r *Reader) (*plan.Plan, plan.Cost) {
			p, err := r.Plan(t.Context(), spec, o)
			if err != nil {
				t.Fatalf("%s: %v", spec.Name, err)
			}
			return p, p.Cost(spec.Budget, plan.Spent{})
		}
		nothing := func(context.Context, string, string) ([]string, error) { return nil, nil }
		without, with := &Reader{Config: config, IDs: nothing}, &Reader{Config: config, IDs: nothing, Store: store}
		never, cost := priced(without)
		empty, want := priced(with)
		if cost != want || cost.Requests == 0 {
			t.Errorf("%s costs %+v without a state, and %+v with an empty one", spec.Name, cost, want)
		}
		if diff := cmp.Diff(empty.Steps, never.Steps, cmp.Comparer(func(a, b outlier.Query) bool { return a.Op() == b.Op() && a.Encode() == b.Encode() })); diff != "" {
			t.Errorf("%s: the steps differ:\n%s", spec.Name, diff)
		}
	}
}
