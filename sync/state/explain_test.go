package state_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// shortScan are scans that end with their first rows, of an index in the order that is asked for, and those of an
// index that has only the open holds or the unfinished runs.
var shortScan = regexp.MustCompile(`^SCAN (t USING (COVERING )?INDEX tasks_rank|attempts USING INDEX attempts_holding(_run)?|` +
	`runs USING INDEX runs_unfinished)$`)

// TestQueriesAvoidQueueAndJournalScans before every call, at every redraw, and in commands that show a part of
// them. Each may sort its few results as often as is stated here.
func TestQueriesAvoidQueueAndJournalScans(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	of := queue.Filter{Job: "a"}
	now := time.Now()
	view := func(f func(*store.Tx) error) error { return s.DB.View(f) }
	newest := func(f runs.Filter) error { _, err := s.Runs.Last(f); return err }
	for name, c := range map[string]struct {
		ask   func() error
		sorts int
	}{
		"next call":                   {func() error { _, err := s.Queue.NextTask(now, of); return err }, 3}, // the other jobs that want it
		"whether a call waits":        {func() error { _, err := s.Queue.Pending(now, of); return err }, 0},
		"next retry":                  {func() error { _, err := s.Queue.NextRetry(now, of); return err }, 0},
		"how many of a job wait":      {func() error { _, err := s.Queue.Queued(of); return err }, 0},
		"what is known":               {func() error { _, err := s.Queue.Fresh("details", []string{"v"}, now, now); return err }, 0},
		"what is not asked for":       {func() error { _, err := s.Queue.Unasked("a", "details", []string{"v"}, now, now); return err }, 0},
		"tasks about an id":           {func() error { _, err := s.Queue.PendingFor("v"); return err }, 9},
		"last search":                 {func() error { _, err := s.Watermarks.LastSearched("a", "key"); return err }, 0},
		"searches for the same":       {func() error { _, err := s.Watermarks.Searched("a", "key"); return err }, 0},
		"runs in progress":            {func() error { _, err := s.Runs.InProgress(); return err }, 1},
		"place of an ordered run":     {func() error { _, err := s.Runs.NextUrgent(); return err }, 0},
		"newest runs":                 {func() error { return newest(runs.Filter{}) }, 0},
		"newest runs of a job":        {func() error { return newest(runs.Filter{Job: "a"}) }, 0},
		"newest failed run":           {func() error { return newest(runs.Filter{Status: runs.Failed}) }, 0},
		"newest failed run of a job":  {func() error { return newest(runs.Filter{Job: "a", Status: runs.Failed}) }, 0},
		"how the runs of a job ended": {func() error { _, err := s.Runs.Streak("a"); return err }, 0},
		"what a sink lacks":           {func() error { _, err := s.Journal.Tail(1); return err }, 0},
		"runs by their ids":           {func() error { _, err := s.Runs.Named("0", 2); return err }, 0},
		"sightings":                   {func() error { _, err := s.Hits.Sightings("v"); return err }, 1},
		"what counts against a cap": {func() error {
			_, err := s.Ledger.Held(ledger.Cap{Scope: ledger.ScopeMonth, Period: ledger.Cycle(now, time.UTC, 1)})
			return err
		}, 0},
		"last success of a job":        {func() error { _, err := s.Runs.LastSuccess("a"); return err }, 0},
		"jobs on record":               {func() error { _, err := s.Runs.Jobs(); return err }, 1}, // the names
		"calls about an id":            {func() error { _, err := s.Calls.About("v"); return err }, 0},
		"a page of the calls of a run": {func() error { _, _, err := s.Calls.PartOfRun("run-1", 100, 100); return err }, 2}, // of ids alone, and of the page
		"calls of a run by operation":  {func() error { _, err := s.Calls.ByOperation("run-1"); return err }, 2},            // to group and to order what was found
		"calls of a page": {func() error {
			return view(func(tx *store.Tx) error { _, err := ledger.CallsOfPage(tx, "run-1", 1, 0); return err })
		}, 0},
		"what to prune": {func() error { _, err := s.Journal.Prune(journal.Keep{Since: now, UpTo: 9}); return err }, 0},
		"whole answers": {func() error { _, err := s.Journal.Kept(); return err }, 0},
	} {
		before := s.DB.Statements()
		if err := c.ask(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		asked := slices.DeleteFunc(s.DB.Statements(), func(query string) bool {
			return slices.Contains(before, query) || strings.HasPrefix(query, "BEGIN") || query == "COMMIT"
		})
		if len(asked) == 0 {
			t.Errorf("%s is not asked for by a statement of its own", name)
		}
		for _, query := range asked {
			steps, sorts := statetest.Plan(t, s, query, statetest.Arguments(query)), 0
			for _, step := range steps {
				if strings.Contains(step, "TEMP B-TREE") {
					sorts++
				}
				for _, table := range []string{"t", "wants", "attempts", "responses", "runs", "run_hits", "h", "steps", "a", "r"} {
					if step == "SCAN "+table || strings.HasPrefix(step, "SCAN "+table+" ") && !shortScan.MatchString(step) {
						t.Errorf("%s is looked for by %q in\n%s", name, step, strings.Join(steps, "\n"))
					}
				}
			}
			if sorts > c.sorts {
				t.Errorf("%s is sorted %d times, want %d:\n%s", name, sorts, c.sorts, strings.Join(steps, "\n"))
			}
		}
	}
}
