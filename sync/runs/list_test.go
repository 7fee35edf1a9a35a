package runs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
)

// perform puts a run of a job on record that stands as status says.
func perform(t *testing.T, s *state.Store, id, job string, status runs.Status) {
	t.Helper()
	r := runs.Run{ID: id, Job: job, Trigger: runs.Manual, Started: time.Now(), Status: runs.Running}
	if err := s.Runs.Begin(r, nil); err != nil {
		t.Fatal(err)
	}
	if status == runs.Running {
		return
	}
	r.Ended, r.Status = time.Now(), status
	if err := s.Finish(r); err != nil {
		t.Fatal(err)
	}
}

// TestRunsListByJobAndStatus also where the process was killed that worked on some of them.
func TestRunsListByJobAndStatus(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	jobs, ends := []string{"a", "b"}, []runs.Status{runs.OK, runs.Failed, runs.Running, runs.Interrupted}
	var all []runs.Run // newest first
	for n := range 40 {
		r := runs.Run{ID: fmt.Sprintf("%04x", n), Job: jobs[n%3%2], Status: ends[n*7%4]}
		perform(t, s, r.ID, r.Job, r.Status)
		all = slices.Insert(all, 0, r)
	}
	check := func(t *testing.T, s *state.Store, as func(runs.Status) runs.Status) {
		for _, job := range append(jobs, "", "c") {
			for _, status := range append(ends, "") {
				var want, got []string
				for _, r := range all {
					if shown := as(r.Status); (job == "" || job == r.Job) && (status == "" || status == shown) {
						want = append(want, fmt.Sprint(r.ID, " ", shown))
					}
				}
				listed, err := s.Runs.List(runs.Filter{Job: job, Status: status}, 0)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range listed {
					got = append(got, fmt.Sprint(r.ID, " ", r.Status))
				}
				if !slices.Equal(want, got) {
					t.Errorf("runs of %q with status %q: want %v, got %v", job, status, want, got)
				}
			}
		}
	}
	check(t, s, func(status runs.Status) runs.Status { return status })
	for before, want := range map[string]string{"0019": "000d 0001", "0001": "", "none": ""} {
		var got []string
		listed, err := s.Runs.List(runs.Filter{Job: "b", Status: runs.Interrupted, Before: before}, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range listed {
			got = append(got, r.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("interrupted runs of b before %s: got %v, want %s", before, got, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	seen, err := state.Peek(t.Context(), dir, statetest.Options())
	if err != nil {
		t.Fatal(err)
	}
	check(t, seen, func(status runs.Status) runs.Status {
		if status == runs.Running {
			return runs.Interrupted
		}
		return status
	})
	for prefix, want := range map[string]string{"0003": "0003", "001": "0010 0011 0012", "0": "0000 0001 0002", "00ff": "", "1": ""} {
		var got []string
		named, err := seen.Runs.Named(prefix, 3)
		for _, r := range named {
			got = append(got, r.ID)
		}
		if strings.Join(got, " ") != want || err != nil {
			t.Errorf("runs named %s: want %s, got %v, error %v", prefix, want, got, err)
		}
	}
	if err := seen.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestStreakCountsLastEndings of a job and leaves out runs that are in progress or overridden.
func TestStreakCountsLastEndings(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	if streak, err := s.Runs.Streak("a"); streak != (runs.Streak{}) || err != nil {
		t.Errorf("without runs: %v, error %v", streak, err)
	}
	for n, status := range []runs.Status{runs.OKEmpty, runs.OK, runs.OKEmpty, runs.OKEmpty, runs.Running} {
		perform(t, s, fmt.Sprint("a", n), "a", status)
		perform(t, s, fmt.Sprint("b", n), "b", runs.Failed)
	}
	by := runs.Run{ID: "by-hand", Job: "a", Trigger: runs.Manual, Started: time.Now(), Status: runs.Failed, Overridden: true}
	if err := s.Runs.Begin(by, nil); err != nil {
		t.Fatal(err)
	}
	streak, err := s.Runs.Streak("a")
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.Runs.Get("a2")
	if err != nil {
		t.Fatal(err)
	}
	if want := (runs.Streak{Status: runs.OKEmpty, Runs: 2, Since: first.Started}); streak != want {
		t.Errorf("want %v, got %v", want, streak)
	}
}
