package page

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Point is a value at a time.
type Point struct {
	At time.Time // in the time zone of the page
	N  int64
}

// chart is a line through points. The server renders it, so no script is needed.
type chart struct {
	Line        string // the points of an SVG polyline in a field of 1000 by 100
	First, Last Point
	Least, Most int64
}

// newChart plots points, which must be in order of time. Points within one minute, such as those of a
// search and the details after it, make no line: it returns nil.
func newChart(points []Point) *chart {
	if len(points) == 0 || points[0].Day() == points[len(points)-1].Day() {
		return nil
	}
	c := &chart{First: points[0], Last: points[len(points)-1], Least: points[0].N, Most: points[0].N}
	for _, p := range points {
		c.Least, c.Most = min(c.Least, p.N), max(c.Most, p.N)
	}
	span := max(1, c.Last.At.Sub(c.First.At))
	var line strings.Builder
	for _, p := range points {
		fmt.Fprintf(&line, "%d,%d ", int64(1000*float64(p.At.Sub(c.First.At))/float64(span)),
			height(p.N, c.Least, c.Most, 100))
	}
	c.Line = strings.TrimSpace(line.String())
	return c
}

// height returns the distance of a value from the top of a field of that height. If all values are equal, it
// is the middle.
func height(n, least, most int64, field float64) int64 {
	if least == most {
		return int64(field / 2)
	}
	return int64(field * (1 - float64(n-least)/float64(most-least)))
}

// Day returns the time of a point, to the minute.
func (p Point) Day() string { return p.At.Format("2006-01-02 15:04") }

// sparkline returns the points of a small line through values, evenly spaced in a field of 100 by 20;
// "" for fewer than two.
func sparkline(numbers []int64) string {
	if len(numbers) < 2 {
		return ""
	}
	least, most := slices.Min(numbers), slices.Max(numbers)
	var line strings.Builder
	for i, n := range numbers {
		fmt.Fprintf(&line, "%d,%d ", 100*i/(len(numbers)-1), height(n, least, most, 20))
	}
	return strings.TrimSpace(line.String())
}
