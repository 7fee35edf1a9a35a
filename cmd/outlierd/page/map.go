package page

import (
	"fmt"
	"math"
)

// MostDots is the maximum number of outliers on the map: the first in the order of the list.
const MostDots = 500

// The size of the plot in SVG units, without its labels.
const (
	mapWidth  = 960.0
	mapHeight = 400.0
)

// mapView plots outliers by age and by ratio to their channel's average. Both axes are logarithmic,
// because most videos are young and few exceed the average by far.
type mapView struct {
	Dots    []dot
	Ages    []tick // from the left
	Ratios  []tick // from the bottom
	Unknown int    // outliers with unknown age or ratio
}

type dot struct {
	X, Y  int64
	ID    string
	Says  string
	Short bool
}

// tick is a grid line with a label.
type tick struct {
	At   int64
	Word string
}

// axis maps numbers from least to most to positions from 0 to length.
type axis struct{ least, most, length float64 }

// over returns the axis for positive numbers, spanning at least a factor of ten.
func over(numbers []float64, length float64) axis {
	a := axis{math.Inf(1), math.Inf(-1), length}
	for _, n := range numbers {
		a.least, a.most = min(a.least, n), max(a.most, n)
	}
	if a.most < 10*a.least {
		a.most = 10 * a.least
	}
	return a
}

func (a axis) at(n float64) float64 {
	return a.length * math.Log(n/a.least) / math.Log(a.most/a.least)
}

// mark is a number with a label.
type mark struct {
	N    float64
	Word string
}

var (
	ageMarks = []mark{{1, "1 day"}, {7, "1 week"}, {30, "1 month"}, {91, "3 months"}, {365, "1 year"},
		{1096, "3 years"}, {3653, "10 years"}}
	ratioMarks = []mark{{0.1, "0.1 ×"}, {0.3, "0.3 ×"}, {1, "1 ×"}, {3, "3 ×"}, {10, "10 ×"}, {30, "30 ×"},
		{100, "100 ×"}, {300, "300 ×"}, {1000, "1000 ×"}}
)

// ticks returns the marks within the range of the axis.
func (a axis) ticks(marks []mark) (reached []tick) {
	for _, m := range marks {
		if m.N >= a.least && m.N <= a.most {
			reached = append(reached, tick{int64(a.at(m.N)), m.Word})
		}
	}
	return reached
}

// mapped plots outliers. The youngest videos are on the left.
func mapped(all []Outlier) *mapView {
	v := &mapView{}
	var ages, ratios []float64
	for _, o := range all {
		if !o.placed() {
			v.Unknown++
			continue
		}
		ages, ratios = append(ages, o.Age), append(ratios, *o.Ratio)
	}
	if len(ages) == 0 {
		return v
	}
	x, y := over(ages, mapWidth), over(ratios, mapHeight)
	for _, o := range all {
		if o.placed() {
			v.Dots = append(v.Dots, dot{
				X: int64(x.at(o.Age)), Y: int64(mapHeight - y.at(*o.Ratio)), ID: o.ID, Short: o.Kind == "short",
				// The title is at the end, so that direction marks in it affect nothing else.
				Says: fmt.Sprintf("%s times the average, %s: %s", decimal(o.Ratio), o.Published, o.Title),
			})
		}
	}
	v.Ages = x.ticks(ageMarks)
	for _, t := range y.ticks(ratioMarks) {
		v.Ratios = append(v.Ratios, tick{int64(mapHeight) - t.At, t.Word})
	}
	return v
}

// placed reports whether the outlier can be plotted.
func (o *Outlier) placed() bool { return o.Age > 0 && o.Ratio != nil && *o.Ratio > 0 }
