package runs_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// A run and its steps are stored with all their fields, from begin to finish.
func TestRunRecordIsComplete(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	now := time.Date(2026, 11, 21, 7, 0, 0, 123000, time.UTC)
	run := runs.Run{
		ID: "run-1", Job: "ideas", Trigger: "schedule", Due: now, Started: now.Add(time.Second), Status: runs.Running,
		Plan: &plan.Stored{Terms: job.Terms{Pages: 3}}, Request: "abc",
	}
	steps := []runs.Step{
		{Query: outlier.UncheckedQuery(outlier.OpSearch, "query=a&query=b"), Item: "chess", Queries: []string{"a", "b"}, Seeds: []string{"a", "b"}, Window: "2026-11-01..", Total: -1},
		{Query: outlier.UncheckedQuery(outlier.OpSearch, "query=c"), Total: -1},
	}
	if err := s.Runs.Begin(run, steps); err != nil {
		t.Fatal(err)
	}
	steps[0].Run, steps[1].Run, steps[1].Ordinal = "run-1", "run-1", 1
	steps[0].ID, steps[1].ID = 1, 2
	got, err := s.Steps.OfRun("run-1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(steps, got, statetest.SameQuery); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	unfinished, err := s.Runs.Unfinished("ideas")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]runs.Run{run}, unfinished); diff != "" {
		t.Errorf("unfinished (-want +got):\n%s", diff)
	}

	run.Ended, run.Status, run.Error = now.Add(time.Minute), runs.Partial, "one call failed"
	run.Pages, run.Hits, run.NewHits, run.Requests, run.Missing, run.Failures = 1, 2, 3, 4, 5, 6
	run.Credits, run.Refunded, run.Waited.Duration, run.Rows = 7, 8, 90*time.Millisecond, map[string]int64{"videos": 10}
	statetest.Update(t, s, func(tx *store.Tx) error {
		return errors.Join(runs.AddRows(tx, "run-1", map[string]int64{"videos": 4}), runs.AddRows(tx, "run-1", map[string]int64{"videos": 6}))
	})
	if err := s.Finish(run); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rows, err := statetest.Open(t, dir).Runs.List(runs.Filter{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]runs.Run{run}, rows); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

func TestStepsJoinRunInProgress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	first := statetest.BeginRun(t, s, "run-1")
	next := runs.Step{
		Run: "run-1", Ordinal: 99, Query: outlier.UncheckedQuery(outlier.OpSearch, "referenceId="+statetest.ScanA), Item: "chess", Scan: statetest.ScanA, Watermark: "search chess", Total: -1, Left: -1,
	}
	add := func(step runs.Step) (id int64, err error) {
		err = s.DB.Update(func(tx *store.Tx) error { id, err = runs.AddStep(tx, step); return err })
		return id, err
	}
	id, err := add(next)
	if err != nil {
		t.Fatal(err)
	}
	next.ID, next.Ordinal = id, 1
	next.Began, next.Next, next.Pages, next.Reused, next.Left, next.Stop = statetest.Noon, 2, 2, 1, 3, "cap"
	changed := next
	changed.Scan, changed.Watermark, changed.Query = statetest.ScanB, "other", outlier.UncheckedQuery(outlier.OpSearch, "other") // fixed since it was added
	statetest.Update(t, s, func(tx *store.Tx) error { return runs.SaveStep(tx, changed) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = statetest.Open(t, dir)
	got, err := s.Steps.OfRun("run-1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]runs.Step{first, next}, got, statetest.SameQuery); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}

	_, err = add(runs.Step{Run: "nobody"})
	statetest.WantText(t, err, "nobody", "never started")
	if err := s.Finish(runs.Run{ID: "run-1", Status: runs.OK}); err != nil {
		t.Fatal(err)
	}
	_, err = add(runs.Step{Run: "run-1"})
	statetest.WantText(t, err, "run-1", "has ended")
}

func TestDueTimeIsPerformedOnce(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	due := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	begin := func(id, job string, due time.Time) error {
		return s.Runs.Begin(runs.Run{ID: id, Job: job, Due: due, Status: runs.Running}, nil)
	}
	for _, err := range []error{begin("run-1", "ideas", due), begin("run-2", "rivals", due), begin("run-3", "ideas", due.Add(time.Hour)),
		begin("run-4", "ideas", time.Time{}), begin("run-5", "ideas", time.Time{})} {
		if err != nil {
			t.Error(err)
		}
	}
	statetest.WantText(t, begin("run-6", "ideas", due), "run-6", "ideas", due.Format(time.RFC3339), "has a run already")
	statetest.WantText(t, statetest.Shell(t, s, `UPDATE runs SET due = (SELECT due FROM runs WHERE run = 'run-1') WHERE run = 'run-3'`), "UNIQUE")
	for job, want := range map[string]time.Time{"ideas": due.Add(time.Hour), "rivals": due, "news": {}} {
		if got, err := s.Schedule.DueTimes(time.Now()); err != nil || !got.Noted[job].Equal(want) {
			t.Errorf("%s was last due at %s (%v), want %s", job, got.Noted[job], err, want)
		}
	}
}

// TestRunContinuesUntilSuperseded or finished: several runs of a job may be unfinished.
func TestRunContinuesUntilSuperseded(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	for _, r := range []runs.Run{
		{ID: "run-1", Job: "ideas", Status: runs.Running}, {ID: "run-2", Job: "ideas", Status: runs.Failed},
		{ID: "run-3", Job: "rivals", Status: runs.Running}, {ID: "run-4", Job: "ideas", Status: runs.PausedBudget},
		{ID: "run-5", Job: "ideas", Status: runs.OK}, {ID: "run-6", Job: "ideas", Status: runs.Running},
	} {
		if err := s.Runs.Begin(r, nil); err != nil {
			t.Fatal(err)
		}
	}
	check := func(job string, want ...string) {
		t.Helper()
		rows, err := s.Runs.Unfinished(job)
		var got []string
		for _, r := range rows {
			got = append(got, r.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("unfinished of %s (-want +got), error %v:\n%s", job, err, diff)
		}
	}
	check("ideas", "run-1", "run-2", "run-4", "run-6")
	check("rivals", "run-3")
	check("nobody")

	statetest.FinishRun(t, s, "run-6", runs.Partial)
	statetest.Supersede(t, s, "run-1")
	statetest.Supersede(t, s, "run-2")
	check("ideas", "run-4")
	statetest.WantText(t, s.Runs.Resume(runs.Run{ID: "run-2"}), "run-2", "no such record")
	rows, err := s.Runs.List(runs.Filter{Job: "ideas"}, 4)
	if err != nil {
		t.Fatal(err)
	}
	var ends []runs.Status
	for _, r := range rows {
		ends = append(ends, r.Status)
	}
	if diff := cmp.Diff([]runs.Status{runs.Partial, runs.OK, runs.PausedBudget, runs.Failed}, ends); diff != "" {
		t.Errorf("the newest four (-want +got):\n%s", diff)
	}
	if all, err := s.Runs.List(runs.Filter{Job: "ideas"}, 0); err != nil || all[4].Status != runs.Interrupted || all[4].Ended.IsZero() {
		t.Errorf("the oldest is %+v (%v), want it interrupted", all[4], err)
	}
}

// TestKilledProcessInterruptsItsRun: readers show this once no process holds the folder, and the next process
// records it, with what the run has done.
func TestKilledProcessInterruptsItsRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	step := statetest.BeginRun(t, s, "run-1")
	p := statetest.Capped(100)
	p.Commit = func(tx *store.Tx, _ ledger.Kept) error {
		step.Next, step.Pages, step.Hits, step.NewHits = 1, 1, 40, 30
		return runs.SaveStep(tx, step)
	}
	statetest.Buy(t, s, p, statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
	if err := statetest.Reserve(t, s, statetest.Capped(100), statetest.SearchRequest("1")).Sending(); err != nil {
		t.Fatal(err)
	}
	status := func(s *state.Store) runs.Run {
		t.Helper()
		all, err := s.Runs.Unfinished("ideas")
		if err != nil || len(all) != 1 {
			t.Fatalf("unfinished %+v, error %v; want one run", all, err)
		}
		return all[0]
	}
	if got := status(statetest.Peek(t, dir, statetest.Options())); got.Status != runs.Running {
		t.Errorf("beside its process the run is %s", got.Status)
	}
	killed := statetest.CopyFolder(t, dir)
	if got := status(statetest.Peek(t, killed, statetest.Options())); got.Status != runs.Interrupted {
		t.Errorf("without a process the run is %s to readers", got.Status)
	}
	next := statetest.Open(t, killed)
	got := status(next)
	want := runs.Run{Status: runs.Interrupted, Pages: 1, Hits: 40, NewHits: 30, Requests: 2, Credits: 4}
	if got.Status != want.Status || got.Pages != want.Pages || got.Hits != want.Hits || got.NewHits != want.NewHits ||
		got.Requests != want.Requests || got.Credits != want.Credits || got.Ended.Before(got.Started) {
		t.Errorf("the next process recorded %+v, want %+v and an end", got, want)
	}
	if err := next.Runs.Resume(runs.Run{ID: "run-1"}); err != nil {
		t.Fatal(err)
	}
	if got := status(next); got.Status != runs.Running || !got.Ended.IsZero() {
		t.Errorf("resumed, the run is %+v", got)
	}
}

// TestDueRunIsPendingUntilBegun and is recorded once.
func TestDueRunIsPendingUntilBegun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	first, second := runs.Due{Job: "child", At: statetest.Noon}, runs.Due{Job: "child", At: statetest.Noon.Add(time.Hour)}
	owe := func(all ...runs.Due) {
		t.Helper()
		statetest.Update(t, s, func(tx *store.Tx) error { return runs.NoteDues(tx, all) })
	}
	check := func(want ...runs.Due) {
		t.Helper()
		got, err := s.Schedule.Dues()
		for i := range got {
			if got[i].Noted.IsZero() {
				t.Errorf("%+v was noted at no time", got[i])
			}
			got[i].Noted = time.Time{}
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("dues (-want +got), error %v:\n%s", err, diff)
		}
	}
	owe(second, first, first)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = statetest.Open(t, dir)
	check(first, second)
	if err := s.Runs.Begin(runs.Run{ID: "run-1", Job: "child", Due: first.At, Status: runs.Failed}, nil); err != nil {
		t.Fatal(err)
	}
	owe(first)
	check(second)
	if done, err := s.Schedule.Performed("child", first.At); err != nil || !done {
		t.Errorf("the first is performed: %t (%v)", done, err)
	}
	statetest.Rename(t, s, "child", "renamed")
	check(runs.Due{Job: "renamed", At: second.At})
	statetest.Update(t, s, func(tx *store.Tx) error {
		return runs.DropDues(tx, []runs.Due{{Job: "renamed", At: second.At}})
	})
	check()
}

func TestUnknownRecordsAreNotUpdated(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	statetest.WantText(t, s.Finish(runs.Run{ID: "nobody"}), "nobody", "no such record")
	statetest.WantText(t, s.DB.Update(func(tx *store.Tx) error { return runs.SaveStep(tx, runs.Step{ID: 9}) }), "steps", "no such record", "9")
}

func value(v float64) *float64 { return &v }

// The hits of a page are counted as new if earlier pages and runs have not seen them.
func TestHitsAreComparedWithSeen(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	one, two := statetest.BeginRun(t, s, "run-1"), statetest.BeginRun(t, s, "run-2")
	hits := func(ids ...string) (hits []runs.Hit) {
		for _, id := range ids {
			hits = append(hits, runs.Hit{VideoID: id, ChannelID: "UC-" + id})
		}
		return hits
	}
	for _, c := range []struct {
		name string
		step runs.Step
		page int
		ids  []string
		want runs.PageHits
	}{
		{"all are new", one, 0, []string{"a", "b", "b", "c"}, runs.PageHits{Fresh: 3, New: 3, Distinct: 3}},
		{"a later page repeats some", one, 1, []string{"c", "d"}, runs.PageHits{Fresh: 2, New: 1, Distinct: 1}},
		{"a page repeats all", one, 2, []string{"a", "d"}, runs.PageHits{Fresh: 2}},
		{"the next run has seen some", two, 0, []string{"a", "b", "e"}, runs.PageHits{Fresh: 1, New: 1, Distinct: 3}},
		{"an empty page", two, 1, nil, runs.PageHits{}},
	} {
		statetest.Update(t, s, func(tx *store.Tx) error {
			if c.step.Run == two.Run { // the search before has come to its own end
				if err := runs.Cover(tx, one.Run, one.ID); err != nil {
					return err
				}
			}
			got, err := runs.AddHits(tx, c.step.Run, c.step.ID, c.page, 40*c.page, hits(c.ids...))
			if got != c.want {
				t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
			}
			return err
		})
	}
}

func TestImportedVideosAreKnown(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	one := statetest.BeginRun(t, s, "run-1")
	old := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	statetest.Update(t, s, func(tx *store.Tx) error {
		if _, err := runs.AddHits(tx, one.Run, one.ID, 0, 0, []runs.Hit{{VideoID: "seen"}}); err != nil {
			return err
		}
		added, err := runs.Import(tx, "seen.csv", []runs.Imported{{Video: "seen", FirstSeen: old}, {Video: "a", FirstSeen: old},
			{Video: "a", FirstSeen: old.Add(time.Hour)}})
		if added != 2 {
			t.Errorf("%d videos imported, want 2", added)
		}
		return err
	})
	two := statetest.BeginRun(t, s, "run-2")
	statetest.Update(t, s, func(tx *store.Tx) error {
		got, err := runs.AddHits(tx, two.Run, two.ID, 0, 0, []runs.Hit{{VideoID: "seen"}, {VideoID: "a"}, {VideoID: "b"}})
		if want := (runs.PageHits{Fresh: 1, New: 1, Distinct: 3}); got != want {
			t.Errorf("hits %+v, want %+v", got, want)
		}
		return err
	})
	for answer, want := range map[int64]int{0: 0, 1: 2} { // answers that came before know nothing of it
		found, err := s.Hits.ImportedBefore(answer, []string{"seen", "a", "b"})
		if err != nil || len(found) != want || want > 0 && !found["a"].Equal(old) {
			t.Errorf("imported before answer %d: %v, %v; want %d videos", answer, found, err, want)
		}
	}
}

func TestBestRanksTheRunsDistinctHits(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	run := runs.Run{ID: "run-1", Job: "ideas", Status: runs.Running}
	if err := s.Runs.Begin(run, []runs.Step{{Total: -1}, {Total: -1}}); err != nil {
		t.Fatal(err)
	}
	statetest.Update(t, s, func(tx *store.Tx) error {
		_, err := runs.AddHits(tx, "run-1", 1, 0, 0, []runs.Hit{
			{VideoID: "low", ChannelID: "UC1", Value: value(1)}, {VideoID: "none", ChannelID: "UC2", Value: nil}, {VideoID: "tie-b", ChannelID: "UC3", Value: value(5)}, {VideoID: "tie-a", ChannelID: "UC4", Value: value(5)}})
		return err
	})
	statetest.Update(t, s, func(tx *store.Tx) error {
		_, err := runs.AddHits(tx, "run-1", 2, 0, 0, []runs.Hit{{VideoID: "low", ChannelID: "UC1", Value: value(9)}, {VideoID: "negative", ChannelID: "UC5", Value: value(-1)}})
		return err
	})
	for _, c := range []struct {
		n    int
		desc bool
		want []string
	}{
		{0, true, []string{"low", "tie-a", "tie-b", "negative", "none"}},
		{0, false, []string{"negative", "low", "tie-a", "tie-b", "none"}},
		{2, true, []string{"low", "tie-a"}},
		{99, true, []string{"low", "tie-a", "tie-b", "negative", "none"}},
	} {
		top, err := s.Hits.Best("run-1", runs.Choice{Most: c.n, Desc: c.desc})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, ids(top)); diff != "" {
			t.Errorf("top %d, descending %v (-want +got):\n%s", c.n, c.desc, diff)
		}
		if len(top) > 0 && top[len(top)-1].VideoID == "none" && top[len(top)-1].Value != nil {
			t.Errorf("a hit without a value got %v", *top[len(top)-1].Value)
		}
	}
}

func ids(hits []runs.Hit) (ids []string) {
	for _, hit := range hits {
		ids = append(ids, hit.VideoID)
	}
	return ids
}

// What is excluded is no candidate: the best are taken of what is left, and first of each
// step where that is asked for.
func TestBestLeavesOutWhatIsExcluded(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	if err := s.Runs.Begin(runs.Run{ID: "run-1", Job: "ideas", Status: runs.Running}, []runs.Step{{Total: -1}, {Total: -1}}); err != nil {
		t.Fatal(err)
	}
	hit := func(id string, v float64, excluded bool) runs.Hit {
		return runs.Hit{VideoID: id, ChannelID: "UC", Value: &v, Excluded: excluded}
	}
	statetest.Update(t, s, func(tx *store.Tx) error {
		_, err := runs.AddHits(tx, "run-1", 1, 0, 0, []runs.Hit{
			hit("a9", 9, false), hit("a8", 8, true), hit("a7", 7, false), hit("a6", 6, false), {VideoID: "none", ChannelID: "UC"}})
		return err
	})
	statetest.Update(t, s, func(tx *store.Tx) error {
		_, err := runs.AddHits(tx, "run-1", 2, 0, 0, []runs.Hit{hit("a8", 3, true), hit("a7", 5, true), hit("b2", 2, false), hit("b1", 1, false)})
		return err
	})
	for _, c := range []struct {
		choice runs.Choice
		want   []string
	}{
		{runs.Choice{Desc: true}, []string{"a9", "a7", "a6", "b2", "b1", "none"}},
		{runs.Choice{Desc: true, Most: 3}, []string{"a9", "a7", "a6"}},
		{runs.Choice{Desc: true, Each: 1}, []string{"a9", "b2"}},
		{runs.Choice{Desc: true, Each: 2, Most: 3}, []string{"a9", "a7", "b2"}},
		{runs.Choice{Each: 1}, []string{"b1", "a6"}},
		{runs.Choice{Desc: true, All: true}, []string{"a9", "a8", "a7", "a6", "b2", "b1", "none"}},
	} {
		hits, err := s.Hits.Best("run-1", c.choice)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, ids(hits)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.choice, diff)
		}
	}
}

// TestFreeCallInFlightIsCounted: when a process is killed, its run has sent one call more than
// answers were kept. A call whose answer is on record is not counted twice.
func TestFreeCallInFlightIsCounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	statetest.BeginRun(t, s, "run-1")
	p := ledger.Purchase{Run: "run-1", Job: "ideas", Attempt: 1}
	statetest.Buy(t, s, p, statetest.AnswerTo(statetest.Must(outlier.DataRequest(outlier.OpTranscript, "video-00001")), `{}`), outlier.Charged)
	requests := func(dir string) int64 {
		t.Helper()
		all, err := statetest.Open(t, dir).Runs.List(runs.Filter{Job: "ideas"}, 1)
		if err != nil || len(all) != 1 {
			t.Fatalf("runs %+v, error %v", all, err)
		}
		return all[0].Requests
	}
	if got := requests(statetest.CopyFolder(t, dir)); got != 1 {
		t.Errorf("killed after an answer, the run has %d requests, want 1", got)
	}
	if err := statetest.Reserve(t, s, p, statetest.DetailsRequest("video-00002")).Sending(); err != nil {
		t.Fatal(err)
	}
	killed := statetest.CopyFolder(t, dir)
	if got := requests(killed); got != 2 {
		t.Errorf("killed before an answer, the run has %d requests, want 2", got)
	}
	if got := statetest.Ask(t, killed, `SELECT entity || ' ' || state FROM attempts ORDER BY id`); !slices.Equal(got, []string{"video-00001 charged", "video-00002 unknown"}) {
		t.Errorf("on record is %q", got)
	}
}
