package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/cmd/outlierd/term"
	"outlierd/sync/engine"
	"outlierd/sync/runs"
)

func TestEndingsAreShownAsSentences(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ending engine.Ending
		want   string
	}{
		{engine.Ending{Pages: 3, Hits: 120, Of: 480}, ""},
		{engine.Ending{Fresh: true, Of: -1}, ""},
		{engine.Ending{Pages: 2, Hits: 80, Early: "hardly anything was new", Saved: 6}, "tea: hardly anything was new after 2 pages, 6 credits saved"},
		{engine.Ending{Pages: 1, Hits: 9, Early: "there were no more hits"}, "tea: there were no more hits after 1 page"},
		{engine.Ending{Pages: 3, Hits: 120, Of: 480, Cut: true, Left: 9, More: 18}, "tea: 120 of 480 hits, 18 credits more"},
		{engine.Ending{Pages: 1, Hits: 40, Of: 10_000, Cut: true, Left: 249, More: 498}, "tea: 40 of 10000 hits or more, 498 credits more"},
		{engine.Ending{Pages: 1, Hits: 40, Of: -1, Cut: true, Left: 3, More: 6}, "tea: 40 hits so far, 6 credits more"},
		{engine.Ending{Pages: 1, Hits: 40, Seen: 40, Total: 85, Limited: true, Left: 2, More: 4}, "tea: 40 of 85 hits; the rest costs 4 credits"},
		{engine.Ending{Pages: 1, Hits: 40, Seen: 40, Total: 10_000, Limited: true, Left: 249, More: 498}, "tea: 40 of 10000 hits or more; the rest costs 498 credits"},
		{engine.Ending{Pages: 1, Hits: 40, Seen: 40, Total: -1, Limited: true, Left: -1, More: -1}, "tea: 40 hits; the number of further hits is not known"},
		{engine.Ending{Pages: 2, Hits: 40, Seen: 40, Total: 85, Early: "there were no more hits", Short: true}, "tea: 40 of 85 hits; the service counted more than it returned"},
		{engine.Ending{Pages: 2, Hits: 40, Seen: 40, Total: -1, Early: "there were no more hits"}, "tea: there were no more hits after 2 pages; the service does not report the number of hits"},
		{engine.Ending{Of: -1, Cut: true, Left: 4, More: 8}, "tea: not started (8 credits)"},
		{engine.Ending{Pages: 1, Hits: 40, Of: -1, Cut: true, Left: -1, More: -1}, "tea: cut after 1 page; the number of further hits is not known"},
	} {
		test.ending.Search = "tea"
		if got := describeEnding(&test.ending); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

func TestManyEndingsAreSummedUp(t *testing.T) {
	t.Parallel()
	var all []engine.Ending
	for i := range 12 {
		all = append(all, engine.Ending{Search: fmt.Sprint(i), Pages: 1, Early: "there were no more hits"})
	}
	last := func() string { return endingLines(all)[maxEndings] }
	if got := last(); got != "and 2 more" {
		t.Errorf("two endings without savings are shown as %q", got)
	}
	all[11].Saved = 4
	all = append(all, engine.Ending{Search: "cut", Of: -1, Cut: true, More: 4}, engine.Ending{Search: "endless", Of: -1, Cut: true, Left: -1, More: -1})
	if got := last(); got != "and 4 more, 4 credits saved, 4 credits more for what was cut" {
		t.Errorf("the last line is %q", got)
	}
}

// Pages from the journal and skipped searches are counted.
func TestSavingsAreCounted(t *testing.T) {
	t.Parallel()
	all := []engine.Ending{{Reused: 2, Kept: 4}, {Reused: 1}, {Fresh: true}}
	want := []string{"3 pages from the journal, 4 credits saved", "1 search skipped as fresh"}
	if diff := cmp.Diff(want, sparedFacts(all)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"1 page from the journal"}, sparedFacts(all[1:2])); diff != "" {
		t.Error(diff)
	}
	if got := sparedFacts(nil); got != nil {
		t.Errorf("no endings are shown as %q", got)
	}
}

// ended is a run with everything that a summary can show.
var ended = runs.Run{
	ID: "01a1fe45", Job: "coffee", Status: runs.Partial, Started: day(21, 12), Ended: day(21, 12).Add(3 * time.Minute),
	Pages: 3, Hits: 120, NewHits: 7, Requests: 41, Credits: 6, Refunded: 2, Missing: 1, Failures: 2,
	Rows:  map[string]int64{"videos": 12, "videos_history": 12, "outliers": 120, "comments": 0},
	Error: "transcript dQw4w9WgXcQ: HTTP 500: \x1b[2Joops",
}

func TestSummaryOfARun(t *testing.T) {
	t.Parallel()
	look := term.Options{Zone: time.UTC}
	places := []string{"data/outliers.duckdb", "data/parquet"}
	expect := func(what, got, want string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	expect("partial", Summary(&Run{Run: ended, Since: ended.Started, Queued: 5}, places, nil, look), `! coffee  partial in 3 min   run 01a1fe45
  120 hits on 3 pages, 7 new · 41 requests · 6 credits spent · 2 refunded
  1 call returned nothing · 2 calls failed · 5 calls left for the next run
  rows outliers 120 · videos 12
  transcript dQw4w9WgXcQ: HTTP 500: `+"\ufffd"+`[2Joops
  data/outliers.duckdb
  data/parquet
`)
	expect("continued, with lost answers, and an error that the caller prints",
		Summary(&Run{Run: ended, Since: ended.Started.Add(170 * time.Second), Unknown: 4}, nil, errors.New("oops"), look),
		`! coffee  partial in 10 s   run 01a1fe45
  120 hits on 3 pages, 7 new · 41 requests · 2 credits spent · 4 unknown · 2 refunded
  1 call returned nothing · 2 calls failed
  rows outliers 120 · videos 12
`)
	empty := runs.Run{ID: "01a1fe46", Job: "coffee", Status: runs.OKEmpty, Started: day(21, 12), Ended: day(21, 12), Pages: 1, Hits: 1, Requests: 1, Credits: 1}
	expect("ok_empty", Summary(&Run{Run: empty, Since: empty.Started}, places, nil, look), `✓ coffee  ok_empty in 0 s   run 01a1fe46
  1 hit on 1 page, 0 new · 1 request · 1 credit spent
  data/outliers.duckdb
  data/parquet
`)
	row, err := json.Marshal(&Run{Run: ended, Unknown: 4})
	for _, member := range []string{`"credits":6,`, `"refunded":2,`, `"unknown":4,`, `"waited_s":0,`} {
		if err != nil || !strings.Contains(string(row), member) {
			t.Errorf("%v: no %s in %s", err, member, row)
		}
	}
}

func TestCountsOfTablesLeaveHistoriesOut(t *testing.T) {
	t.Parallel()
	got := tableCounts(map[string]int64{"videos": 3, "videos_history": 3, "comments": 0, "channels": 1})
	if diff := cmp.Diff([]string{"rows channels 1", "videos 3"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := tableCounts(map[string]int64{"comments": 0}); got != nil {
		t.Errorf("no rows are printed as %q", got)
	}
}

// A search without hits suggests a filter to loosen, an earlier date or another query.
func TestSearchWithoutHitsSuggestsChange(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]engine.Ending{
		"tea: no hits; search for something else":                                                                      {},
		"tea: no hits with published 2026-11-01..; search further back":                                                {Window: "2026-11-01.."},
		"tea: no hits with by lexical; write by: semantic, or search for something else":                               {Filters: []string{"by lexical"}},
		"tea: no hits with language en · z_score 5.. · published 2026-11-01..; loosen z_score, or search further back": {Filters: []string{"language en", "z_score 5.."}, Window: "2026-11-01.."},
	} {
		e.Search, e.Pages = "tea", 1
		if got := describeEnding(&e); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
