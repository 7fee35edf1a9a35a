package notify

import (
	"outlierd/sync/runs"
)

// An episode begins when something is told that goes on, such as that a job fails, and ends
// when it is over. What is told follows from the episode that is open and from what happens
// now, and from nothing else.

// afterRun is what the end of a run tells, given what was told of the job last ("" if its last
// run was well), and what is open from then on. A run that only waits, or that was stopped,
// tells nothing.
func afterRun(open Kind, status runs.Status) (tell []Kind, next Kind) {
	switch status {
	case runs.OK, runs.OKEmpty:
		if open != "" {
			tell = append(tell, Recovered)
		}
		return append(tell, Published), ""
	case runs.Partial, runs.Failed, runs.PausedBudget:
		if next = outcome(status); next == open {
			return nil, open
		}
		return []Kind{next}, next
	}
	return nil, open
}

// outcome is the kind of a run's end, "" for one that is not at its end.
func outcome(status runs.Status) Kind {
	switch status {
	case runs.OK, runs.OKEmpty:
		return Published
	case runs.Partial:
		return Partial
	case runs.Failed:
		return Failed
	case runs.PausedBudget:
		return BudgetPaused
	}
	return ""
}

// A condition holds or does not, such as that the key is refused.
type condition struct {
	kind     Kind
	of       string // what it is about, where several things have a condition of one kind; else ""
	holds    bool
	instance string // tells one time that it holds from the next; "" where it ends in between
	lasting  bool   // it is told once for each instance, also if it ends in between, and its end is not told
	baseline bool   // what holds at the first look is remembered and not told
	title    string
	text     string
	over     string // what is told when it ends
}

// subject is under which it is remembered what was told.
func (c condition) subject() string {
	if c.of == "" {
		return string(c.kind)
	}
	return string(c.kind) + "/" + c.of
}

// step is what a look at a condition tells, given the instance that was told last ("" for
// none), and the instance that is remembered from then on. A look at "now" names an instance
// that has no other name.
func (c condition) step(last, now string) (tell bool, over bool, next string) {
	instance := c.instance
	if instance == "" {
		instance = now
		if last != "" {
			instance = last
		}
	}
	switch {
	case c.baseline && last == "":
		return false, false, instance
	case c.holds && last != instance:
		return true, false, instance
	case !c.holds && last != "" && !c.lasting:
		return false, true, ""
	}
	return false, false, last
}
