package state

import (
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

const (
	scanA = "11111111-1111-4111-8111-111111111111"
	scanB = "22222222-2222-4222-8222-222222222222"
)

func scanRequest() *outlier.Request {
	return scanFor(50)
}

func scanFor(price outlier.Credits) *outlier.Request {
	return must(outlier.NewRequest(outlier.OpStartScan, url.Values{"query": {"chess"}}, outlier.Prices{"scan_fast": price}))
}

// niche is the scan that most tests want.
func niche(step runs.Step) runs.Scan {
	return runs.Scan{
		Run: step.Run, Job: "ideas", Step: step.ID, FindBy: "query", Mode: "fast", Queries: []string{"chess", "go"},
		Price: 50, Deadline: noon.Add(24 * time.Hour),
	}
}

func intend(t testing.TB, s *Store, scan runs.Scan) (intent int64) {
	t.Helper()
	err := s.DB.Update(func(tx *store.Tx) (err error) {
		intent, err = s.Runs.IntendScan(tx, scan)
		return err
	})
	if err != nil {
		t.Fatalf("IntendScan: %v", err)
	}
	return intent
}

// starting is the purchase of an intent's scan together with five pages of reading,
// under a cap for the billing cycle.
func starting(step runs.Step, intent int64, most outlier.Credits) ledger.Purchase {
	p := capped(most)
	p.Run, p.Step, p.Intent, p.Hold = step.Run, step.ID, intent, 10
	return p
}

// running settles as an answer that tells the scan's id does.
func running(p ledger.Purchase, id string) ledger.Purchase {
	p.Commit = func(tx *store.Tx, k ledger.Kept) error {
		if k.Outcome != outlier.Charged {
			return nil
		}
		return runs.SaveScan(tx, runs.Scan{Intent: p.Intent, State: runs.ScanRunning, ScanID: id, Status: "Running", Created: noon, NextPoll: noon.Add(time.Minute)})
	}
	return p
}

// begin starts a run with a step, and intends its scan.
func begin(t testing.TB, s *Store) (runs.Step, int64) {
	t.Helper()
	step := beginRun(t, s, "run-1")
	return step, intend(t, s, niche(step))
}

// lose goes through an attempt whose answer never comes.
func lose(t testing.TB, s *Store, p ledger.Purchase) {
	t.Helper()
	buy(t, s, p, lost(scanRequest()), outlier.Unknown)
}

func checkScan(t testing.TB, s *Store, step int64, want runs.ScanState) *runs.Scan {
	t.Helper()
	scan, err := s.Runs.ScanOf(step)
	if err != nil || scan == nil {
		t.Fatalf("ScanOf: %v %v", scan, err)
	}
	if scan.State != want {
		t.Errorf("the scan is %s, want %s", scan.State, want)
	}
	return scan
}

func checkHold(t testing.TB, s *Store, step int64, want outlier.Credits) {
	t.Helper()
	if got, err := s.Ledger.HoldOf(step); err != nil || got != want {
		t.Errorf("step %d holds %d (%v), want %d", step, got, err, want)
	}
}

func checkBooks(t testing.TB, s *Store) {
	t.Helper()
	if err := s.DB.View(func(tx *store.Tx) error { _, err := s.Ledger.Audit(tx); return err }); err != nil {
		t.Error(err)
	}
}

func TestScanIsKeptWholeFromIntentToEnd(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	step := beginRun(t, s, "run-1")
	want := niche(step)
	want.Due = noon
	want.Intent = intend(t, s, want)
	buy(t, s, running(starting(step, want.Intent, 100), scanA), answerTo(scanRequest(), `{}`), outlier.Charged)

	want.State, want.ScanID, want.Status = runs.ScanEnded, scanA, "Completed"
	want.Created, want.Polled, want.NextPoll, want.Polls = noon, noon.Add(time.Hour), time.Time{}, 7
	update(t, s, func(tx *store.Tx) error { return runs.SaveScan(tx, want) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	ignored := cmpopts.IgnoreFields(runs.Scan{}, "Intended")
	byID, err := s.Runs.ScanByID(scanA)
	if diff := cmp.Diff(&want, byID, ignored); diff != "" || err != nil {
		t.Errorf("by its id (%v, -want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff(byID, checkScan(t, s, step.ID, runs.ScanEnded)); diff != "" {
		t.Errorf("by its step (-by id +got):\n%s", diff)
	}
	for job, want := range map[string]int{"": 1, "ideas": 1, "rivals": 0} {
		if all, err := s.Runs.Scans(job); len(all) != want || err != nil {
			t.Errorf("%d scans of %q (%v), want %d", len(all), job, err, want)
		}
	}
	for _, id := range []string{"", scanB} {
		if got, err := s.Runs.ScanByID(id); got != nil || err != nil {
			t.Errorf("scan %q is %+v (%v)", id, got, err)
		}
	}
	if got, err := s.Runs.ScanOf(99); got != nil || err != nil {
		t.Errorf("a step without a scan has %+v (%v)", got, err)
	}
}

func TestScanThatMayBeUnderWayIsNotIntendedAgain(t *testing.T) {
	due := noon
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
		"a due instant whose scan has ended": {func(s *runs.Scan) { s.Due = due }, runs.ScanEnded, true},
		"a due instant whose scan failed":    {func(s *runs.Scan) { s.Due = due }, runs.ScanFailed, true},
		"a due instant that was refused":     {func(s *runs.Scan) { s.Due = due }, runs.ScanRefused, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := hasty(t, open(t, t.TempDir()))
			step := beginRun(t, s, "run-1")
			first, second := niche(step), niche(step)
			c.change(&second)
			first.Due = second.Due
			if name == "another due instant" {
				first.Due = due
			}
			first.Intent = intend(t, s, first)
			lead(t, s, step, first.Intent, c.state)
			err := s.DB.Update(func(tx *store.Tx) error { _, err := s.Runs.IntendScan(tx, second); return err })
			live, ok := errors.AsType[*runs.LiveScanError](err)
			if ok != c.refused || ok != (err != nil) {
				t.Fatalf("a second intent got %v, want a refusal: %v", err, c.refused)
			}
			if ok && (live.Scan.Intent != first.Intent || live.Scan.State != c.state) {
				t.Errorf("refused for %+v", live.Scan)
			}
		})
	}
}

// lead brings the scan of an intent into a state the way it comes there.
func lead(t testing.TB, s *Store, step runs.Step, intent int64, to runs.ScanState) {
	t.Helper()
	p := starting(step, intent, 100)
	save := func(scan runs.Scan) {
		t.Helper()
		scan.Intent = intent
		if err := s.DB.Update(func(tx *store.Tx) error { return runs.SaveScan(tx, scan) }); err != nil {
			t.Fatal(err)
		}
	}
	switch to {
	case runs.ScanIntended:
	case runs.ScanRefused:
		buy(t, s, p, errorTo(scanRequest(), http.StatusBadRequest, outlier.Invalid), outlier.Refunded)
		save(runs.Scan{State: runs.ScanRefused})
	case runs.ScanUnknown:
		lose(t, s, p)
	case runs.ScanNotCreated:
		lose(t, s, p)
		if _, err := s.Runs.SettleScan(intent, runs.Scan{State: runs.ScanNotCreated}); err != nil {
			t.Fatal(err)
		}
	default:
		buy(t, s, running(p, scanA), answerTo(scanRequest(), `{}`), outlier.Charged)
		save(runs.Scan{State: to, ScanID: scanA})
	}
}

// TestVainWishesForAScanDoNotPileUp: a step that is parked, or over a cap, wishes again
// at every turn.
func TestVainWishesForAScanDoNotPileUp(t *testing.T) {
	s := hasty(t, open(t, t.TempDir()))
	step := beginRun(t, s, "run-1")
	refuse := func(intent int64) {
		t.Helper()
		update(t, s, func(tx *store.Tx) error { return runs.SaveScan(tx, runs.Scan{Intent: intent, State: runs.ScanRefused}) })
	}
	first := intend(t, s, niche(step))
	buy(t, s, starting(step, first, 100), errorTo(scanRequest(), http.StatusTooManyRequests, outlier.Limited), outlier.Refunded)
	refuse(first) // it was sent, and is kept
	var last int64
	for range 5 {
		last = intend(t, s, niche(step))
		refuse(last)
	}
	other := beginRun(t, s, "run-2")
	refuse(intend(t, s, niche(other)))
	all, err := s.Runs.Scans("")
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
	wantText(t, shell(t, s, `DELETE FROM scans WHERE id = 1`), "a scan is kept")
	checkBooks(t, s)
}

func TestStateOfAScanFollowsItsAttempt(t *testing.T) {
	s := hasty(t, open(t, t.TempDir()))
	step, intent := begin(t, s)
	p := starting(step, intent, 100)
	a := reserve(t, s, p, scanRequest())
	checkScan(t, s, step.ID, runs.ScanIntended)
	if err := a.Sending(); err != nil {
		t.Fatal(err)
	}
	checkScan(t, s, step.ID, runs.ScanUnknown)
	if err := a.Settle(errorTo(scanRequest(), http.StatusTooManyRequests, outlier.Limited), outlier.Refunded); err != nil {
		t.Fatal(err)
	}
	checkScan(t, s, step.ID, runs.ScanIntended)
	checkHold(t, s, step.ID, 0)
	checkHeld(t, s, month(), 0)

	buy(t, s, running(p, scanA), answerTo(scanRequest(), `{}`), outlier.Charged)
	checkScan(t, s, step.ID, runs.ScanRunning)
	checkHold(t, s, step.ID, 10)
	checkHeld(t, s, month(), 60)
	checkBooks(t, s)
}

func TestScanAnswerThatCannotBeReadStaysUnknown(t *testing.T) {
	s := hasty(t, open(t, t.TempDir()))
	step, intent := begin(t, s)
	p := starting(step, intent, 100)
	p.Commit = func(*store.Tx, ledger.Kept) error { return errors.New("no id in it") }
	a := reserve(t, s, p, scanRequest())
	if err := a.Sending(); err != nil {
		t.Fatal(err)
	}
	wantText(t, a.Settle(answerTo(scanRequest(), `{"garbage":1}`), outlier.Charged), "no id in it")
	checkScan(t, s, step.ID, runs.ScanUnknown)
	spend, err := s.Ledger.Spent("run-1")
	if err != nil || spend.Charged != 50 || spend.Held != 10 {
		t.Errorf("spent %+v (%v)", spend, err)
	}
	if kept := entries(t, s, 0); len(kept) != 1 || string(kept[0].Body) != `{"garbage":1}` {
		t.Errorf("kept %+v", kept)
	}
}

func TestIntentIsCarriedOutOnce(t *testing.T) {
	s := hasty(t, open(t, t.TempDir()))
	step, intent := begin(t, s)
	p := starting(step, intent, 1000)
	refused := func(when string) {
		t.Helper()
		if _, err := s.Ledger.Meter(p).Reserve(t.Context(), scanRequest()); !store.IsConstraint(err) {
			t.Errorf("%s a second attempt got %v", when, err)
		}
	}
	a := reserve(t, s, p, scanRequest())
	refused("while the first is reserved")
	if err := a.Sending(); err != nil {
		t.Fatal(err)
	}
	refused("while the first is sent")
	if err := a.Settle(lost(scanRequest()), outlier.Unknown); err != nil {
		t.Fatal(err)
	}
	refused("after the first was lost")
	p.Intent = 0
	refused("without an intent")
	p.Intent = 99
	refused("for an intent that is none")
	checkHeld(t, s, month(), 60)
}

func TestDatabaseItselfGuardsScans(t *testing.T) {
	for name, c := range map[string]struct {
		state              runs.ScanState
		statement, refusal string
	}{
		"a second live intent": {runs.ScanRunning, `INSERT INTO scans SELECT id + 1, run, job, due, step, find_by, mode, queries, wanted, price,
			'intended', '', '', 0, 0, 0, 0, 0, 0, 0 FROM scans`, "the same scan is live"},
		"another beside one that is not confirmed": {runs.ScanUnknown, `INSERT INTO scans SELECT id + 1, run, 'x', due, step, find_by, mode, queries, wanted, price,
			'intended', '', '', 0, 0, 0, 0, 0, 0, 1 FROM scans`, "the same scan is live"},
		"joining a scan that may not exist":  {runs.ScanUnknown, `UPDATE steps SET joined = 1`, "which the service has"},
		"joining another one":                {runs.ScanRunning, `UPDATE steps SET joined = 1; UPDATE steps SET joined = 1`, "joins one scan"},
		"beginning as running":               {runs.ScanIntended, `INSERT INTO scans SELECT id + 1, run, 'x', due, step, 'channels', mode, queries, wanted, price, 'running', 'x', '', 0, 0, 0, 0, 0, 0, 1 FROM scans`, "begins as intended"},
		"going back":                         {runs.ScanRunning, `UPDATE scans SET state = 'unknown'`, "does not go back"},
		"going back after the end":           {runs.ScanEnded, `UPDATE scans SET state = 'running'`, "does not go back"},
		"coming back from the refused":       {runs.ScanRefused, `UPDATE scans SET state = 'intended'`, "does not go back"},
		"running without an id":              {runs.ScanUnknown, `UPDATE scans SET state = 'running'`, "has an id"},
		"another id":                         {runs.ScanRunning, `UPDATE scans SET scan = 'other'`, "id of a scan is fixed"},
		"other queries":                      {runs.ScanRunning, `UPDATE scans SET wanted = '[]'`, "terms of a scan are fixed"},
		"intended again without proof":       {runs.ScanUnknown, `UPDATE scans SET state = 'intended'`, "does not prove"},
		"refused without proof":              {runs.ScanUnknown, `UPDATE scans SET state = 'refused'`, "does not prove"},
		"not created while the price counts": {runs.ScanUnknown, `UPDATE scans SET state = 'not_created'`, "does not prove"},
		"refunded without a word":            {runs.ScanUnknown, `UPDATE attempts SET state = 'refunded', http_status = 500`, "needs proof"},
		"deleting a scan":                    {runs.ScanRefused, `DELETE FROM scans`, "kept"},
		"another number":                     {runs.ScanRunning, `UPDATE scans SET again = 1`, "terms of a scan are fixed"},
		"another intent":                     {runs.ScanRunning, `UPDATE attempts SET intent = NULL`, "terms of an attempt are fixed"},
		"starting a scan that runs": {runs.ScanRunning, `INSERT INTO attempts (run, job, account, step, op, entity, params, attempt, price, state, day, cycle, caps, intent,
			reserved_at, sent_at, settled_at, waited, http_status, bytes, error)
			SELECT run, job, account, step, op, entity, params, 2, price, 'reserved', day, cycle, caps, intent, 0, 0, 0, 0, 0, 0, '' FROM attempts`, "not waiting to be started"},
	} {
		t.Run(name, func(t *testing.T) {
			s := hasty(t, open(t, t.TempDir()))
			step, intent := begin(t, s)
			lead(t, s, step, intent, c.state)
			wantText(t, shell(t, s, c.statement), c.refusal)
			checkScan(t, s, step.ID, c.state)
			checkBooks(t, s)
		})
	}
}

func TestDatabaseItselfKeepsScansApart(t *testing.T) {
	s := hasty(t, open(t, t.TempDir()))
	step := beginRun(t, s, "run-1")
	scan := niche(step)
	scan.Due = noon
	lead(t, s, step, intend(t, s, scan), runs.ScanEnded)
	again := `INSERT INTO scans SELECT id + 1, run, job, due, step, find_by, mode, queries, wanted, price, 'intended', '', '', 0, 0, 0, 0, 0, 0, 0 FROM scans`
	wantText(t, shell(t, s, again), "UNIQUE")

	scan.Job = "rivals"
	other := runs.Scan{Intent: intend(t, s, scan), State: runs.ScanIntended, ScanID: scanA}
	wantText(t, s.DB.Update(func(tx *store.Tx) error { return runs.SaveScan(tx, other) }), "save scan intent 2", "UNIQUE")
}
