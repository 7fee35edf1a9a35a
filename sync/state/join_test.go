package state

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// TestScansThatEarlierVersionsStartedTwiceStayLive, and no other is started beside them.
func TestScansThatEarlierVersionsStartedTwiceStayLive(t *testing.T) {
	dir := stateOfVersion(t, 11, `
		INSERT INTO scans (run, job, due, step, find_by, mode, queries, wanted, price, state, scan, status, intended, created, polled, next_poll, deadline, polls)
		VALUES ('r1', 'a', 0, 1, 'query', 'fast', '["x"]', '["x"]', 50, 'intended', '', '', 1, 0, 0, 0, 0, 0),
			('r2', 'b', 0, 2, 'query', 'fast', '["x"]', '["x"]', 50, 'intended', '', '', 1, 0, 0, 0, 0, 0),
			('r3', 'c', 0, 3, 'query', 'fast', '["x"]', '["x"]', 50, 'intended', '', '', 1, 0, 0, 0, 0, 0),
			('r4', 'd', 0, 4, 'query', 'fast', '["x"]', '["x"]', 50, 'intended', '', '', 1, 0, 0, 0, 0, 0),
			('r5', 'e', 0, 5, 'query', 'fast', '["y"]', '["y"]', 50, 'intended', '', '', 1, 0, 0, 0, 0, 0);
		UPDATE scans SET state = 'unknown';
		UPDATE scans SET state = 'ended', scan = 's1' WHERE id = 1;
		UPDATE scans SET state = 'running', scan = 's2' WHERE id = 2;
		UPDATE scans SET state = 'running', scan = 's4' WHERE id = 4;`)
	s := open(t, dir)
	err := s.DB.Update(func(tx *store.Tx) error {
		_, err := s.Runs.IntendScan(tx, runs.Scan{Run: "r6", Job: "f", Step: 6, FindBy: "query", Mode: "fast", Queries: []string{"x"}, Again: true})
		return err
	})
	if live, ok := errors.AsType[*runs.LiveScanError](err); !ok || live.Scan.Intent != 3 {
		t.Errorf("another one got %v, want a refusal for the one that is not confirmed", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{"1 ended 0", "2 running 0", "3 unknown 1", "4 running 2", "5 unknown 0"}
	if got := ask(t, dir, `SELECT id || ' ' || state || ' ' || again FROM scans ORDER BY id`); !slices.Equal(got, want) {
		t.Errorf("scans %q, want %q", got, want)
	}
}

// TestLiveScanIsFoundByWhatItLooksFor and by nothing else.
func TestLiveScanIsFoundByWhatItLooksFor(t *testing.T) {
	finished := func(t *testing.T, s *Store, step runs.Step) { supersede(t, s, step.Run) }
	read := func(run string) func(*testing.T, *Store, runs.Step) {
		return func(t *testing.T, s *Store, step runs.Step) {
			if run != step.Run {
				beginRun(t, s, run)
			}
			update(t, s, func(tx *store.Tx) error {
				_, err := runs.AddStep(tx, runs.Step{Run: run, Op: outlier.OpSearch, Scan: scanA, Stop: "pages"})
				return err
			})
		}
	}
	closed := func(t *testing.T, s *Store, step runs.Step) {
		step.Stop = "scanned"
		update(t, s, func(tx *store.Tx) error { return runs.SaveStep(tx, step) })
	}
	for name, c := range map[string]struct {
		state  runs.ScanState
		change func(*runs.Scan)                      // of the wish of another run
		then   []func(*testing.T, *Store, runs.Step) // what happens to the run that paid
		found  bool
	}{
		"intended":                            {runs.ScanIntended, func(*runs.Scan) {}, nil, true},
		"not confirmed":                       {runs.ScanUnknown, func(*runs.Scan) {}, nil, true},
		"running, in another order":           {runs.ScanRunning, func(s *runs.Scan) { slices.Reverse(s.Queries) }, nil, true},
		"running, for another mode":           {runs.ScanRunning, func(s *runs.Scan) { s.Mode = "standard" }, nil, false},
		"running, for channels":               {runs.ScanRunning, func(s *runs.Scan) { s.FindBy = "channels" }, nil, false},
		"running, for a part":                 {runs.ScanRunning, func(s *runs.Scan) { s.Queries = s.Queries[:1] }, nil, false},
		"running, its run given up":           {runs.ScanRunning, func(*runs.Scan) {}, []func(*testing.T, *Store, runs.Step){finished}, true},
		"running, and bought again":           {runs.ScanRunning, func(s *runs.Scan) { s.Again = true }, nil, false},
		"not confirmed, and bought again":     {runs.ScanUnknown, func(s *runs.Scan) { s.Again = true }, nil, true},
		"of this run, and bought again":       {runs.ScanRunning, func(s *runs.Scan) { s.Run, s.Again = "run-1", true }, nil, true},
		"ended and unread":                    {runs.ScanEnded, func(*runs.Scan) {}, nil, true},
		"ended, read by the run that paid":    {runs.ScanEnded, func(*runs.Scan) {}, []func(*testing.T, *Store, runs.Step){closed, read("run-1")}, false},
		"ended, read by another":              {runs.ScanEnded, func(*runs.Scan) {}, []func(*testing.T, *Store, runs.Step){read("run-2")}, true},
		"ended, given up and read by another": {runs.ScanEnded, func(*runs.Scan) {}, []func(*testing.T, *Store, runs.Step){read("run-2"), finished}, false},
		"ended, given up and read by nobody":  {runs.ScanEnded, func(*runs.Scan) {}, []func(*testing.T, *Store, runs.Step){finished}, true},
		"expired":                             {runs.ScanExpired, func(*runs.Scan) {}, nil, false},
		"failed":                              {runs.ScanFailed, func(*runs.Scan) {}, nil, false},
		"failed, of this run":                 {runs.ScanFailed, func(s *runs.Scan) { s.Run = "run-1" }, nil, true},
		"refused":                             {runs.ScanRefused, func(*runs.Scan) {}, nil, false},
		"refused, of this run":                {runs.ScanRefused, func(s *runs.Scan) { s.Run = "run-1" }, nil, false},
		"disowned":                            {runs.ScanNotCreated, func(*runs.Scan) {}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := hasty(t, open(t, t.TempDir()))
			step := beginRun(t, s, "run-1")
			scan := niche(step)
			scan.Deadline = time.Now().Add(time.Hour)
			lead(t, s, step, intend(t, s, scan), c.state)
			for _, then := range c.then {
				then(t, s, step)
			}
			wish := niche(runs.Step{Run: "run-9"})
			c.change(&wish)
			live, err := s.Runs.LiveScan(wish)
			if err != nil || (live != nil) != c.found {
				t.Errorf("found %+v (%v), want one: %v", live, err, c.found)
			}
		})
	}
}

// TestScanPastItsDeadlineMakesRoom for another, whoever still waits for it.
func TestScanPastItsDeadlineMakesRoom(t *testing.T) {
	s := hasty(t, open(t, t.TempDir()))
	step := beginRun(t, s, "run-1")
	scan := niche(step)
	lead(t, s, step, intend(t, s, scan), runs.ScanRunning)
	update(t, s, func(tx *store.Tx) error {
		return runs.SaveScan(tx, runs.Scan{Intent: 1, State: runs.ScanRunning, ScanID: scanA, Deadline: time.Now().Add(-time.Second)})
	})
	other := niche(beginRun(t, s, "run-2"))
	if live, err := s.Runs.LiveScan(other); live != nil || err != nil {
		t.Errorf("found %+v (%v)", live, err)
	}
	intend(t, s, other)
	checkScan(t, s, step.ID, runs.ScanExpired)
}

// TestJoinSetsAsideAllOrNothing: the step waits for the scan and has the price of reading
// it, or neither. Each run that joins has a hold of its own.
func TestJoinSetsAsideAllOrNothing(t *testing.T) {
	s, first := scanned(t) // 60 of the cycle are held
	var steps []runs.Step
	for _, run := range []string{"run-2", "run-3"} {
		if err := s.Runs.Begin(runs.Run{ID: run, Job: "job of " + run, Status: runs.Running}, []runs.Step{{Op: outlier.OpStartScan}}); err != nil {
			t.Fatal(err)
		}
		all, err := s.Runs.Steps(run)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, all[0])
	}
	join := func(step runs.Step, most outlier.Credits) error {
		p := capped(most)
		p.Run, p.Step, p.Hold = step.Run, step.ID, 6
		return s.Runs.JoinScan(p, 1)
	}
	err := join(steps[0], 65)
	if over, ok := errors.AsType[*ledger.Exceeded](err); !ok || over.Hold != 6 || over.Price != 0 {
		t.Errorf("over the cap it got %v", err)
	}
	if scan, err := s.Runs.ScanOf(steps[0].ID); scan != nil || err != nil {
		t.Errorf("it waits for %+v (%v), and has nothing to read it with", scan, err)
	}
	for i, step := range steps {
		if err := join(step, 72); err != nil {
			t.Fatal(err)
		}
		checkHold(t, s, step.ID, 6)
		checkHeld(t, s, month(), 66+outlier.Credits(6*i))
		if scan := checkScan(t, s, step.ID, runs.ScanRunning); scan.Intent != 1 || scan.Run != "run-1" {
			t.Errorf("it waits for %+v", scan)
		}
	}
	wantText(t, join(steps[0], 100), "joins one scan")
	buy(t, s, reading(steps[0], 0), answerTo(searchRequest("0"), `{}`), outlier.Charged)
	checkHold(t, s, steps[0].ID, 4)
	finishRun(t, s, first.Run, runs.OK)
	finishRun(t, s, "run-2", runs.OK)
	checkHold(t, s, first.ID, 0)
	checkHold(t, s, steps[0].ID, 0)
	checkHold(t, s, steps[1].ID, 6)
	checkHeld(t, s, month(), 50+2+6)
	checkBooks(t, s)

	if rows := opsRows(t, s, "ops.requests", 0); len(rows) != 2 {
		t.Errorf("%d requests on record, want the start and a page: joining sends nothing", len(rows))
	}
	kept, err := s.Runs.Steps("run-2")
	if diff := cmp.Diff(int64(1), kept[0].Joined); diff != "" || err != nil {
		t.Errorf("the step has joined (%v, -want +got):\n%s", err, diff)
	}
}
