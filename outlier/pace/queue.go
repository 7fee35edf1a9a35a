package pace

import (
	"context"
	"slices"
	"time"

	"outlierd/outlier"
)

// A class is how urgent a call is; the lower goes first.
type class int

const (
	byPerson   class = iota + 1 // marked with [Urgent]
	paid                        // searches and the start of scans
	polls                       // the state of a scan, whoever asks
	enrichment                  // everything else
)

type urgentKey struct{}

// Urgent marks the calls made with the context as a person's own, which go before
// all others that wait; but for scan polls, which have their share and no more.
func Urgent(ctx context.Context) context.Context { return context.WithValue(ctx, urgentKey{}, true) }

// classOf is the class of a call. That it is a poll comes first: a person who waits for a
// scan needs the quota for everything else, too.
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

// A waiter is one call that waits. Calls of one class go in the order in which
// they came.
type waiter struct{ class class }

// A queue holds the waiters in the order in which they may go.
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

// turn is when w may go: there must be a slot for each one before it and one
// more. A poll that has to wait for its own share holds up nobody.
func (q queue) turn(c *core, now time.Time, w *waiter) time.Time {
	before, asking := 0, 0
	for _, o := range q {
		if o == w {
			break
		}
		if o.class == polls {
			asking++
			if c.poll(asking).After(now) {
				continue
			}
		}
		before++
	}
	t := c.slot(now, before+1)
	if w.class == polls {
		t = latest(t, c.poll(asking+1))
	}
	return t
}

// ahead counts the waiters that go before a new one of the last class does.
func (q queue) ahead() (n int) {
	for _, o := range q {
		if o.class < enrichment {
			n++
		}
	}
	return n
}
