package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"outlierd/sync/job"
	"outlierd/sync/state"
)

// Waiting is a data call that is wanted, and what becomes of it.
type Waiting struct {
	state.Waiting
	Why string    // it waits
	At  time.Time // when it will be done, if somebody works on the queue from now on
}

// lookAhead is how far the pages of runs to come are reckoned with.
const lookAhead = 7 * 24 * time.Hour

// Queue lists the calls that wait, or those of one job, in the order in which they will
// be done. When that is follows from the pace that was learned, from what stands
// before them, whoever's it is, and from the pages of the runs that come due first.
func (e *Engine) Queue(name string) ([]Waiting, error) {
	tasks, err := e.Store.Waiting(state.Filter{})
	if err != nil {
		return nil, err
	}
	now := time.Now()
	slices.SortStableFunc(tasks, func(a, b state.Waiting) int {
		return cmp.Compare(max(0, a.NotBefore.Sub(now)), max(0, b.NotBefore.Sub(now)))
	})
	ahead, pages := e.pagesAhead(now), 0
	var all []Waiting
	for i, task := range tasks {
		at := now.Add(e.Pace.ETA(i + 1 + pages))
		for len(ahead) > 0 && !ahead[0].due.After(at) {
			pages += ahead[0].pages
			ahead = ahead[1:]
			at = now.Add(e.Pace.ETA(i + 1 + pages))
		}
		if task.NotBefore.After(at) {
			at = task.NotBefore
		}
		if name == "" || task.Job == name {
			all = append(all, Waiting{Waiting: task, Why: e.why(&task, i+pages), At: at})
		}
	}
	return all, nil
}

// why says what a call waits for.
func (e *Engine) why(task *state.Waiting, before int) string {
	switch {
	case task.NotBefore.After(time.Now()):
		return fmt.Sprintf("failed %d times, the last time: %s", task.Attempts, task.Reason)
	case before == 0:
		return "is next"
	case before == 1:
		return "1 call before it"
	}
	return fmt.Sprintf("%d calls before it", before)
}

// pagesDue are the pages that a run to come takes at most.
type pagesDue struct {
	due   time.Time
	pages int
}

// pagesAhead are the pages of the runs to come, soonest first. Jobs whose number of
// searches only their run will know count as one search.
func (e *Engine) pagesAhead(now time.Time) []pagesDue {
	var all []pagesDue
	for i := range e.Config.Jobs {
		spec := &e.Config.Jobs[i]
		pages := freeze(spec).Pages
		if spec.Disabled || pages == job.AllPages {
			continue
		}
		for _, loop := range spec.Loops {
			pages *= max(1, len(loop.Source.Values))
		}
		for due := spec.Next(now, e.Config.Timezone); !due.IsZero() && due.Before(now.Add(lookAhead)) && len(spec.Fetch) == 0; due = spec.Next(due, e.Config.Timezone) {
			all = append(all, pagesDue{due, pages})
		}
	}
	slices.SortFunc(all, func(a, b pagesDue) int { return a.due.Compare(b.due) })
	return all
}
