package pace

import (
	"slices"
	"sort"
	"time"
)

// A requestLog has the times at which the requests of the last windows were sent, oldest first.
type requestLog []time.Time

// add inserts n requests in the order of time: one that was sent later may be answered earlier.
func (g *requestLog) add(t time.Time, n int) {
	i := len(*g)
	for i > 0 && (*g)[i-1].After(t) {
		i--
	}
	*g = slices.Insert(*g, i, slices.Repeat([]time.Time{t}, n)...)
}

// dropBefore drops the requests that are not after since, and changes times after now to now, in case the clock was set back.
func (g *requestLog) dropBefore(since, now time.Time) {
	*g = (*g)[len(*g)-g.countSince(since):]
	for i := len(*g) - 1; i >= 0 && (*g)[i].After(now); i-- {
		(*g)[i] = now
	}
}

// nthNewest returns when the nth-newest request was sent; false if there are fewer than n.
func (g requestLog) nthNewest(n int) (time.Time, bool) {
	if n > len(g) {
		return time.Time{}, false
	}
	return g[len(g)-n], true
}

// countSince counts the requests after t.
func (g requestLog) countSince(t time.Time) int {
	return len(g) - sort.Search(len(g), func(i int) bool { return g[i].After(t) })
}
