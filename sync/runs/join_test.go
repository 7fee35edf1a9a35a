package runs_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// TestLiveScanIsFoundBySubject and by nothing else.
func TestLiveScanIsFoundBySubject(t *testing.T) {
	t.Parallel()
	finished := func(t *testing.T, s *state.Store, step runs.Step) { statetest.Supersede(t, s, step.Run) }
	read := func(run string) func(*testing.T, *state.Store, runs.Step) {
		return func(t *testing.T, s *state.Store, step runs.Step) {
			if run != step.Run {
				statetest.BeginRun(t, s, run)
			}
			statetest.Update(t, s, func(tx *store.Tx) error {
				_, err := runs.AddStep(tx, runs.Step{Run: run, Query: outlier.UncheckedQuery(outlier.OpSearch, ""), Scan: statetest.ScanA, Stop: "pages"})
				return err
			})
		}
	}
	closed := func(t *testing.T, s *state.Store, step runs.Step) {
		step.Stop = "scanned"
		statetest.Update(t, s, func(tx *store.Tx) error { return runs.SaveStep(tx, step) })
	}
	for name, c := range map[string]struct {
		state  runs.ScanState
		change func(*runs.Scan)                            // of the wish of another run
		then   []func(*testing.T, *state.Store, runs.Step) // what happens to the run that paid
		found  bool
	}{
		"intended":                                     {runs.ScanIntended, func(*runs.Scan) {}, nil, true},
		"not confirmed":                                {runs.ScanUnknown, func(*runs.Scan) {}, nil, true},
		"running, in another order":                    {runs.ScanRunning, func(s *runs.Scan) { slices.Reverse(s.Queries) }, nil, true},
		"running, for another mode":                    {runs.ScanRunning, func(s *runs.Scan) { s.Mode = "standard" }, nil, false},
		"running, for channels":                        {runs.ScanRunning, func(s *runs.Scan) { s.FindBy = "channels" }, nil, false},
		"running, for a part":                          {runs.ScanRunning, func(s *runs.Scan) { s.Queries = s.Queries[:1] }, nil, false},
		"running, its run cancelled":                   {runs.ScanRunning, func(*runs.Scan) {}, []func(*testing.T, *state.Store, runs.Step){finished}, true},
		"running, and bought again":                    {runs.ScanRunning, func(s *runs.Scan) { s.Again = true }, nil, false},
		"not confirmed, and bought again":              {runs.ScanUnknown, func(s *runs.Scan) { s.Again = true }, nil, true},
		"of this run, and bought again":                {runs.ScanRunning, func(s *runs.Scan) { s.Run, s.Again = "run-1", true }, nil, true},
		"ended and unread":                             {runs.ScanEnded, func(*runs.Scan) {}, nil, true},
		"ended, read by the run that paid":             {runs.ScanEnded, func(*runs.Scan) {}, []func(*testing.T, *state.Store, runs.Step){closed, read("run-1")}, false},
		"ended, read by another":                       {runs.ScanEnded, func(*runs.Scan) {}, []func(*testing.T, *state.Store, runs.Step){read("run-2")}, true},
		"ended, its run cancelled and read by another": {runs.ScanEnded, func(*runs.Scan) {}, []func(*testing.T, *state.Store, runs.Step){read("run-2"), finished}, false},
		"ended, its run cancelled and read by none":    {runs.ScanEnded, func(*runs.Scan) {}, []func(*testing.T, *state.Store, runs.Step){finished}, true},
		"expired":              {runs.ScanExpired, func(*runs.Scan) {}, nil, false},
		"failed":               {runs.ScanFailed, func(*runs.Scan) {}, nil, false},
		"failed, of this run":  {runs.ScanFailed, func(s *runs.Scan) { s.Run = "run-1" }, nil, true},
		"refused":              {runs.ScanRefused, func(*runs.Scan) {}, nil, false},
		"refused, of this run": {runs.ScanRefused, func(s *runs.Scan) { s.Run = "run-1" }, nil, false},
		"disowned":             {runs.ScanNotCreated, func(*runs.Scan) {}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
			step := statetest.BeginRun(t, s, "run-1")
			scan := statetest.Niche(step)
			scan.Deadline = time.Now().Add(time.Hour)
			statetest.Lead(t, s, step, statetest.Intend(t, s, scan), c.state)
			for _, then := range c.then {
				then(t, s, step)
			}
			wish := statetest.Niche(runs.Step{Run: "run-9"})
			c.change(&wish)
			live, err := s.Scans.Live(wish)
			if err != nil || (live != nil) != c.found {
				t.Errorf("found %+v (%v), want one: %v", live, err, c.found)
			}
		})
	}
}

// TestScanPastItsDeadlineMakesRoom for another, even if another still waits for it.
func TestScanPastItsDeadlineMakesRoom(t *testing.T) {
	t.Parallel()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	step := statetest.BeginRun(t, s, "run-1")
	scan := statetest.Niche(step)
	statetest.Lead(t, s, step, statetest.Intend(t, s, scan), runs.ScanRunning)
	statetest.Update(t, s, func(tx *store.Tx) error {
		return runs.SaveScan(tx, runs.Scan{Intent: 1, State: runs.ScanRunning, ScanID: statetest.ScanA, Deadline: time.Now().Add(-time.Minute)})
	})
	other := statetest.Niche(statetest.BeginRun(t, s, "run-2"))
	if live, err := s.Scans.Live(other); live != nil || err != nil {
		t.Errorf("found %+v (%v)", live, err)
	}
	statetest.Intend(t, s, other)
	statetest.CheckScan(t, s, step.ID, runs.ScanExpired)
}

// TestAdoptedScanCountsFromStart: it is live for a day after its start, even if the machine slept for weeks
// between the intent and the start.
func TestAdoptedScanCountsFromStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
		step := statetest.BeginRun(t, s, "run-1")
		statetest.Lead(t, s, step, statetest.Intend(t, s, statetest.Niche(step)), runs.ScanRunning)
		time.Sleep(30 * 24 * time.Hour)
		begun := time.Now()
		statetest.Update(t, s, func(tx *store.Tx) error {
			return runs.SaveScan(tx, runs.Scan{Intent: 1, State: runs.ScanRunning, ScanID: statetest.ScanA, Created: begun})
		})
		for _, after := range []time.Duration{time.Minute, 23 * time.Hour, 25 * time.Hour} {
			time.Sleep(time.Until(begun.Add(after)))
			live, err := s.Scans.Live(statetest.Niche(runs.Step{Run: "run-2"}))
			if err != nil || (live != nil) != (after < 24*time.Hour) {
				t.Errorf("%v after it began it is %+v (%v)", after, live, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestJoinSetsAsideAllOrNothing: the step waits for the scan and has the price of reading
// it, or neither. Each run that joins has a hold of its own.
func TestJoinSetsAsideAllOrNothing(t *testing.T) {
	t.Parallel()
	s, first := statetest.Scanned(t) // 60 of the cycle are held
	var steps []runs.Step
	for _, run := range []string{"run-2", "run-3"} {
		if err := s.Runs.Begin(runs.Run{ID: run, Job: "job of " + run, Status: runs.Running}, []runs.Step{{Query: outlier.UncheckedQuery(outlier.OpStartScan, "")}}); err != nil {
			t.Fatal(err)
		}
		all, err := s.Steps.OfRun(run)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, all[0])
	}
	join := func(step runs.Step, most outlier.Credits) error {
		p := statetest.Capped(most)
		p.Run, p.Step, p.Hold = step.Run, step.ID, 6
		return s.Scans.Join(p, 1)
	}
	err := join(steps[0], 65)
	if over, ok := errors.AsType[*ledger.Exceeded](err); !ok || over.Hold != 6 || over.Price != 0 {
		t.Errorf("over the cap it got %v", err)
	}
	if scan, err := s.Scans.OfStep(steps[0].ID); scan != nil || err != nil {
		t.Errorf("it waits for %+v (%v), and has nothing to read it with", scan, err)
	}
	for i, step := range steps {
		if err := join(step, 72); err != nil {
			t.Fatal(err)
		}
		statetest.CheckHold(t, s, step.ID, 6)
		statetest.CheckHeld(t, s, statetest.Month(), 66+outlier.Credits(6*i))
		if scan := statetest.CheckScan(t, s, step.ID, runs.ScanRunning); scan.Intent != 1 || scan.Run != "run-1" {
			t.Errorf("it waits for %+v", scan)
		}
	}
	statetest.WantText(t, join(steps[0], 100), "joins one scan")
	statetest.Buy(t, s, statetest.Reading(steps[0], 0), statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
	statetest.CheckHold(t, s, steps[0].ID, 4)
	statetest.FinishRun(t, s, first.Run, runs.OK)
	statetest.FinishRun(t, s, "run-2", runs.OK)
	statetest.CheckHold(t, s, first.ID, 0)
	statetest.CheckHold(t, s, steps[0].ID, 0)
	statetest.CheckHold(t, s, steps[1].ID, 6)
	statetest.CheckHeld(t, s, statetest.Month(), 50+2+6)
	statetest.CheckBooks(t, s)

	if rows := statetest.OpsRows(t, s, "ops.requests", 0); len(rows) != 2 {
		t.Errorf("%d requests on record, want the start and a page: joining sends nothing", len(rows))
	}
	kept, err := s.Steps.OfRun("run-2")
	if diff := cmp.Diff(int64(1), kept[0].Joined); diff != "" || err != nil {
		t.Errorf("the step has joined (%v, -want +got):\n%s", err, diff)
	}
}
