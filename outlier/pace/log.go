package pace

import (
	"slices"
	"time"
)

// A cell is a number of requests that completed at about one time, which is
// stamped with the last of them.
type cell struct {
	At time.Time `json:"at"`
	N  int       `json:"n"`
}

// A log holds the completions of the last window, oldest first. Completions closer
// together than a thousandth of the window share a cell, so that a log has about
// a thousand cells at most whatever the quota is; as the cell has the later stamp,
// this only ever frees a slot too late, by that thousandth.
type log struct {
	cells []cell
	first time.Time // the earliest completion in the last cell
	count int       // of all cells
}

func (g *log) add(now time.Time, n int, window time.Duration) {
	g.count += n
	if last := len(g.cells) - 1; last >= 0 && now.Sub(g.first) < window/1000 {
		g.cells[last] = cell{now, g.cells[last].N + n}
		return
	}
	g.cells = append(g.cells, cell{now, n})
	g.first = now
}

// forget drops what completed at or before t.
func (g *log) forget(t time.Time) {
	kept := slices.IndexFunc(g.cells, func(c cell) bool { return c.At.After(t) })
	if kept < 0 {
		kept = len(g.cells)
	}
	for _, c := range g.cells[:kept] {
		g.count -= c.N
	}
	g.cells = g.cells[kept:]
}

// nth is when the nth-oldest request completed; false if there are fewer.
func (g *log) nth(n int) (time.Time, bool) {
	for _, c := range g.cells {
		if n -= c.N; n <= 0 {
			return c.At, true
		}
	}
	return time.Time{}, false
}

// notAfter moves stamps from the future to now: the clock was set back.
func (g *log) notAfter(now time.Time) {
	for i := len(g.cells) - 1; i >= 0 && g.cells[i].At.After(now); i-- {
		g.cells[i].At = now
	}
	if g.first.After(now) {
		g.first = now
	}
}
