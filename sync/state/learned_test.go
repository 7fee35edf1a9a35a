package state

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

func TestWhatFromCountsIsRememberedPerEndpoint(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	learn := func(op outlier.Operation, reading string) error {
		return s.DB.Update(func(tx *store.Tx) error { return journal.LearnPaging(tx, op, reading, "two whole pages") })
	}
	for _, err := range []error{learn(outlier.OpSearch, "page"), learn(outlier.OpSearch, "offset"), learn(outlier.OpRelated, "page")} {
		if err != nil {
			t.Error(err)
		}
	}
	wantText(t, learn(outlier.OpSearch, "sideways"), "search", "sideways", "CHECK")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	for op, want := range map[outlier.Operation]string{outlier.OpSearch: "offset", outlier.OpRelated: "page", outlier.OpFindChannels: ""} {
		if got, err := s.Journal.Paging(op); got.Reading != want || err != nil {
			t.Errorf("%s pages by %q (%v), want %q", op, got.Reading, err, want)
		}
	}
}

func TestIdenticalCallIsAnsweredByTheNewestChargedAnswer(t *testing.T) {
	s := open(t, t.TempDir())
	answered := func(page string, body string, at time.Time, o outlier.Outcome) {
		a := answerTo(searchRequest(page), body)
		a.ReceivedAt = at
		buy(t, s, ledger.Purchase{Run: "run-1", Job: "ideas"}, a, o)
	}
	answered("0", `{"n":1}`, noon, outlier.Charged)
	answered("0", `{"n":2}`, noon.Add(time.Hour), outlier.Charged)
	answered("0", `{"n":3}`, noon.Add(30*time.Minute), outlier.Charged)
	answered("0", `{"n":4`, noon.Add(2*time.Hour), outlier.Unknown)
	answered("1", `{"n":5}`, noon.Add(3*time.Hour), outlier.Charged)
	answered("0", `{"n":7}`, time.Now().Add(2*ledger.Skew), outlier.Charged) // by a clock that was wrong
	details := answerTo(detailsRequest("video-00001"), `{"n":6}`)
	buy(t, s, ledger.Purchase{Run: "run-1"}, details, outlier.Charged)

	params := searchRequest("0").Params().Encode()
	for name, c := range map[string]struct {
		op     outlier.Operation
		params string
		since  time.Time
		want   string
	}{
		"the newest":               {outlier.OpSearch, params, noon.Add(-time.Hour), `{"n":2}`},
		"the moment itself is not": {outlier.OpSearch, params, noon.Add(time.Hour), ""},
		"another page":             {outlier.OpSearch, searchRequest("1").Params().Encode(), noon, `{"n":5}`},
		"other parameters":         {outlier.OpSearch, params + "&by=lexical", noon.Add(-time.Hour), ""},
		"another operation":        {outlier.OpRelated, params, noon.Add(-time.Hour), ""},
		"a free call":              {outlier.OpDetails, "", noon.Add(-time.Hour), ""},
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
	entry, err := s.Journal.Answered(outlier.OpSearch, params, noon, time.Now().Add(ledger.Skew))
	if err != nil || entry.ID != 2 || entry.Job != "ideas" || entry.Params.Get("from") != "0" || !entry.ReceivedAt.Equal(noon.Add(time.Hour)) {
		t.Errorf("the entry is %+v (%v)", entry, err)
	}
}

func TestEarlierAnswerIsFoundByItsIndex(t *testing.T) {
	s := open(t, t.TempDir())
	before := s.DB.Statements()
	if _, err := s.Journal.Answered(outlier.OpSearch, "a", noon, time.Now().Add(ledger.Skew)); err != nil {
		t.Fatal(err)
	}
	for _, query := range s.DB.Statements() {
		if slices.Contains(before, query) {
			continue
		}
		if steps := plan(t, s, query, arguments(query)); !strings.Contains(steps[0], "responses_again") {
			t.Errorf("the plan is %q", steps)
		}
	}
}

func TestDriftIsCountedOncePerAnswer(t *testing.T) {
	s := open(t, t.TempDir())
	mood := journal.Drift{Op: outlier.OpSearch, Path: "hits.snippet.mood", Problem: "unknown", Count: 3, First: noon, Last: noon.Add(time.Minute), Example: "merry"}
	size := journal.Drift{Op: outlier.OpDetails, Path: "items.size", Problem: "type", Count: 1, First: noon, Last: noon, Example: strings.Repeat("ü", maxErrorText)}
	note := func(upto int64, seen ...journal.Drift) (fresh []journal.Drift) {
		update(t, s, func(tx *store.Tx) (err error) {
			fresh, err = journal.NoteDrift(tx, seen, upto)
			return err
		})
		return fresh
	}
	check := func(when string, got []journal.Drift, want ...journal.Drift) {
		t.Helper()
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("fresh at first", note(10, mood), mood)
	check("fresh when the same answers are decoded again", note(10, mood))
	check("fresh when fewer of them are", note(7, mood, size))
	later := mood
	later.First, later.Last, later.Count, later.Example = noon.Add(time.Hour), noon.Add(time.Hour), 2, "sad"
	check("fresh later", note(12, later, size), size)

	mark, err := s.Journal.DriftMark()
	if mark != 12 || err != nil {
		t.Errorf("counted up to %d (%v), want 12", mark, err)
	}
	mood.Count, mood.Last = 5, later.Last
	size.Example = strings.Repeat("ü", maxErrorText/2)
	all, err := s.Journal.Drift()
	if err != nil {
		t.Fatal(err)
	}
	check("all drift", all, size, mood)
}

func TestLatchStandsForItsKeyUntilItIsLifted(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for _, reason := range []string{"no credits", "still no credits"} {
		update(t, s, func(tx *store.Tx) error { return ledger.SetBlock(tx, ledger.BlockCredits, "key-1", reason, noon) })
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	got, err := s.Ledger.Block(ledger.BlockCredits, "key-1")
	if err != nil || got == nil {
		t.Fatalf("no latch (%v)", err)
	}
	if time.Since(got.Since) > time.Minute {
		t.Errorf("since %s", got.Since)
	}
	want := ledger.Block{Kind: ledger.BlockCredits, Key: "key-1", Reason: "still no credits", Since: got.Since, Until: noon}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("latch (-want +got):\n%s", diff)
	}
	update(t, s, func(tx *store.Tx) error { return ledger.LiftBlock(tx, ledger.BlockKey, "key-1") })
	for _, c := range []struct {
		latch  ledger.BlockKind
		key    string
		fallen bool
	}{{ledger.BlockCredits, "key-1", true}, {ledger.BlockCredits, "key-2", false}, {ledger.BlockKey, "key-1", false}} {
		if got, err := s.Ledger.Block(c.latch, c.key); err != nil || (got != nil) != c.fallen {
			t.Errorf("latch %s of %s: %+v (%v)", c.latch, c.key, got, err)
		}
	}
	update(t, s, func(tx *store.Tx) error { return ledger.LiftBlock(tx, ledger.BlockCredits, "key-1") })
	if got, err := s.Ledger.Block(ledger.BlockCredits, "key-1"); got != nil || err != nil {
		t.Errorf("a lifted latch stands: %+v (%v)", got, err)
	}
}
