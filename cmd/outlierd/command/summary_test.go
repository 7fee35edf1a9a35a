package command

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outlierd/sync/engine"
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
		if got := sentence(&test.ending); got != test.want {
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
	last := func() string { return endLines(all)[endLinesMost] }
	if got := last(); got != "and 2 more" {
		t.Errorf("two endings without savings are shown as %q", got)
	}
	all[11].Saved = 4
	all = append(all, engine.Ending{Search: "cut", Of: -1, Cut: true, More: 4}, engine.Ending{Search: "endless", Of: -1, Cut: true, Left: -1, More: -1})
	if got := last(); got != "and 4 more, 4 credits saved, 4 credits more for what was cut" {
		t.Errorf("the last line is %q", got)
	}
}

func TestSavedPagesAndSkippedSearchesAreCounted(t *testing.T) {
	t.Parallel()
	all := []engine.Ending{{Reused: 2, Kept: 4}, {Reused: 1}, {Fresh: true}}
	want := []string{"3 pages from the journal, 4 credits saved", "1 search skipped as fresh"}
	if diff := cmp.Diff(want, spared(all)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"1 page from the journal"}, spared(all[1:2])); diff != "" {
		t.Error(diff)
	}
	if got := spared(nil); got != nil {
		t.Errorf("no endings are shown as %q", got)
	}
}
