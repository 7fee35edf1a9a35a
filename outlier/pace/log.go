package pace

import (
	"math"
	"slices"
	"time"
)

// A cell is a number of requests that were sent at about one time, which is
// stamped with the last of them. Those of others on the key are stamped with the
// moment at which they were noticed.
type cell struct {
	At     time.Time `json:"at"`
	Own    int       `json:"n,omitempty"`
	Others int       `json:"others,omitempty"`
}

func (c cell) requests(others bool) int {
	if others {
		return c.Own + c.Others
	}
	return c.Own
}

// A log holds the requests of the last window, oldest first. Requests closer
// together than a grain share a cell, so that a log has about a thousand cells at
// most whatever the quota is; as the cell has the later stamp, this only ever
// frees a slot too late, by that grain.
type log struct {
	Cells []cell
	first time.Time // the earliest request in the last cell
}

func (g *log) add(c cell, grain time.Duration) {
	last := len(g.Cells) - 1
	switch {
	case last < 0 || !c.At.Before(g.Cells[last].At):
		if last >= 0 && c.At.Sub(g.first) < grain {
			g.join(last, c)
			return
		}
		g.Cells = append(g.Cells, c)
		g.first = c.At
	default: // it was sent before another whose answer came first
		i, _ := slices.BinarySearchFunc(g.Cells, c.At, func(c cell, t time.Time) int { return c.At.Compare(t) })
		if g.Cells[i].At.Sub(c.At) < grain {
			g.join(i, c)
			return
		}
		g.Cells = slices.Insert(g.Cells, i, c)
	}
}

func (g *log) join(i int, c cell) {
	to := &g.Cells[i]
	to.At, to.Own, to.Others = latest(to.At, c.At), to.Own+c.Own, to.Others+c.Others
}

// forget drops what is not after t.
func (g *log) forget(t time.Time) {
	kept := 0
	for kept < len(g.Cells) && !g.Cells[kept].At.After(t) {
		kept++
	}
	g.Cells = g.Cells[kept:]
}

// newest is when the nth-newest request was sent; false if there are fewer.
func (g *log) newest(n int, others bool) (time.Time, bool) {
	for i := len(g.Cells) - 1; i >= 0; i-- {
		if n -= g.Cells[i].requests(others); n <= 0 {
			return g.Cells[i].At, true
		}
	}
	return time.Time{}, false
}

// since counts the requests after t.
func (g *log) since(t time.Time, others bool) (n int) {
	for i := len(g.Cells) - 1; i >= 0 && g.Cells[i].At.After(t); i-- {
		n += g.Cells[i].requests(others)
	}
	return n
}

// others counts the requests of others.
func (g *log) others() (n int) {
	for _, c := range g.Cells {
		n += c.Others
	}
	return n
}

// dropOthers takes up to n requests of others out, the oldest first, which are not
// after t.
func (g *log) dropOthers(t time.Time, n int) {
	if n == 0 {
		return
	}
	for i := range g.Cells {
		if g.Cells[i].At.After(t) {
			break
		}
		gone := min(n, g.Cells[i].Others)
		g.Cells[i].Others -= gone
		n -= gone
	}
	g.Cells = slices.DeleteFunc(g.Cells, func(c cell) bool { return c.requests(true) == 0 })
}

// owed is how many requests a bucket that was full before the log begins and gains
// one in each of the given time lacks at t, or after the last request if that
// is later.
func (g *log) owed(t time.Time, each time.Duration, others bool) float64 {
	lack := 0.0
	for i, c := range g.Cells {
		if i > 0 {
			lack -= float64(c.At.Sub(g.Cells[i-1].At)) / float64(each)
		}
		lack = math.Max(lack, 0) + float64(c.requests(others))
	}
	if last := len(g.Cells) - 1; last >= 0 && t.After(g.Cells[last].At) {
		lack -= float64(t.Sub(g.Cells[last].At)) / float64(each)
	}
	return math.Max(lack, 0)
}

// notAfter moves stamps from the future to now: the clock was set back.
func (g *log) notAfter(now time.Time) {
	for i := len(g.Cells) - 1; i >= 0 && g.Cells[i].At.After(now); i-- {
		g.Cells[i].At = now
	}
	g.first = earliest(g.first, now)
}
