package engine

import (
	"fmt"
	"testing"
	"time"

	"outlierd/sync/job"
)

// TestResumedRunsAreForgottenWithTheDueTime: a daemon that runs for years remembers no more than one
// that has just started.
func TestResumedRunsAreForgottenWithTheDueTime(t *testing.T) {
	s := &scheduler{tried: map[string]triedRuns{}}
	a := &DueRun{Spec: &job.Spec{Name: "coffee"}, Due: time.Unix(0, 0)}
	for year := range 10 {
		for hour := range 365 * 24 {
			a.Due = a.Due.Add(time.Hour)
			for _, run := range []string{fmt.Sprint(year, "-", hour), "stuck"} {
				if !s.tryOnce(a, run) || s.tryOnce(a, run) {
					t.Fatalf("run %s is not continued once before %s", run, a.Due)
				}
			}
		}
	}
	if tried := s.tried["coffee"]; len(s.tried) != 1 || len(tried.runs) != 2 {
		t.Errorf("after ten years it remembers %v", tried.runs)
	}
}
