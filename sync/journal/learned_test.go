package journal_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outlierd/outlier"
	"outlierd/schema"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// The journal remembers for each endpoint what `from` counts, also after a restart.
func TestLearnedPagingIsKeptPerEndpoint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	learn := func(op outlier.Operation, reading string) error {
		return s.DB.Update(func(tx *store.Tx) error { return journal.LearnPaging(tx, op, reading) })
	}
	for _, err := range []error{learn(outlier.OpSearch, "page"), learn(outlier.OpSearch, "offset"), learn(outlier.OpRelated, "page")} {
		if err != nil {
			t.Error(err)
		}
	}
	statetest.WantText(t, learn(outlier.OpSearch, "sideways"), "table paging", "CHECK")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = statetest.Open(t, dir)
	for op, want := range map[outlier.Operation]string{outlier.OpSearch: "offset", outlier.OpRelated: "page", outlier.OpFindChannels: ""} {
		if got, err := s.Learned.Paging(op); got.Reading != want || err != nil {
			t.Errorf("%s pages by %q (%v), want %q", op, got.Reading, err, want)
		}
	}
}

// An identical call is answered by the newest charged answer.
func TestNewestChargedAnswerIsReused(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	answered := func(page string, body string, at time.Time, o outlier.Outcome) {
		a := statetest.AnswerTo(statetest.SearchRequest(page), body)
		a.ReceivedAt = at
		statetest.Buy(t, s, ledger.Purchase{Run: "run-1", Job: "ideas"}, a, o)
	}
	answered("0", `{"n":1}`, statetest.Noon, outlier.Charged)
	answered("0", `{"n":2}`, statetest.Noon.Add(time.Hour), outlier.Charged)
	answered("0", `{"n":3}`, statetest.Noon.Add(30*time.Minute), outlier.Charged)
	answered("0", `{"n":4`, statetest.Noon.Add(2*time.Hour), outlier.Unknown)
	answered("1", `{"n":5}`, statetest.Noon.Add(3*time.Hour), outlier.Charged)
	answered("0", `{"n":7}`, time.Now().Add(2*ledger.Skew), outlier.Charged) // by a clock that was wrong
	details := statetest.AnswerTo(statetest.DetailsRequest("video-00001"), `{"n":6}`)
	statetest.Buy(t, s, ledger.Purchase{Run: "run-1"}, details, outlier.Charged)

	params := statetest.SearchRequest("0").Params().Encode()
	for name, c := range map[string]struct {
		op     outlier.Operation
		params string
		since  time.Time
		want   string
	}{
		"the newest":               {outlier.OpSearch, params, statetest.Noon.Add(-time.Hour), `{"n":2}`},
		"the moment itself is not": {outlier.OpSearch, params, statetest.Noon.Add(time.Hour), ""},
		"another page":             {outlier.OpSearch, statetest.SearchRequest("1").Params().Encode(), statetest.Noon, `{"n":5}`},
		"other parameters":         {outlier.OpSearch, params + "&by=lexical", statetest.Noon.Add(-time.Hour), ""},
		"another operation":        {outlier.OpRelated, params, statetest.Noon.Add(-time.Hour), ""},
		"a free call":              {outlier.OpDetails, "", statetest.Noon.Add(-time.Hour), ""},
	} {
		entry, err := s.Journal.Answered(c.op, c.params, c.since, time.Now().Add(ledger.Skew))
		got := ""
		if entry != nil {
			got = string(entry.Body)
		}
		if got != c.want || err != nil {
			t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
		}
	}
	entry, err := s.Journal.Answered(outlier.OpSearch, params, statetest.Noon, time.Now().Add(ledger.Skew))
	if err != nil || entry.ID != 2 || entry.Job != "ideas" || entry.Params != params || !entry.ReceivedAt.Equal(statetest.Noon.Add(time.Hour)) {
		t.Errorf("the entry is %+v (%v)", entry, err)
	}
}

func TestEarlierAnswerLookupUsesIndex(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	before := s.DB.Statements()
	if _, err := s.Journal.Answered(outlier.OpSearch, "a", statetest.Noon, time.Now().Add(ledger.Skew)); err != nil {
		t.Fatal(err)
	}
	for _, query := range s.DB.Statements() {
		if slices.Contains(before, query) {
			continue
		}
		if steps := statetest.Plan(t, s, query, statetest.Arguments(query)); !strings.Contains(steps[0], "responses_again") {
			t.Errorf("the plan is %q", steps)
		}
	}
}

func TestDriftIsCountedOncePerAnswer(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	mood := schema.Drift{Op: outlier.OpSearch, Path: "hits.snippet.mood", Problem: "unknown", Count: 3, First: statetest.Noon, Last: statetest.Noon.Add(time.Minute), Example: "merry"}
	size := schema.Drift{Op: outlier.OpDetails, Path: "items.size", Problem: "type", Count: 1, First: statetest.Noon, Last: statetest.Noon, Example: strings.Repeat("ü", statetest.MaxErrorText)}
	note := func(upto int64, seen ...schema.Drift) (fresh []schema.Drift) {
		statetest.Update(t, s, func(tx *store.Tx) (err error) {
			fresh, err = journal.NoteDrift(tx, seen, upto)
			return err
		})
		return fresh
	}
	check := func(when string, got []schema.Drift, want ...schema.Drift) {
		t.Helper()
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("fresh at first", note(10, mood), mood)
	check("fresh when the same answers are decoded again", note(10, mood))
	check("fresh when fewer of them are", note(7, mood, size))
	later := mood
	later.First, later.Last, later.Count, later.Example = statetest.Noon.Add(time.Hour), statetest.Noon.Add(time.Hour), 2, "sad"
	check("fresh later", note(12, later, size), size)

	mark, err := s.Learned.DriftMark()
	if mark != 12 || err != nil {
		t.Errorf("counted up to %d (%v), want 12", mark, err)
	}
	mood.Count, mood.Last = 5, later.Last
	size.Example = strings.Repeat("ü", statetest.MaxErrorText/2)
	all, err := s.Learned.Drift()
	if err != nil {
		t.Fatal(err)
	}
	check("all drift", all, size, mood)
}

// A block applies to its key, also after a restart, until it is lifted.
func TestBlockLastsUntilLifted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	for _, reason := range []string{"no credits", "still no credits"} {
		statetest.Update(t, s, func(tx *store.Tx) error {
			return ledger.SetBlock(tx, ledger.BlockCredits, "key-1", reason, statetest.Noon)
		})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = statetest.Open(t, dir)
	got, err := s.Blocks.Get(ledger.BlockCredits, "key-1")
	if err != nil || got == nil {
		t.Fatalf("no block (%v)", err)
	}
	if time.Since(got.Since) > time.Minute {
		t.Errorf("since %s", got.Since)
	}
	want := ledger.Block{Kind: ledger.BlockCredits, Key: "key-1", Reason: "still no credits", Since: got.Since, Until: statetest.Noon}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("block (-want +got):\n%s", diff)
	}
	statetest.Update(t, s, func(tx *store.Tx) error { return ledger.LiftBlock(tx, ledger.BlockKey, "key-1") })
	for _, c := range []struct {
		block  ledger.BlockKind
		key    string
		fallen bool
	}{{ledger.BlockCredits, "key-1", true}, {ledger.BlockCredits, "key-2", false}, {ledger.BlockKey, "key-1", false}} {
		if got, err := s.Blocks.Get(c.block, c.key); err != nil || (got != nil) != c.fallen {
			t.Errorf("block %s of %s: %+v (%v)", c.block, c.key, got, err)
		}
	}
	statetest.Update(t, s, func(tx *store.Tx) error { return ledger.LiftBlock(tx, ledger.BlockCredits, "key-1") })
	if got, err := s.Blocks.Get(ledger.BlockCredits, "key-1"); got != nil || err != nil {
		t.Errorf("a lifted block stands: %+v (%v)", got, err)
	}
}
