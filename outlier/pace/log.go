package pace

import (
	"slices"
	"time"
)

// A cell is a number of requests that were sent at the same time. Those of other clients count from when they were
// noticed.
type cell struct {
	At     time.Time
	Own    int `json:",omitempty"`
	Others int `json:",omitempty"`
}

func (c cell) requests(others bool) int {
	if others {
		return c.Own + c.Others
	}
	return c.Own
}

// A requestLog has the requests of the last windows, oldest first.
type requestLog []cell

// add inserts a cell in the order of time: a request that was sent later may be answered earlier.
func (g *requestLog) add(c cell) {
	i := len(*g)
	for i > 0 && (*g)[i-1].At.After(c.At) {
		i--
	}
	*g = slices.Insert(*g, i, c)
}

// update drops the cells that are not after since, and changes times after now to now, in case the clock was set back.
func (g *requestLog) update(since, now time.Time) {
	old := 0
	for old < len(*g) && !(*g)[old].At.After(since) {
		old++
	}
	*g = (*g)[old:]
	for i := len(*g) - 1; i >= 0 && (*g)[i].At.After(now); i-- {
		(*g)[i].At = now
	}
}

// newest returns when the nth-newest request was sent; false if there are fewer than n.
func (g requestLog) newest(n int, others bool) (time.Time, bool) {
	for _, c := range slices.Backward(g) {
		if n -= c.requests(others); n <= 0 {
			return c.At, true
		}
	}
	return time.Time{}, false
}

// since counts the requests after t, those of other clients only if others is set.
func (g requestLog) since(t time.Time, others bool) (n int) {
	for _, c := range slices.Backward(g) {
		if !c.At.After(t) {
			break
		}
		n += c.requests(others)
	}
	return n
}

// dropOthers removes up to n requests of other clients, oldest first.
func (g *requestLog) dropOthers(n int) {
	if n <= 0 {
		return
	}
	for i := range *g {
		gone := min(n, (*g)[i].Others)
		(*g)[i].Others -= gone
		n -= gone
	}
	*g = slices.DeleteFunc(*g, func(c cell) bool { return c.requests(true) == 0 })
}
