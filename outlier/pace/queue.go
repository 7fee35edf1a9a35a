package pace

import (
	"context"
	"slices"
	"time"

	"outlierd/outlier"
)

// A class is how urgent a call is; the lowest goes first.
type class int

const (
	byPerson   class = iota + 1 // marked with [Urgent]
	paid                        // searches and the start of scans
	polls                       // the state of a scan, also for a person
	enrichment                  // everything else
)

type urgentKey struct{}

// Urgent marks calls made with the context as a person's own. They precede all other waiting calls,
// except that scan polls never take more than their share.
func Urgent(ctx context.Context) context.Context { return context.WithValue(ctx, urgentKey{}, true) }

// classOf returns the class of a call. A poll for a person is still a poll: a person who waits for a scan
// needs the quota for other calls too.
func classOf(ctx context.Context, op outlier.Operation, isPaid bool) class {
	switch {
	case op == outlier.OpScan:
		return polls
	case ctx.Value(urgentKey{}) != nil:
		return byPerson
	case isPaid:
		return paid
	}
	return enrichment
}

// A waiter is a waiting call. Calls of one class go in the order in which they came.
type waiter struct{ class class }

// A queue has the waiters in the order in which they are served.
type queue []*waiter

func (q *queue) join(w *waiter) {
	i := slices.IndexFunc(*q, func(o *waiter) bool { return o.class > w.class })
	if i < 0 {
		i = len(*q)
	}
	*q = slices.Insert(*q, i, w)
}

func (q *queue) leave(w *waiter) {
	*q = slices.DeleteFunc(*q, func(o *waiter) bool { return o == w })
}

// turn returns when w may be sent: there must be a slot for it and for each one before it. A poll that
// waits for the polls' share does not delay other calls.
func (q queue) turn(c *core, now time.Time, w *waiter) time.Time {
	before, asking := 0, 0
	for _, o := range q {
		if o == w {
			break
		}
		if o.class == polls {
			asking++
			if c.nextPoll(asking).After(now) {
				continue
			}
		}
		before++
	}
	t := c.slot(now, before+1)
	if w.class == polls {
		t = latest(t, c.nextPoll(asking+1))
	}
	return t
}

// ahead counts the waiters of the classes before the last one.
func (q queue) ahead() (n int) {
	for _, o := range q {
		if o.class < enrichment {
			n++
		}
	}
	return n
}
