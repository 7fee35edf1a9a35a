package state_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// image is what a process finds when it starts after a kill.
type image struct {
	states  string // of all attempts, in order
	held    outlier.Credits
	answers int
	next    int // the step's cursor
	seen    int
}

func look(t *testing.T, dir string) image {
	t.Helper()
	s := statetest.Open(t, dir)
	var got image
	err := s.DB.View(func(tx *store.Tx) error {
		_, err := store.Scan(tx, []any{&got.states, &got.answers, &got.next, &got.seen}, `SELECT (SELECT coalesce(group_concat(state, ' '), '') FROM (SELECT state FROM attempts ORDER BY id)),
			(SELECT count(*) FROM responses),
			(SELECT next FROM steps), (SELECT count(*) FROM seen)`)
		return err
	})
	if err == nil {
		got.held, err = s.Ledger.Held(statetest.Month())
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestKillAtEveryDurablePoint looks at the folder as a kill would leave it after
// each step of a paid call and of a free one.
func TestKillAtEveryDurablePoint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	step := statetest.BeginRun(t, s, "run-1")
	check := func(when string, want image) {
		t.Helper()
		if diff := cmp.Diff(want, look(t, statetest.CopyFolder(t, dir)), cmp.AllowUnexported(image{})); diff != "" {
			t.Errorf("killed %s (-want +got):\n%s", when, diff)
		}
	}
	check("before anything", image{})

	p := statetest.Capped(100)
	p.Commit = func(tx *store.Tx, k ledger.Kept) error {
		if _, err := runs.AddHits(tx, "run-1", step.ID, 0, 0, []runs.Hit{{VideoID: "video-00001"}}); err != nil {
			return err
		}
		step.Next = 1
		return runs.SaveStep(tx, step)
	}
	a := statetest.Reserve(t, s, p, statetest.SearchRequest("0"))
	check("after the reservation", image{states: "refunded"})
	if err := a.Sending(); err != nil {
		t.Fatal(err)
	}
	check("after the mark", image{states: "unknown", held: 2})
	if err := a.Settle(statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged); err != nil {
		t.Fatal(err)
	}
	kept := image{states: "charged", held: 2, answers: 1, next: 1, seen: 1}
	check("after the answer", kept)

	free := statetest.Reserve(t, s, ledger.Purchase{Run: "run-1"}, statetest.DetailsRequest("video-00001"))
	kept.states = "charged refunded"
	check("after the reservation of a free call", kept)
	if err := free.Sending(); err != nil {
		t.Fatal(err)
	}
	kept.states = "charged unknown"
	check("after the mark of a free call", kept)
	if err := free.Settle(statetest.AnswerTo(statetest.DetailsRequest("video-00001"), `{}`), outlier.Charged); err != nil {
		t.Fatal(err)
	}
	kept.states, kept.answers = "charged charged", 2
	check("after the answer to a free call", kept)

	statetest.Buy(t, s, ledger.Purchase{Run: "run-1"}, statetest.AnswerTo(statetest.DetailsRequest("video-00002"), `{}`), outlier.Charged)
	statetest.Reserve(t, s, ledger.Purchase{Run: "run-1"}, statetest.SearchRequest("1"))
	kept.states, kept.answers = "charged charged charged refunded", 3
	check("after a reservation", kept)
}

// startImage is what a process finds of a scan and its reading that starts after a kill.
type startImage struct {
	scan       runs.ScanState
	id         string
	states     string // of all attempts, in order
	hold, held outlier.Credits
	answers    int
}

func lookAtScan(t *testing.T, dir string) (got startImage) {
	t.Helper()
	s := statetest.Open(t, dir)
	err := s.DB.View(func(tx *store.Tx) error {
		_, err := store.Scan(tx, []any{&got.states, &got.scan, &got.id, &got.hold, &got.answers}, `SELECT (SELECT coalesce(group_concat(state, ' '), '') FROM (SELECT state FROM attempts ORDER BY id)),
			coalesce((SELECT state FROM scans), ''), coalesce((SELECT scan FROM scans), ''),
			(SELECT coalesce(sum(rest), 0) FROM hold_rests),
			(SELECT count(*) FROM responses)`)
		return err
	})
	if err == nil {
		got.held, err = s.Ledger.Held(statetest.Month())
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestScanSurvivesKillAtEachStep looks at the folder as a kill would leave it after each step of starting a
// scan and of reading its first page.
func TestScanSurvivesKillAtEachStep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	step := statetest.BeginRun(t, s, "run-1")
	check := func(when string, want startImage) {
		t.Helper()
		if diff := cmp.Diff(want, lookAtScan(t, statetest.CopyFolder(t, dir)), cmp.AllowUnexported(startImage{})); diff != "" {
			t.Errorf("killed %s (-want +got):\n%s", when, diff)
		}
	}
	sending := func(a outlier.Attempt) outlier.Attempt {
		if err := a.Sending(); err != nil {
			t.Fatal(err)
		}
		return a
	}
	settle := func(a outlier.Attempt, answer *outlier.Answer, o outlier.Outcome) {
		if err := a.Settle(answer, o); err != nil {
			t.Fatal(err)
		}
	}
	check("before anything", startImage{})
	intent := statetest.Intend(t, s, statetest.Niche(step))
	check("after the intent", startImage{scan: runs.ScanRefused})

	p := statetest.Running(statetest.Starting(step, intent, 60), statetest.ScanA)
	a := statetest.Reserve(t, s, p, statetest.ScanRequest())
	check("after the reservation", startImage{scan: runs.ScanRefused, states: "refunded"})
	sending(a)
	check("after the mark", startImage{scan: runs.ScanUnknown, states: "unknown", hold: 10, held: 60})
	settle(a, statetest.ErrorTo(statetest.ScanRequest(), 429, outlier.Limited), outlier.Refunded)
	check("after a refusal", startImage{scan: runs.ScanRefused, states: "refunded"})

	a = sending(statetest.Reserve(t, s, p, statetest.ScanRequest()))
	settle(a, statetest.AnswerTo(statetest.ScanRequest(), `{}`), outlier.Charged)
	kept := startImage{scan: runs.ScanRunning, id: statetest.ScanA, states: "refunded charged", hold: 10, held: 60, answers: 1}
	check("after the answer", kept)

	a = statetest.Reserve(t, s, statetest.Reading(step, 60), statetest.SearchRequest("0"))
	kept.states = "refunded charged refunded"
	check("after the reservation of a page", kept)
	sending(a)
	kept.states, kept.hold = "refunded charged unknown", 8
	check("after the mark of a page", kept)
	settle(a, statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
	kept.states, kept.answers = "refunded charged charged", 2
	check("after the answer of a page", kept)

	statetest.Update(t, s, func(tx *store.Tx) error { return ledger.Release(tx, step.ID) })
	kept.hold, kept.held = 0, 52
	check("after the release", kept)
}

// TestScanSettlementSurvivesKill looks at both ways to settle an unknown scan.
func TestScanSettlementSurvivesKill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		as   runs.Scan
		want startImage
	}{
		{runs.Scan{State: runs.ScanRunning, ScanID: statetest.ScanA}, startImage{scan: runs.ScanRunning, id: statetest.ScanA, states: "charged", hold: 10, held: 60}},
		{runs.Scan{State: runs.ScanNotCreated}, startImage{scan: runs.ScanNotCreated, states: "refunded"}},
	} {
		dir := t.TempDir()
		s := statetest.Open(t, dir)
		step, intent := statetest.Begin(t, s)
		statetest.Lead(t, s, step, intent, runs.ScanUnknown)
		before := statetest.CopyFolder(t, dir)
		if _, err := s.Scans.Settle(intent, c.as); err != nil {
			t.Fatal(err)
		}
		if got := lookAtScan(t, statetest.CopyFolder(t, dir)); got != c.want {
			t.Errorf("after %s: %+v, want %+v", c.as.State, got, c.want)
		}
		unknown := startImage{scan: runs.ScanUnknown, states: "unknown", hold: 10, held: 60}
		if got := lookAtScan(t, before); got != unknown {
			t.Errorf("before %s: %+v, want %+v", c.as.State, got, unknown)
		}
	}
}

// buyForEver settles one paid answer after another, and prints each when it is durable.
func buyForEver(s *state.Store) {
	run := runs.Run{ID: "run-1", Job: "ideas", Status: runs.Running, Started: time.Now()}
	fail := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	fail(s.Runs.Begin(run, []runs.Step{{Query: outlier.UncheckedQuery(outlier.OpSearch, ""), Total: -1}}))
	steps, err := s.Steps.OfRun("run-1")
	fail(err)
	step := steps[0]
	for {
		p := ledger.Purchase{Run: "run-1", Job: "ideas", Caps: func(now time.Time) []ledger.Cap {
			return []ledger.Cap{{Scope: ledger.ScopeMonth, Period: ledger.Cycle(now, time.UTC, 1), Max: 1 << 40}}
		}, Commit: func(tx *store.Tx, _ ledger.Kept) error {
			step.Next++
			return runs.SaveStep(tx, step)
		}}
		request := statetest.SearchRequest(strconv.Itoa(step.Next))
		a, err := s.Ledger.Meter(p).Reserve(context.Background(), request)
		fail(err)
		fail(a.Sending())
		fail(a.Settle(statetest.AnswerTo(request, strings.Repeat("x", 20_000)), outlier.Charged))
		fmt.Println(step.Next)
	}
}

// TestKilledProcessLosesNothingReported kills a real process at random moments.
func TestKilledProcessLosesNothingReported(t *testing.T) {
	t.Parallel()
	for _, answers := range []int{1, 3, 10, 40} {
		t.Run(strconv.Itoa(answers), func(t *testing.T) {
			dir := t.TempDir()
			cmd, out := startOther(t, dir, "buy")
			for range answers {
				if line, err := out.ReadString('\n'); err != nil || strings.HasPrefix(line, "error") {
					t.Fatalf("the other process printed %q (error %v)", line, err)
				}
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			told := answers
			for line, err := out.ReadString('\n'); err == nil; line, err = out.ReadString('\n') {
				if told, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Wait(); err == nil {
				t.Error("the killed process ended well")
			}

			s := statetest.Open(t, dir)
			step, err := s.Steps.OfRun("run-1")
			if err != nil {
				t.Fatal(err)
			}
			kept := statetest.Entries(t, s, 0)
			if len(kept) < told || len(kept) > told+1 || step[0].Next != len(kept) {
				t.Errorf("it reported %d answers; %d are stored and the cursor is %d", told, len(kept), step[0].Next)
			}
			for _, e := range kept {
				if !bytes.Equal(e.Body, bytes.Repeat([]byte("x"), 20_000)) {
					t.Errorf("answer %d came back as %d other bytes", e.ID, len(e.Body))
				}
			}
			spend, err := s.Ledger.Spent("run-1")
			if err != nil || spend.Reserved != 0 || spend.Charged != outlier.Credits(2*len(kept)) || spend.Unknown > 2 {
				t.Errorf("spent %+v (%v) for %d answers", spend, err, len(kept))
			}
		})
	}
}
