package facts

import (
	"slices"
	"testing"
	"time"

	"outlierd/sync/job"
	"outlierd/sync/runs"
)

// conditions yields every combination of the columns of the table, without the fate.
func conditions(yield func(condition) bool) {
	for _, asks := range []string{"one-off", "same", "job", "flags", "new", "afresh"} {
		for _, scan := range []string{"none", "paid"} {
			for _, left := range []string{"yes", "no"} {
				for _, age := range []string{"young", "old"} {
					for _, stopped := range []string{"cut", "doubt", "else"} {
						if !yield(condition{asks, scan, left, age, stopped}) {
							return
						}
					}
				}
			}
		}
	}
}

// TestEveryUnfinishedRunHasOneFate: what the semantics say about unfinished runs holds for every combination.
func TestEveryUnfinishedRunHasOneFate(t *testing.T) {
	used := map[string]int{}
	for c := range conditions {
		u := Unfinished{condition: c}
		u.Fate, u.Why = decide(c)
		used[u.Why]++
		says := func(rule string, holds bool) {
			if !holds {
				t.Errorf("%+v: %s, because %s; but %s", c, u.Fate, u.Why, rule)
			}
		}
		paid, ofFile := c.scan == "paid", c.asks != "one-off"
		own := c.asks == "same" || c.asks == "job" && paid // who may continue it

		says("every fate has a reason", u.Why != "" && slices.Contains([]Fate{Resume, Wait, ByHand, Supersede}, u.Fate))
		says("a paid scan is never given up", !paid || !ofFile || u.Closes() == "")
		says("a paid scan does not age", !paid || fateOf(c, func(c *condition) { c.age = "old" }) == u.Fate)
		says("a paid scan with room is resumed at once", !paid || !own || c.left == "no" || c.stopped == "doubt" || u.Fate == Resume)
		says("a run that a person must settle is not resumed at once", c.stopped != "doubt" || u.Fate != Resume)
		says("a run without room is not resumed", c.left == "yes" || !u.Continues())
		says("a run that is too old is closed", paid || c.age == "young" || u.Fate == Supersede)
		says("nothing else continues a run", own || !u.Continues())
		says("a run of the schedule that was cut short is resumed at once", c != condition{"same", "none", "yes", "young", "cut"} || u.Fate == Resume)
		says("all others wait", c != condition{"same", "none", "yes", "young", "else"} || u.Fate == Wait)
		says("the job's own run and an overridden one leave each other",
			c.asks != "job" && c.asks != "flags" || u.Closes() == "" || !paid && (c.left == "no" || c.age == "old"))
		says("a one-off request closes the one before", ofFile || u.Fate == Supersede)
		says("who asks for a new run gets one", c.asks != "afresh" && c.asks != "new" || !u.Continues())
	}
	for _, line := range fates {
		if used[line.why] == 0 {
			t.Errorf("no combination reaches the line %+v", line)
		}
	}
}

func fateOf(c condition, change func(*condition)) Fate {
	change(&c)
	fate, _ := decide(c)
	return fate
}

// TestOnlyScheduledRunsAreCutShort, and those that a cap or a failure ended are not.
func TestOnlyScheduledRunsAreCutShort(t *testing.T) {
	for status, cut := range map[runs.Status]bool{
		runs.Running: true, runs.Interrupted: true, runs.PausedQuota: true, runs.PausedBudget: false, runs.Failed: false,
	} {
		for _, trigger := range []string{"schedule", "catch_up", "after", runs.Manual} {
			old := &runs.Run{Status: status, Trigger: trigger}
			c, err := new(Reader).conditionOf(&job.Spec{}, old, nil, time.Time{})
			if want := cut && trigger != runs.Manual; err != nil || (c.stopped == "cut") != want || c.left != "no" {
				t.Errorf("%s, begun by %s: %+v, %v; cut short: want %t", status, trigger, c, err, want)
			}
		}
	}
}
