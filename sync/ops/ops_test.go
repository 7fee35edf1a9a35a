package ops_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/schema"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/marks"
	"outlierd/sync/ops"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

func TestOperationsTablesFitTheirDeclaration(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	history(t, s)
	for _, table := range schema.OpsTables() {
		rows := statetest.OpsRows(t, s, table.Name, 0)
		if len(rows) == 0 {
			t.Errorf("%s has no rows: this test shows nothing", table.Name)
		}
		record, err := schema.NewRecord(table.Schema(), rows)
		if err != nil {
			t.Errorf("%s: %v", table.Name, err)
			continue
		}
		record.Release()
	}
}

// history is a finished run with a page, a refusal and a missing video, and an open
// run with a reservation and a detail.
func history(t *testing.T, s *state.Store) {
	t.Helper()
	run := runs.Run{ID: "run-1", Job: "ideas", Trigger: "manual", Started: time.Now(), Status: runs.Running}
	params := "publishedAtFrom=2026-11-01T00%3A00%3A00Z&query=a&query=b&type=video"
	if err := s.Runs.Begin(run, []runs.Step{{Query: outlier.UncheckedQuery(outlier.OpSearch, params), Queries: []string{"a", "b"}, Total: -1, Began: statetest.Noon, Reused: 2, Left: -1}}); err != nil {
		t.Fatal(err)
	}
	p := ledger.Purchase{Run: "run-1", Job: "ideas", Step: 1, Attempt: 1, Caps: func(now time.Time) []ledger.Cap {
		return []ledger.Cap{{Scope: ledger.ScopeRun, Period: "run-1", Max: 10},
			{Scope: ledger.ScopeJobMonth, Period: ledger.JobCycle("ideas", ledger.Cycle(now, time.UTC, 1)), Max: 50},
			{Scope: ledger.ScopeMonth, Period: ledger.Cycle(now, time.UTC, 1), Max: 90, Reserve: 10}}
	}}
	p.Commit = func(tx *store.Tx, k ledger.Kept) error { return ledger.Paging(tx, k, 0, 40, 10000) }
	statetest.Buy(t, s, p, statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
	p.Commit = nil
	statetest.Buy(t, s, p, statetest.ErrorTo(statetest.SearchRequest("1"), http.StatusBadRequest, outlier.Invalid), outlier.Refunded)
	statetest.Buy(t, s, ledger.Purchase{Run: "run-1", Job: "ideas", Attempt: 1},
		statetest.ErrorTo(statetest.DetailsRequest("video-00001"), http.StatusNotFound, outlier.NotFound), outlier.Refunded)
	statetest.Update(t, s, func(tx *store.Tx) error { return runs.AddRows(tx, run.ID, map[string]int64{"outliers": 40}) })
	run.Status, run.Ended = runs.Partial, time.Now()
	if err := s.Finish(run); err != nil {
		t.Fatal(err)
	}
	statetest.BeginRun(t, s, "run-2")
	statetest.Reserve(t, s, p, statetest.SearchRequest("0"))
	statetest.Buy(t, s, ledger.Purchase{Run: "run-2", Attempt: 1}, statetest.AnswerTo(statetest.DetailsRequest("video-00002"), `{}`), outlier.Charged)
	if err := s.Learned.AddLimit(journal.Limit{Limit: 10, Window: time.Minute, Remaining: -1, Foreign: -1}); err != nil {
		t.Fatal(err)
	}
	if err := star(s, "video-00001"); err != nil {
		t.Fatal(err)
	}
	statetest.Update(t, s, func(tx *store.Tx) error {
		_, err := runs.Import(tx, "seen.csv", []runs.Imported{{Video: "video-00001", FirstSeen: time.Unix(1, 0)}})
		return err
	})
}

func star(s *state.Store, video string) error {
	return s.DB.Update(func(tx *store.Tx) error {
		_, err := marks.Apply(tx, marks.Edit{Videos: []string{video}, Star: new(true), Tag: []string{"b", "a"}})
		return err
	})
}

func TestOperationsTablesTellWhatHappened(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	history(t, s)
	for _, c := range []struct {
		table, column string
		want          []any
	}{
		{"ops.runs", "status", []any{"partial", "running"}},
		{"ops.runs", "due_at", []any{nil, nil}},
		{"ops.runs", "rows", []any{map[string]int64{"outliers": 40}, nil}},
		{"ops.searches", "queries", []any{[]string{"a", "b"}, []string{"chess"}}},
		{"ops.searches", "filters", []any{`{"publishedAtFrom":"2026-11-01T00:00:00Z","type":"video"}`, `{}`}},
		{"ops.searches", "window_from", []any{time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), nil}},
		{"ops.searches", "total", []any{nil, nil}},
		{"ops.searches", "reused", []any{int64(2), int64(0)}},
		{"ops.searches", "began_at", []any{statetest.Noon, nil}},
		{"ops.searches", "left_pages", []any{nil, int64(0)}},
		{"ops.requests", "outcome", []any{"charged", "refunded", "refunded", nil, "charged"}},
		{"ops.requests", "parameters", []any{`{"from":"0","query":"chess","size":"40"}`, `{"from":"1","query":"chess","size":"40"}`,
			nil, `{"from":"0","query":"chess","size":"40"}`, nil}},
		{"ops.requests", "page_total", []any{int64(10000), nil, nil, nil, nil}},
		{"ops.requests", "http_status", []any{int64(200), int64(400), int64(404), nil, int64(200)}},
		{"ops.requests", "response_id", []any{int64(1), nil, int64(2), nil, int64(3)}},
		{"ops.credits", "outcome", []any{"spent", "refunded", "reserved"}},
		{"ops.credits", "cap_run", []any{int64(10), int64(10), int64(10)}},
		{"ops.credits", "cap_day", []any{nil, nil, nil}},
		{"ops.credits", "cap_job_month", []any{int64(50), int64(50), int64(50)}},
		{"ops.credits", "cap_month", []any{int64(90), int64(90), int64(90)}},
		{"ops.credits", "reserve", []any{int64(10), int64(10), int64(10)}},
		{"ops.limits", "max_requests", []any{int64(10)}},
		{"ops.limits", "remaining", []any{nil}},
		{"ops.limits", "window_s", []any{60.0}},
		{"ops.marks", "starred", []any{true}},
		{"ops.marks", "tags", []any{[]string{"a", "b"}}},
		{"ops.marks", "note", []any{nil}},
	} {
		got := statetest.Column(t, s, c.table, c.column, 0)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s.%s (-want +got):\n%s", c.table, c.column, diff)
		}
	}
}

// TestNewsAreWhatHasChanged, and no more: not the rows that are only unfinished.
func TestNewsAreWhatHasChanged(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	history(t, s)
	version := func() int64 {
		changes, err := ops.Since(s.DB, 1)
		if err != nil {
			t.Fatal(err)
		}
		return changes.Version
	}
	for _, c := range []struct {
		what   string
		change func() error
		want   map[string][]any // ids
	}{
		{"nothing", func() error { return nil }, nil},
		{"a run ends", func() error { return s.Finish(runs.Run{ID: "run-2", Status: runs.OK, Ended: statetest.Noon}) }, map[string][]any{"ops.runs": {int64(2)}}},
		{"a free call", func() error {
			statetest.Buy(t, s, ledger.Purchase{Run: "run-2", Attempt: 1}, statetest.AnswerTo(statetest.DetailsRequest("video-00003"), `{}`), outlier.Charged)
			return nil
		}, map[string][]any{"ops.requests": {int64(6)}}},
		{"a paid call", func() error {
			statetest.Buy(t, s, ledger.Purchase{Run: "run-1", Step: 1, Attempt: 1}, statetest.AnswerTo(statetest.SearchRequest("5"), `{}`), outlier.Charged)
			return nil
		}, map[string][]any{"ops.requests": {int64(7)}, "ops.credits": {int64(7)}, "ops.searches": {int64(1)}}},
		{"an adjustment", func() error { return s.Ledger.Adjust(3, "a test") }, map[string][]any{"ops.credits": {int64(8)}}},
		{"a mark", func() error { return star(s, "video-00002") }, map[string][]any{"ops.marks": {int64(2)}}},
		{"the same mark", func() error { return star(s, "video-00002") }, nil},
		{"a limit", func() error { return s.Learned.AddLimit(journal.Limit{Limit: 20, Window: time.Minute}) }, map[string][]any{"ops.limits": {int64(2)}}},
	} {
		before := version()
		if err := c.change(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		for _, table := range schema.OpsTables() {
			if diff := cmp.Diff(c.want[table.Name], statetest.Column(t, s, table.Name, "id", before)); diff != "" {
				t.Errorf("%s: rows of %s that have changed (-want +got):\n%s", c.what, table.Name, diff)
			}
		}
	}
}

// TestForgottenChangesPublishAllRows: also to a reader with a version that the state has
// not yet reached, as after an older copy was put back.
func TestForgottenChangesPublishAllRows(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	history(t, s)
	first, err := ops.Since(s.DB, 0)
	if err != nil || !first.All {
		t.Fatalf("all rows are changes: %t, %v", first.All, err)
	}
	if err := ops.Forget(s.DB, first.Version); err != nil {
		t.Fatal(err)
	}
	statetest.BeginRun(t, s, "run-3")
	for since, all := range map[int64]bool{first.Version - 1: true, first.Version: false, first.Version + 100: true} {
		if changes, err := ops.Since(s.DB, since); err != nil || changes.All != all || changes.Version == since {
			t.Errorf("since %d: all rows are changes: %t, version %d, %v", since, changes.All, changes.Version, err)
		}
	}
	if got := statetest.Column(t, s, "ops.runs", "id", first.Version); !cmp.Equal(got, []any{int64(3)}) {
		t.Errorf("runs %v are changes, want the third", got)
	}
}

func TestLimitIsKeptWhenItChanges(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	for _, l := range []journal.Limit{
		{Limit: 10, Window: time.Minute, Remaining: 9, Foreign: -1},
		{Limit: 10, Window: time.Minute, Remaining: 3, Foreign: -1},
		{Limit: 20, Window: time.Minute, Remaining: 3, Foreign: -1},
		{Limit: 20, Window: time.Minute, Remaining: 3, Foreign: 4},
		{Limit: 20, Window: time.Minute, Remaining: 3, Foreign: 0},
		{Limit: 20, Window: time.Minute, Remaining: 3, Foreign: 3},
		{Limit: 20, Window: time.Hour, Remaining: 3, Foreign: 4},
	} {
		if err := s.Learned.AddLimit(l); err != nil {
			t.Fatal(err)
		}
	}
	got := statetest.Column(t, s, "ops.limits", "max_requests", 0)
	if diff := cmp.Diff([]any{int64(10), int64(20), int64(20), int64(20)}, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// TestRestoredStateSkipsVersions: a sink that has a version of the state that was lost gets all rows,
// and one of the backup, or of the restored state, only the changes.
func TestRestoredStateSkipsVersions(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	history(t, s)
	see := func(since int64) ops.Changes {
		t.Helper()
		changes, err := ops.Since(s.DB, since)
		if err != nil {
			t.Fatal(err)
		}
		return changes
	}
	end, err := s.Journal.End()
	if err != nil {
		t.Fatal(err)
	}
	backup := see(0).Version
	if err := s.Restored(); err != nil {
		t.Fatal(err)
	}
	if err := s.Ledger.Adjust(1, "spent after the backup"); err != nil {
		t.Fatal(err)
	}
	now := see(0).Version
	for since, all := range map[int64]bool{backup: false, backup + 1: true, backup + 99: true, now - 1: false, now: false, now + 1: true} {
		if changes := see(since); changes.All != all || changes.Version != now {
			t.Errorf("since %d (backup %d, now %d): all %v, version %d", since, backup, now, changes.All, changes.Version)
		}
	}
	restores, err := ops.ReadRestores(s.DB)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		version, mark int64
		lost          bool
	}{
		{backup, end, false}, {backup + 1, end, false}, {backup + 1, end + 1, true}, {now, end + 1, false}, {0, 0, false},
		{backup, end + 1, true}, // written by the lost state, and not published
		{0, end + 1, false},     // taken from a copy
	} {
		if lost := restores.LostWith(c.version, c.mark); (lost != nil) != c.lost {
			t.Errorf("version %d, answers up to %d: %v, want lost %v", c.version, c.mark, lost, c.lost)
		}
	}
}
