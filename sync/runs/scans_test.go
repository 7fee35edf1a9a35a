package runs_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// A scan is stored with all its fields, from intent to end.
func TestScanRecordIsComplete(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	step := statetest.BeginRun(t, s, "run-1")
	want := statetest.Niche(step)
	want.Due = statetest.Noon
	want.Intent = statetest.Intend(t, s, want)
	statetest.Buy(t, s, statetest.Running(statetest.Starting(step, want.Intent, 100), statetest.ScanA), statetest.AnswerTo(statetest.ScanRequest(), `{}`), outlier.Charged)

	want.State, want.ScanID, want.Status = runs.ScanEnded, statetest.ScanA, "Completed"
	want.Created, want.Polled, want.NextPoll, want.Polls = statetest.Noon, statetest.Noon.Add(time.Hour), time.Time{}, 7
	statetest.Update(t, s, func(tx *store.Tx) error { return runs.SaveScan(tx, want) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = statetest.Open(t, dir)
	ignored := cmpopts.IgnoreFields(runs.Scan{}, "Intended")
	byID, err := s.Scans.ByID(statetest.ScanA)
	if diff := cmp.Diff(&want, byID, ignored); diff != "" || err != nil {
		t.Errorf("by its id (%v, -want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff(byID, statetest.CheckScan(t, s, step.ID, runs.ScanEnded)); diff != "" {
		t.Errorf("by its step (-by id +got):\n%s", diff)
	}
	if all, err := s.Scans.List(); len(all) != 1 || err != nil {
		t.Errorf("%d scans (%v), want 1", len(all), err)
	}
	for _, id := range []string{"", statetest.ScanB} {
		if got, err := s.Scans.ByID(id); got != nil || err != nil {
			t.Errorf("scan %q is %+v (%v)", id, got, err)
		}
	}
	if got, err := s.Scans.OfStep(99); got != nil || err != nil {
		t.Errorf("a step without a scan has %+v (%v)", got, err)
	}
}

// A second intent is refused while an equal scan is intended, running or unknown, unless it is bought again
// beside a running one.
func TestUnfinishedScanBlocksEqualIntent(t *testing.T) {
	t.Parallel()
	due := statetest.Noon
	for name, c := range map[string]struct {
		change  func(*runs.Scan)
		state   runs.ScanState // of the first
		refused bool
	}{
		"the same":                           {func(*runs.Scan) {}, runs.ScanIntended, true},
		"queries in another order":           {func(s *runs.Scan) { s.Queries = []string{"go", "chess"} }, runs.ScanIntended, true},
		"another run and step":               {func(s *runs.Scan) { s.Run, s.Step = "run-2", 99 }, runs.ScanIntended, true},
		"one whose outcome is unknown":       {func(*runs.Scan) {}, runs.ScanUnknown, true},
		"one that runs":                      {func(*runs.Scan) {}, runs.ScanRunning, true},
		"one that has ended":                 {func(*runs.Scan) {}, runs.ScanEnded, false},
		"one past its deadline":              {func(*runs.Scan) {}, runs.ScanExpired, false},
		"one that was refused":               {func(*runs.Scan) {}, runs.ScanRefused, false},
		"one that an operator disowned":      {func(*runs.Scan) {}, runs.ScanNotCreated, false},
		"another job":                        {func(s *runs.Scan) { s.Job = "rivals" }, runs.ScanRunning, true},
		"another job, unknown":               {func(s *runs.Scan) { s.Job = "rivals" }, runs.ScanUnknown, true},
		"bought again beside one that runs":  {func(s *runs.Scan) { s.Again = true }, runs.ScanRunning, false},
		"bought again beside an unknown one": {func(s *runs.Scan) { s.Again = true }, runs.ScanUnknown, true},
		"bought again while one is intended": {func(s *runs.Scan) { s.Again = true }, runs.ScanIntended, true},
		"another mode":                       {func(s *runs.Scan) { s.Mode = "standard" }, runs.ScanRunning, false},
		"other queries":                      {func(s *runs.Scan) { s.Queries = s.Queries[:1] }, runs.ScanRunning, false},
		"channels instead of queries":        {func(s *runs.Scan) { s.FindBy = "channels" }, runs.ScanRunning, false},
		"another due instant":                {func(s *runs.Scan) { s.Due = due.Add(time.Hour) }, runs.ScanRunning, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
			step := statetest.BeginRun(t, s, "run-1")
			first, second := statetest.Niche(step), statetest.Niche(step)
			c.change(&second)
			first.Due = second.Due
			if name == "another due instant" {
				first.Due = due
			}
			first.Intent = statetest.Intend(t, s, first)
			statetest.Lead(t, s, step, first.Intent, c.state)
			err := s.DB.Update(func(tx *store.Tx) error { _, err := s.Scans.Intend(tx, second); return err })
			if refused := store.IsConstraint(err); refused != c.refused || refused != (err != nil) {
				t.Fatalf("a second intent got %v, want a refusal: %v", err, c.refused)
			}
		})
	}
}

// TestUnsentRefusedIntentsAreReplaced: a step that is parked, or over a cap, makes another intent at every
// turn.
func TestUnsentRefusedIntentsAreReplaced(t *testing.T) {
	t.Parallel()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	step := statetest.BeginRun(t, s, "run-1")
	refuse := func(intent int64) {
		t.Helper()
		statetest.Update(t, s, func(tx *store.Tx) error { return runs.SaveScan(tx, runs.Scan{Intent: intent, State: runs.ScanRefused}) })
	}
	first := statetest.Intend(t, s, statetest.Niche(step))
	statetest.Buy(t, s, statetest.Starting(step, first, 100), statetest.ErrorTo(statetest.ScanRequest(), http.StatusTooManyRequests, outlier.Limited), outlier.Refunded)
	refuse(first) // it was sent, and is kept
	var last int64
	for range 5 {
		last = statetest.Intend(t, s, statetest.Niche(step))
		refuse(last)
	}
	other := statetest.BeginRun(t, s, "run-2")
	refuse(statetest.Intend(t, s, statetest.Niche(other)))
	all, err := s.Scans.List()
	if err != nil {
		t.Fatal(err)
	}
	var kept []int64
	for _, scan := range all {
		kept = append(kept, scan.Intent)
	}
	if diff := cmp.Diff([]int64{last + 1, last, first}, kept); diff != "" {
		t.Errorf("intents, newest first (-want +got):\n%s", diff)
	}
	statetest.WantText(t, statetest.Shell(t, s, `DELETE FROM scans WHERE id = 1`), "a scan is kept")
	statetest.CheckBooks(t, s)
}

func TestScanStateFollowsItsAttempt(t *testing.T) {
	t.Parallel()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	step, intent := statetest.Begin(t, s)
	p := statetest.Starting(step, intent, 100)
	a := statetest.Reserve(t, s, p, statetest.ScanRequest())
	statetest.CheckScan(t, s, step.ID, runs.ScanIntended)
	if err := a.Sending(); err != nil {
		t.Fatal(err)
	}
	statetest.CheckScan(t, s, step.ID, runs.ScanUnknown)
	if err := a.Settle(statetest.ErrorTo(statetest.ScanRequest(), http.StatusTooManyRequests, outlier.Limited), outlier.Refunded); err != nil {
		t.Fatal(err)
	}
	statetest.CheckScan(t, s, step.ID, runs.ScanIntended)
	statetest.CheckHold(t, s, step.ID, 0)
	statetest.CheckHeld(t, s, statetest.Month(), 0)

	statetest.Buy(t, s, statetest.Running(p, statetest.ScanA), statetest.AnswerTo(statetest.ScanRequest(), `{}`), outlier.Charged)
	statetest.CheckScan(t, s, step.ID, runs.ScanRunning)
	statetest.CheckHold(t, s, step.ID, 10)
	statetest.CheckHeld(t, s, statetest.Month(), 60)
	statetest.CheckBooks(t, s)
}

func TestUnreadableScanAnswerStaysUnknown(t *testing.T) {
	t.Parallel()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	step, intent := statetest.Begin(t, s)
	p := statetest.Starting(step, intent, 100)
	p.Commit = func(*store.Tx, ledger.Kept) error { return errors.New("no id in it") }
	a := statetest.Reserve(t, s, p, statetest.ScanRequest())
	if err := a.Sending(); err != nil {
		t.Fatal(err)
	}
	statetest.WantText(t, a.Settle(statetest.AnswerTo(statetest.ScanRequest(), `{"garbage":1}`), outlier.Charged), "no id in it")
	statetest.CheckScan(t, s, step.ID, runs.ScanUnknown)
	spend, err := s.Ledger.Spent("run-1")
	if err != nil || spend.Charged != 50 || spend.Held != 10 {
		t.Errorf("spent %+v (%v)", spend, err)
	}
	if kept := statetest.Entries(t, s, 0); len(kept) != 1 || string(kept[0].Body) != `{"garbage":1}` {
		t.Errorf("kept %+v", kept)
	}
}

func TestIntentIsCarriedOutOnce(t *testing.T) {
	t.Parallel()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	step, intent := statetest.Begin(t, s)
	p := statetest.Starting(step, intent, 1000)
	refused := func(when string) {
		t.Helper()
		if _, err := s.Ledger.Meter(p).Reserve(t.Context(), statetest.ScanRequest()); !store.IsConstraint(err) {
			t.Errorf("%s a second attempt got %v", when, err)
		}
	}
	a := statetest.Reserve(t, s, p, statetest.ScanRequest())
	refused("while the first is reserved")
	if err := a.Sending(); err != nil {
		t.Fatal(err)
	}
	refused("while the first is sent")
	if err := a.Settle(statetest.Lost(statetest.ScanRequest()), outlier.Unknown); err != nil {
		t.Fatal(err)
	}
	refused("after the first was lost")
	p.Intent = 0
	refused("without an intent")
	p.Intent = 99
	refused("for an unknown intent")
	statetest.CheckHeld(t, s, statetest.Month(), 60)
}

func TestDatabaseItselfGuardsScans(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state              runs.ScanState
		statement, refusal string
	}{
		"a second live intent": {runs.ScanRunning, `INSERT INTO scans SELECT id + 1, run, job, due, step, find_by, mode, queries, identity, price,
			'intended', '', '', 0, 0, 0, 0, 0, 0, 0 FROM scans`, "UNIQUE constraint failed: scans.identity"},
		"another beside one that is not confirmed": {runs.ScanUnknown, `INSERT INTO scans SELECT id + 1, run, 'x', due, step, find_by, mode, queries, identity, price,
			'intended', '', '', 0, 0, 0, 0, 0, 0, 1 FROM scans`, "UNIQUE constraint failed: scans.identity"},
		"joining a scan that may not exist":  {runs.ScanUnknown, `UPDATE steps SET joined = 1`, "which the service has"},
		"joining another one":                {runs.ScanRunning, `UPDATE steps SET joined = 1; UPDATE steps SET joined = 1`, "joins one scan"},
		"beginning as running":               {runs.ScanIntended, `INSERT INTO scans SELECT id + 1, run, 'x', due, step, find_by, mode, queries, 'another', price, 'running', 'x', '', 0, 0, 0, 0, 0, 0, 1 FROM scans`, "begins as intended"},
		"going back":                         {runs.ScanRunning, `UPDATE scans SET state = 'unknown'`, "does not go back"},
		"going back after the end":           {runs.ScanEnded, `UPDATE scans SET state = 'running'`, "does not go back"},
		"coming back from the refused":       {runs.ScanRefused, `UPDATE scans SET state = 'intended'`, "does not go back"},
		"running without an id":              {runs.ScanUnknown, `UPDATE scans SET state = 'running'`, "has an id"},
		"another id":                         {runs.ScanRunning, `UPDATE scans SET scan = 'other'`, "id of a scan is fixed"},
		"other queries":                      {runs.ScanRunning, `UPDATE scans SET identity = '[]'`, "terms of a scan are fixed"},
		"intended again without proof":       {runs.ScanUnknown, `UPDATE scans SET state = 'intended'`, "does not prove"},
		"refused without proof":              {runs.ScanUnknown, `UPDATE scans SET state = 'refused'`, "does not prove"},
		"not created while the price counts": {runs.ScanUnknown, `UPDATE scans SET state = 'not_created'`, "does not prove"},
		"refunded without a word":            {runs.ScanUnknown, `UPDATE attempts SET state = 'refunded', http_status = 500`, "needs proof"},
		"deleting a scan":                    {runs.ScanRefused, `DELETE FROM scans`, "kept"},
		"another intent":                     {runs.ScanRunning, `UPDATE attempts SET intent = NULL`, "terms of an attempt are fixed"},
		"starting a scan that runs": {runs.ScanRunning, `INSERT INTO attempts (run, job, account, step, op, entity, params, attempt, price, state, day, cycle, caps, intent,
			reserved_at, sent_at, settled_at, waited, http_status, bytes, error)
			SELECT run, job, account, step, op, entity, params, 2, price, 'reserved', day, cycle, caps, intent, 0, 0, 0, 0, 0, 0, '' FROM attempts`, "not waiting to be started"},
	} {
		t.Run(name, func(t *testing.T) {
			s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
			step, intent := statetest.Begin(t, s)
			statetest.Lead(t, s, step, intent, c.state)
			statetest.WantText(t, statetest.Shell(t, s, c.statement), c.refusal)
			statetest.CheckScan(t, s, step.ID, c.state)
			statetest.CheckBooks(t, s)
		})
	}
}

func TestDatabaseItselfKeepsScansApart(t *testing.T) {
	t.Parallel()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	step := statetest.BeginRun(t, s, "run-1")
	scan := statetest.Niche(step)
	statetest.Lead(t, s, step, statetest.Intend(t, s, scan), runs.ScanEnded)
	scan.Job = "rivals"
	other := runs.Scan{Intent: statetest.Intend(t, s, scan), State: runs.ScanIntended, ScanID: statetest.ScanA}
	statetest.WantText(t, s.DB.Update(func(tx *store.Tx) error { return runs.SaveScan(tx, other) }), "table scans", "UNIQUE")
}
