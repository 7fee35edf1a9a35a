package notify

import (
	"outlierd/sync/runs"
)

// An episode is a condition that lasts, such as a job that fails. It is open from the event of its
// beginning to the event of its end. Events depend only on the open episode and the current state.

// afterRun returns the events at the end of a run, given the job's open episode ("" for none), and
// the episode that is open from then on. A run that was stopped or that still waits has no events.
func afterRun(open Kind, status runs.Status) (events []Kind, next Kind) {
	switch status {
	case runs.OK, runs.OKEmpty:
		if open != "" {
			events = append(events, Recovered)
		}
		return append(events, Published), ""
	case runs.Partial, runs.Failed, runs.PausedBudget:
		if next = outcomeKind(status); next == open {
			return nil, open
		}
		return []Kind{next}, next
	}
	return nil, open
}

// outcomeKind returns the event of a run's end, "" for a run that has not ended.
func outcomeKind(status runs.Status) Kind {
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

// A condition is a state that holds or does not, such as a refused key.
type condition struct {
	kind     Kind
	of       string // the object, if several objects have a condition of this kind; else ""
	holds    bool
	instance string // distinguishes one time that it holds from the next; "" if it ends in between
	lasting  bool   // one event for each instance, also if it ends in between, and none for its end
	title    string
	text     string
	over     string // the title of the event of its end
}

// subject returns the key of the condition's last state in the database.
func (c condition) subject() string {
	if c.of == "" {
		return string(c.kind)
	}
	return string(c.kind) + "/" + c.of
}

// stepFrom returns which event a check of the condition leads to, given the last instance with an event
// ("" for none), and the instance to record. An instance without a name is named by the time, now.
func (c condition) stepFrom(last, now string) (begins, ends bool, next string) {
	instance := c.instance
	if instance == "" {
		instance = now
		if last != "" {
			instance = last
		}
	}
	switch {
	case c.holds && last != instance:
		return true, false, instance
	case !c.holds && last != "" && !c.lasting:
		return false, true, ""
	}
	return false, false, last
}
