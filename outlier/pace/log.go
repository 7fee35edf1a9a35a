package pace

import (
	"math"
	"slices"
	"time"
)

// A cell is a number of requests that were sent at about the same time. At is when the last
// of them was sent; requests of other clients count from when they were noticed.
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

// A requestLog has the requests of the last windows, oldest first. Requests closer together than a grain
// share a cell, so a log has at most about a thousand cells per window, whatever the quota. A cell has
// the time of its latest request, so a slot is freed at most one grain too late.
type requestLog struct {
	Cells []cell
	first time.Time // the earliest request in the last cell
}

// add inserts a cell in the order of time, or adds it to the cell of the same grain.
func (g *requestLog) add(c cell, grain time.Duration) {
	last := len(g.Cells) - 1
	switch {
	case last < 0 || !c.At.Before(g.Cells[last].At):
		if last >= 0 && c.At.Sub(g.first) < grain {
			g.join(last, c)
			return
		}
		g.Cells = append(g.Cells, c)
		g.first = c.At
	default: // a request that was sent later was answered earlier
		i, _ := slices.BinarySearchFunc(g.Cells, c.At, func(c cell, t time.Time) int {
			return c.At.Compare(t)
		})
		if g.Cells[i].At.Sub(c.At) < grain {
			g.join(i, c)
			return
		}
		g.Cells = slices.Insert(g.Cells, i, c)
	}
}

func (g *requestLog) join(i int, c cell) {
	to := &g.Cells[i]
	to.At, to.Own, to.Others = latest(to.At, c.At), to.Own+c.Own, to.Others+c.Others
}

// forget drops the cells that are not after t.
func (g *requestLog) forget(t time.Time) {
	kept := 0
	for kept < len(g.Cells) && !g.Cells[kept].At.After(t) {
		kept++
	}
	g.Cells = g.Cells[kept:]
}

// newest returns when the nth-newest request was sent; false if there are fewer than n.
func (g *requestLog) newest(n int, others bool) (time.Time, bool) {
	for i := len(g.Cells) - 1; i >= 0; i-- {
		if n -= g.Cells[i].requests(others); n <= 0 {
			return g.Cells[i].At, true
		}
	}
	return time.Time{}, false
}

// since counts the requests after t, those of other clients only if others is set.
func (g *requestLog) since(t time.Time, others bool) (n int) {
	for i := len(g.Cells) - 1; i >= 0 && g.Cells[i].At.After(t); i-- {
		n += g.Cells[i].requests(others)
	}
	return n
}

// others counts the requests of other clients.
func (g *requestLog) others() (n int) {
	for _, c := range g.Cells {
		n += c.Others
	}
	return n
}

// dropOthers removes up to n requests of other clients that are not after t, oldest first.
func (g *requestLog) dropOthers(t time.Time, n int) {
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

// deficit returns how many requests a bucket lacks at t, or after the last request if that is
// later. The bucket was full before the log begins, and gains one request in the given time.
func (g *requestLog) deficit(t time.Time, each time.Duration, others bool) float64 {
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

// notAfter changes times in the future to now, in case the clock was set back.
func (g *requestLog) notAfter(now time.Time) {
	for i := len(g.Cells) - 1; i >= 0 && g.Cells[i].At.After(now); i-- {
		g.Cells[i].At = now
	}
	g.first = earliest(g.first, now)
}
