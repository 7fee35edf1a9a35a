package main

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

func TestEndingsSayWhatWasSavedAndWhatWasLeft(t *testing.T) {
	search := func(s state.Step) state.Step {
		s.Op, s.Queries = outlier.OpSearch, []string{"moka pot"}
		return s
	}
	for name, test := range map[string]struct {
		step  state.Step
		pages int
		want  string
	}{
		"an ordinary end":          {search(state.Step{Pages: 3, Hits: 120, Total: 480, Stop: "pages"}), 3, ""},
		"hardly anything new":      {search(state.Step{Pages: 2, Hits: 80, Total: 480, Stop: "known"}), 5, "moka pot: hardly anything was new after 2 pages, 6 credits saved"},
		"on the last page":         {search(state.Step{Pages: 5, Hits: 200, Total: 480, Stop: "known"}), 5, ""},
		"an empty page":            {search(state.Step{Pages: 1, Total: 0, Stop: "empty"}), 2, "moka pot: there was nothing more after 1 page, 2 credits saved"},
		"a short page":             {search(state.Step{Pages: 1, Hits: 12, Total: 12, Stop: "short"}), 3, "moka pot: there was nothing more after 1 page, 4 credits saved"},
		"repetition":               {search(state.Step{Pages: 2, Hits: 80, Total: -1, Stop: "repeated"}), 3, "moka pot: a page brought only what had come before after 2 pages, 2 credits saved"},
		"all there is":             {search(state.Step{Pages: 2, Hits: 52, Total: 52, Stop: "short"}), job.AllPages, "moka pot: there was nothing more after 2 pages"},
		"known, without an end":    {search(state.Step{Pages: 2, Hits: 80, Total: 161, Stop: "known"}), job.AllPages, "moka pot: hardly anything was new after 2 pages, 6 credits saved"},
		"a cap":                    {search(state.Step{Pages: 3, Hits: 120, Total: 480, Left: 9}), 12, "moka pot: 120 of 480 hits, 18 credits more"},
		"a cap before much":        {search(state.Step{Pages: 1, Hits: 40, Total: 480, Left: 1}), 2, "moka pot: 40 of 80 hits, 2 credits more"},
		"a cap, with no end known": {search(state.Step{Pages: 1, Hits: 40, Total: 10_000, Left: 249}), job.AllPages, "moka pot: 40 of 10000 hits or more, 498 credits more"},
		"a cap before anything":    {search(state.Step{Total: -1, Left: 4}), 4, "moka pot: not begun, 8 credits more"},
		"out of time":              {search(state.Step{Pages: 1, Hits: 40, Total: 60, Stop: "time", Left: 1}), 4, "moka pot: 40 of 60 hits, 2 credits more"},
		"nobody knows how many":    {search(state.Step{Pages: 1, Hits: 40, Total: -1, Left: -1}), job.AllPages, "moka pot: cut after 1 page; how many more there are is not known"},
		"refused":                  {search(state.Step{Total: -1, Stop: "refused", Left: -1}), 4, ""},
		"channels cost five": {state.Step{Op: outlier.OpFindChannels, Queries: []string{"tea"}, Pages: 1, Hits: 40, Total: 100, Left: 2}, 3,
			"tea: 40 of 100 hits, 10 credits more"},
	} {
		got := endings([]state.Step{test.step}, test.pages, nil)
		if got[0].String() != test.want {
			t.Errorf("%s: %q, want %q", name, got[0].String(), test.want)
		}
	}
	if got := endings([]state.Step{{Op: outlier.OpStartScan, Left: -1}}, 5, nil); got != nil {
		t.Errorf("the start of a scan is told as a search: %v", got)
	}
	dearer := endings([]state.Step{search(state.Step{Pages: 1, Total: 0, Stop: "empty"})}, 2, outlier.Prices{"search": 7})
	if dearer[0].saved != 7 {
		t.Errorf("at the configured price of 7, %d are saved", dearer[0].saved)
	}
}

func TestManyEndingsAreSummedUp(t *testing.T) {
	var steps []state.Step
	for i := range 13 {
		steps = append(steps, state.Step{Op: outlier.OpSearch, Queries: []string{fmt.Sprint(i)}, Pages: 1, Hits: 12, Total: 12, Stop: "short"})
	}
	steps = append(steps, state.Step{Op: outlier.OpSearch, Queries: []string{"cut"}, Total: -1, Left: 2})
	lines := endLines(endings(steps, 3, nil))
	if len(lines) != 11 || lines[10] != "and 4 more such: 12 credits saved, 4 credits more for what was cut" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

func TestWhatCostNothingIsCounted(t *testing.T) {
	steps := []state.Step{
		{Op: outlier.OpSearch, Pages: 3, Reused: 2, Stop: "pages"},
		{Op: outlier.OpRelated, Pages: 1, Reused: 1, Stop: "pages"},
		{Op: outlier.OpRelated, Stop: "fresh"},
	}
	want := []string{"3 pages from the journal, 6 credits saved", "1 search skipped as fresh"}
	if diff := cmp.Diff(want, spared(endings(steps, 3, nil))); diff != "" {
		t.Error(diff)
	}
	if got := spared(endings(steps[:0], 3, nil)); got != nil {
		t.Errorf("nothing is told as %q", got)
	}
}
