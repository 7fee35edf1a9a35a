package notify

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"outlierd/sync/runs"
)

func TestWhatTheEndOfARunTells(t *testing.T) {
	for _, c := range []struct {
		open   Kind
		status runs.Status
		tell   []Kind
		next   Kind
	}{
		{"", runs.OK, []Kind{Published}, ""},
		{"", runs.OKEmpty, []Kind{Published}, ""},
		{"", runs.Failed, []Kind{Failed}, Failed},
		{Failed, runs.Failed, nil, Failed},
		{Failed, runs.OK, []Kind{Recovered, Published}, ""},
		{Failed, runs.Partial, []Kind{Partial}, Partial},
		{Partial, runs.Partial, nil, Partial},
		{Partial, runs.OKEmpty, []Kind{Recovered, Published}, ""},
		{"", runs.PausedBudget, []Kind{BudgetPaused}, BudgetPaused},
		{BudgetPaused, runs.PausedBudget, nil, BudgetPaused},
		{Failed, runs.PausedQuota, nil, Failed},
		{Failed, runs.Interrupted, nil, Failed},
		{"", runs.Running, nil, ""},
	} {
		tell, next := afterRun(c.open, c.status)
		if !slices.Equal(tell, c.tell) || next != c.next {
			t.Errorf("%s after %q: tells %v and leaves %q, want %v and %q", c.status, c.open, tell, next, c.tell, c.next)
		}
	}
}

// Whatever becomes of runs, trouble is told once until something else comes, its end once, and
// every run that ended well.
func TestTroubleIsToldOncePerEpisode(t *testing.T) {
	statuses := []runs.Status{runs.Running, runs.OK, runs.OKEmpty, runs.Partial, runs.PausedBudget, runs.PausedQuota, runs.Failed, runs.Interrupted}
	rapid.Check(t, func(t *rapid.T) {
		open, trouble, well := Kind(""), Kind(""), 0
		for _, status := range rapid.SliceOf(rapid.SampledFrom(statuses)).Draw(t, "statuses") {
			if status == runs.OK || status == runs.OKEmpty {
				well++
			}
			var tell []Kind
			tell, open = afterRun(open, status)
			for _, k := range tell {
				switch {
				case k == Published:
					well--
				case k == Recovered && trouble == "":
					t.Fatal("an end is told of what was not told")
				case k == Recovered:
					trouble = ""
				case k == trouble:
					t.Fatalf("%s is told twice", k)
				default:
					trouble = k
				}
			}
			if open != trouble {
				t.Fatalf("open is %q, told is %q", open, trouble)
			}
		}
		if well != 0 {
			t.Fatalf("%d runs that ended well are not told", well)
		}
	})
}

func TestAConditionIsToldOncePerInstance(t *testing.T) {
	type look struct {
		holds    bool
		instance string
	}
	for _, c := range []struct {
		name              string
		lasting, baseline bool
		looks             []look
		want              string
	}{
		{"refusals", false, false, []look{{false, ""}, {true, "a"}, {true, "a"}, {false, ""}, {false, ""}, {true, "b"}, {true, "c"}}, "- tell - over - tell tell"},
		{"disk", false, false, []look{{true, ""}, {true, ""}, {false, ""}, {true, ""}}, "tell - over tell"},
		{"budget", true, false, []look{{false, "11"}, {true, "11"}, {false, "11"}, {true, "11"}, {true, "12"}}, "- tell - - tell"},
		{"drift", true, true, []look{{true, "3"}, {true, "3"}, {true, "4"}}, "- - tell"},
		{"first drift", true, true, []look{{false, "0"}, {true, "1"}}, "- tell"},
	} {
		told, got := "", ""
		for i, l := range c.looks {
			tell, over, next := condition{holds: l.holds, instance: l.instance, lasting: c.lasting, baseline: c.baseline}.step(told, fmt.Sprint("at ", i))
			switch told = next; {
			case tell && over:
				t.Errorf("%s: both told and over", c.name)
			case tell:
				got += " tell"
			case over:
				got += " over"
			default:
				got += " -"
			}
		}
		if got != " "+c.want {
			t.Errorf("%s: got%s, want %s", c.name, got, c.want)
		}
	}
}
