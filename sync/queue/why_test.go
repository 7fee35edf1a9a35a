package queue_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

const tape = "dQw4w9WgXcQ"

// brings lets a run of one search find the tape as the second of two hits on page one,
// after an attempt whose answer was lost.
func brings(t *testing.T, s *state.Store, run, job string) {
	t.Helper()
	step := runs.Step{Query: outlier.UncheckedQuery(outlier.OpSearch, ""), Item: "chess", Queries: []string{"chess"}, Window: "2026-11-01..", Total: -1, Left: -1}
	if err := s.Runs.Begin(runs.Run{ID: run, Job: job, Trigger: "manual", Started: time.Now(), Status: runs.Running}, []runs.Step{step}); err != nil {
		t.Fatal(err)
	}
	steps, err := s.Steps.OfRun(run)
	if err != nil {
		t.Fatal(err)
	}
	p := ledger.Purchase{Run: run, Job: job, Step: steps[0].ID, Attempt: 1}
	statetest.Buy(t, s, p, statetest.Lost(statetest.SearchRequest("0")), outlier.Unknown)
	p.Attempt = 2
	p.Commit = func(tx *store.Tx, kept ledger.Kept) error {
		if kept.Answer.Err != nil {
			return nil
		}
		_, err := runs.AddHits(tx, run, steps[0].ID, 0, 0, []runs.Hit{{VideoID: "another-one", ChannelID: "UC-1"}, {VideoID: tape, ChannelID: "UC-1"}})
		return err
	}
	statetest.Buy(t, s, p, statetest.AnswerTo(statetest.SearchRequest("0"), `{"hits":[]}`), outlier.Charged)
	p.Page, p.RankBase, p.Commit = 1, 2, nil
	statetest.Buy(t, s, p, statetest.AnswerTo(statetest.SearchRequest("1"), `{"hits":[]}`), outlier.Charged)
}

// The sightings of a video go from the first to the last, each with its calls.
func TestSightingsAreChronological(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	brings(t, s, "run-1", "ideas")
	brings(t, s, "run-2", "rivals")
	got, err := s.Hits.Sightings(tape)
	if err != nil {
		t.Fatal(err)
	}
	want := runs.Sighting{
		Run: "run-1", Job: "ideas", Trigger: "manual", Step: 1, Query: outlier.UncheckedQuery(outlier.OpSearch, ""), Item: "chess", Queries: []string{"chess"},
		Window: "2026-11-01..", Channel: "UC-1", Page: 0, Rank: 2, Hits: 2, First: true,
		Calls: []ledger.Call{
			{ID: 1, Run: "run-1", Job: "ideas", Step: 1, Op: outlier.OpSearch, Attempt: 1, Price: 2, Outcome: outlier.Unknown, Error: "lost"},
			{ID: 2, Run: "run-1", Job: "ideas", Step: 1, Op: outlier.OpSearch, Attempt: 2, Price: 2, Outcome: outlier.Charged, Status: 200, Response: 1},
		},
	}
	again := want
	again.Run, again.Job, again.Step, again.First = "run-2", "rivals", 2, false
	again.Calls = []ledger.Call{want.Calls[0], want.Calls[1]}
	for i := range again.Calls {
		again.Calls[i].Run, again.Calls[i].Job, again.Calls[i].Step = "run-2", "rivals", 2
		again.Calls[i].ID += 3
	}
	again.Calls[1].Response = 3
	times := cmpopts.IgnoreTypes(time.Time{})
	if diff := cmp.Diff([]runs.Sighting{want, again}, got, times, statetest.SameQuery); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got[0].Started.IsZero() || got[0].Calls[1].SentAt.IsZero() {
		t.Error("times are missing")
	}
}

func TestSightingsOfWhatWasNeverSighted(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	if got, err := s.Hits.Sightings(tape); err != nil || got != nil {
		t.Errorf("%+v, error %v; want nothing", got, err)
	}
}

// The calls about an ID are listed with their outcomes, and so are those that are queued.
func TestEntityHasMadeAndQueuedCalls(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	brings(t, s, "run-1", "ideas")
	gone := statetest.ErrorTo(statetest.DetailsRequest(tape), 404, outlier.NotFound)
	gone.Waited = 6 * time.Second
	statetest.Buy(t, s, ledger.Purchase{Run: "run-1", Job: "ideas", Attempt: 1}, gone, outlier.Refunded)
	calls, err := s.Calls.About(tape)
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) != 1 || calls[0].Op != outlier.OpDetails || calls[0].Waited.Duration != 6*time.Second || calls[0].Status != 404 || calls[0].Price != 0 {
		t.Errorf("calls %+v", calls)
	}
	asked := queue.Task{Op: outlier.OpTranscript, Entity: tape, Job: "ideas"}
	silent := statetest.Must(outlier.DataRequest(asked.Op, tape))
	statetest.Buy(t, s, ledger.Purchase{Run: "run-1", Job: "ideas", Attempt: 1, Commit: func(tx *store.Tx, k ledger.Kept) error {
		return queue.Done(tx, asked, k.Response, true, time.Now().Add(time.Hour))
	}}, statetest.AnswerTo(silent, `{"items":[]}`), outlier.Charged)
	if calls, err = s.Calls.About(tape); err != nil || len(calls) != 2 || calls[0].Empty || !calls[1].Empty {
		t.Errorf("calls %+v (%v); the second brought nothing, the first an error", calls, err)
	}
	task := queue.Task{Op: outlier.OpComments, Entity: tape, Run: "run-1", Job: "ideas", Value: 2, MaxAge: time.Hour}
	statetest.Enqueue(t, s, task)
	err = s.DB.Update(func(tx *store.Tx) error {
		return queue.Fail(tx, task, time.Now(), "HTTP 500", time.Now().Add(time.Hour))
	})
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := s.Queue.PendingFor(tape, "UC-1")
	task.Attempts, task.Others = 1, []string{}
	want := []queue.Waiting{{Task: task, Reason: "HTTP 500"}}
	if diff := cmp.Diff(want, waiting, cmpopts.IgnoreTypes(time.Time{})); diff != "" || err != nil {
		t.Errorf("error %v, -want +got:\n%s", err, diff)
	}
	if waiting, err := s.Queue.PendingFor(); err != nil || waiting != nil {
		t.Errorf("%+v, error %v; want nothing for no id", waiting, err)
	}
}
