package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"outlierd/internal/figures"
)

// Point is a value at a time.
type Point struct {
	At time.Time // in the time zone of the page
	N  int64
}

// plot is a chart that the server renders: an HTML grid of three SVGs, whose bars and points have positions in percent,
// so that it fits any width and needs no script and no inline style.
type plot struct {
	Says  string // what it shows, in a sentence
	Low   bool
	Y, X  []tick
	Hits  []hit
	Lines []polyline
	Rules []rule
	Notes []note
	Head  []string   // of the table below it
	Rows  [][]string // names, and numbers

	scale    scale
	from, to time.Time // of a line
}

// tick is a label of an axis.
type tick struct{ At, Text, Anchor string }

// hit is a mark with a field of full height, over which a pointer shows its numbers.
type hit struct {
	Title, At, Width string
	Bars             []rect
	Point            bool
	X, Y             string // of the point
}

// rect is a bar, or a part of one.
type rect struct{ Class, X, Width, Y, Height string }

// polyline is a line in a field of 1000 by 100.
type polyline struct {
	Class, Points string
	Area          string // the points of the field below it; "" for none
}

// rule is a broken line.
type rule struct{ X1, X2, Y1, Y2 string }

// note is a text in the plot.
type note struct {
	X, Y, Text string
	End, Loud  bool
}

// scale is an axis from 0 to a round number.
type scale struct{ step, top float64 }

// upTo returns the axis with three to five ticks for numbers up to most.
func upTo(most float64) scale {
	most = max(1, most)
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for _, part := range []float64{.2, .25, .5, 1} {
		if n := math.Ceil(most / (step * part)); n <= 5 && (step*part >= 1) {
			step *= part
			break
		}
	}
	if most/step > 5 {
		step *= 2
	}
	return scale{step, step * math.Ceil(most/step)}
}

// yOf returns the place of a number from the top.
func (s scale) yOf(n float64) string { return formatPercent(100 - 100*n/s.top) }

// heightOf returns the length of a number.
func (s scale) heightOf(n float64) string { return formatPercent(100 * n / s.top) }

func (s scale) ticks() (all []tick) {
	for n := 0.0; n <= s.top*1.0001; n += s.step {
		all = append(all, tick{At: s.yOf(n), Text: figures.Short(n)})
	}
	return all
}

// column is a column of a chart, with its row in the table below.
type column struct {
	at    time.Time
	title string
	parts []part
	row   []string
}

// part is a part of a column.
type part struct {
	class string
	n     float64
}

// plotColumns returns a chart of columns with one or more parts, in order of time, and a table with the last one first.
// The first and the last column are labelled with their times, if they are known.
func plotColumns(says, layout string, head []string, columns []column) *plot {
	most := 0.0
	for _, c := range columns {
		sum := 0.0
		for _, p := range c.parts {
			sum += p.n
		}
		most = max(most, sum)
	}
	s := upTo(most)
	p := &plot{Says: says, Y: s.ticks(), scale: s, Head: head}
	width := 100 / float64(max(1, len(columns)))
	for i, c := range columns {
		h := hit{Title: c.title, At: formatPercent(float64(i) * width), Width: formatPercent(width)}
		sum := 0.0
		for _, part := range c.parts {
			if sum += part.n; part.n > 0 {
				h.Bars = append(h.Bars, rect{part.class, formatPercent((float64(i) + .16) * width), formatPercent(.68 * width),
					s.yOf(sum), s.heightOf(part.n)})
			}
		}
		p.Hits = append(p.Hits, h)
		p.Rows = append(p.Rows, c.row)
	}
	slices.Reverse(p.Rows)
	if first, last := columns[0].at, columns[len(columns)-1].at; !first.IsZero() && !last.IsZero() {
		p.X = []tick{{"0", first.Format(layout), "start"}, {"100%", last.Format(layout), "end"}}
	}
	return p
}

// addMean adds a broken line at a number, with its name.
func (p *plot) addMean(n float64, name string) {
	at := p.scale.yOf(n)
	p.Rules = append(p.Rules, rule{"0", "100%", at, at})
	p.Notes = append(p.Notes, note{X: "0", Y: at, Text: name})
}

// plotLine returns a chart of numbers over time, which must be in order; nil without two days.
func plotLine(says string, points []Point, title func(Point) string) *plot {
	if len(points) == 0 || points[0].At.Format(time.DateOnly) == points[len(points)-1].At.Format(time.DateOnly) {
		return nil
	}
	most := int64(0)
	for _, p := range points {
		most = max(most, p.N)
	}
	p := &plot{Says: says, scale: upTo(float64(most)), from: points[0].At, to: points[len(points)-1].At}
	p.Y = p.scale.ticks()
	p.labelDays()
	p.drawLine("line", true, points)
	for _, point := range points {
		at := p.placeOf(point.At)
		p.Hits = append(p.Hits, hit{Title: title(point), At: formatPercent(at - 50/float64(len(points))),
			Width: formatPercent(100 / float64(len(points))), Point: true, X: formatPercent(at), Y: p.scale.yOf(float64(point.N))})
	}
	return p
}

// placeOf returns the place of a time, in percent from the left.
func (p *plot) placeOf(at time.Time) float64 {
	return 100 * float64(at.Sub(p.from)) / float64(max(1, p.to.Sub(p.from)))
}

// labelDays labels the axis of time.
func (p *plot) labelDays() {
	layout := "2 Jan"
	if p.to.Sub(p.from) > 300*24*time.Hour {
		layout = "Jan 2006"
	}
	middle := p.from.Add(p.to.Sub(p.from) / 2)
	p.X = []tick{{"0", p.from.Format(layout), "start"}, {"50%", middle.Format(layout), "middle"}, {"100%", p.to.Format(layout), "end"}}
}

// drawLine adds a line.
func (p *plot) drawLine(class string, area bool, points []Point) {
	var at []string
	for _, point := range points {
		at = append(at, fmt.Sprintf("%.1f,%.2f", 10*p.placeOf(point.At), 100-100*float64(point.N)/p.scale.top))
	}
	l := polyline{Class: class, Points: strings.Join(at, " ")}
	if area {
		l.Area = fmt.Sprintf("%.1f,100 %s %.1f,100", 10*p.placeOf(points[0].At), l.Points, 10*p.placeOf(points[len(points)-1].At))
	}
	p.Lines = append(p.Lines, l)
}

// markChange marks a time with a broken line and a text.
func (p *plot) markChange(at time.Time, text string) {
	if at.Before(p.from) || at.After(p.to) {
		return
	}
	x := p.placeOf(at)
	p.Rules = append(p.Rules, rule{formatPercent(x), formatPercent(x), "0", "100%"})
	p.Notes = append(p.Notes, note{X: formatPercent(x + map[bool]float64{true: -1.5, false: 1.5}[x > 50]), Y: "9%", Text: text, End: x > 50})
}

// sparkColumns is a row of small columns, each with its place and height in a field of 100 % by 20.
func sparkColumns(values []float64, class func(i int) string) (all []rect) {
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	width := 100 / float64(max(8, len(values))) // a few runs do not become broad
	for i, v := range values {
		height := max(1, 20*v/max(most, 1e-9))
		if most == 0 {
			height = 1
		}
		all = append(all, rect{class(i), formatPercent((float64(i) + .12) * width), formatPercent(.76 * width),
			fmt.Sprintf("%.1f", 20-height), fmt.Sprintf("%.1f", height)})
	}
	return all
}
