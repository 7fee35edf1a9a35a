package notify

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"outlierd/sync/runs"
)

func TestEventsAtEndOfRun(t *testing.T) {
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
			t.Errorf("%s after %q: tells %v and leaves %q, want %v and %q",
				c.status, c.open, tell, next, c.tell, c.next)
		}
	}
}

// For any sequence of runs, a failure has one event until the status changes, and its end has one.
// Every successful run has an event.
func TestOneEventPerEpisode(t *testing.T) {
	statuses := []runs.Status{
		runs.Running, runs.OK, runs.OKEmpty, runs.Partial, runs.PausedBudget, runs.PausedQuota, runs.Failed, runs.Interrupted,
	}
	rapid.Check(t, func(t *rapid.T) {
		open, failure, unsent := Kind(""), Kind(""), 0
		for _, status := range rapid.SliceOf(rapid.SampledFrom(statuses)).Draw(t, "statuses") {
			if status == runs.OK || status == runs.OKEmpty {
				unsent++
			}
			var kinds []Kind
			kinds, open = afterRun(open, status)
			for _, k := range kinds {
				switch {
				case k == Published:
					unsent--
				case k == Recovered && failure == "":
					t.Fatalf("event %s without a failure before it", k)
				case k == Recovered:
					failure = ""
				case k == failure:
					t.Fatalf("event %s twice in one episode", k)
				default:
					failure = k
				}
			}
			if open != failure {
				t.Fatalf("the open episode is %q, want that of the last event, %q", open, failure)
			}
		}
		if unsent != 0 {
			t.Fatalf("%d successful runs without an event", unsent)
		}
	})
}

func TestOneEventPerInstance(t *testing.T) {
	type check struct {
		holds    bool
		instance string
	}
	for _, c := range []struct {
		name    string
		lasting bool
		checks  []check
		want    string
	}{
		{"refusals", false, []check{
			{false, ""}, {true, "a"}, {true, "a"}, {false, ""}, {false, ""}, {true, "b"}, {true, "c"},
		}, "- begins - ends - begins begins"},
		{"disk", false, []check{{true, ""}, {true, ""}, {false, ""}, {true, ""}}, "begins - ends begins"},
		{"budget", true, []check{
			{false, "11"}, {true, "11"}, {false, "11"}, {true, "11"}, {true, "12"},
		}, "- begins - - begins"},
	} {
		last, got := "", ""
		for i, now := range c.checks {
			state := condition{holds: now.holds, instance: now.instance, lasting: c.lasting}
			begins, ends, next := state.stepFrom(last, fmt.Sprint("at ", i))
			switch last = next; {
			case begins && ends:
				t.Errorf("%s: check %d both begins and ends", c.name, i)
			case begins:
				got += " begins"
			case ends:
				got += " ends"
			default:
				got += " -"
			}
		}
		if got != " "+c.want {
			t.Errorf("%s: got%s, want %s", c.name, got, c.want)
		}
	}
}
