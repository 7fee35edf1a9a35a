package library

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Sample is the newest uploads of one kind of a channel, as of some time. All statistics that
// the service shows follow from it.
type Sample struct {
	channel     *channel
	kind        Kind
	at          time.Time
	total       int // uploads ever
	count       int // len(entries), which an index does not keep
	subscribers int64
	entries     []entry // newest first
	mean        float64
	median      float64
	deviation   float64 // population standard deviation of views
	length      float64 // mean duration in seconds
	newest      time.Time
	rpm         estimate
}

// entry is one upload of a sample.
type entry struct {
	Upload
	Views int64
	z     float64 // (views - mean) / deviation
	ratio float64 // views / mean
}

// An upload whose z-score is at least positiveFrom or at most negativeFrom is an outlier, and so
// in the search index.
const (
	positiveFrom = 1.5
	negativeFrom = -1.2
)

func (e *entry) isPositive() bool { return e.z >= positiveFrom }
func (e *entry) isNegative() bool { return e.z <= negativeFrom }

// Sample returns the sample of a channel at a time.
func (c *channel) Sample(k Kind, at time.Time) *Sample {
	latest := c.latestUpload(k, at)
	s := &Sample{
		channel: c, kind: k, at: at, total: latest + 1, subscribers: c.subscribersAt(at),
		rpm: estimateOf(c.rpm, Random(c.Seed, forChannel, uint64(c.index), 1)),
	}
	s.count = min(c.schedules[k].depth, latest+1)
	s.entries = make([]entry, 0, s.count)
	for n := latest; n > latest-s.count; n-- {
		u := c.nthUpload(k, n)
		s.entries = append(s.entries, entry{Upload: u, Views: u.Views(at)})
	}
	s.measureSample()
	return s
}

// measureSample computes the statistics.
func (s *Sample) measureSample() {
	if len(s.entries) == 0 {
		return
	}
	n := float64(len(s.entries))
	s.newest = s.entries[0].Published
	views := make([]float64, len(s.entries))
	for i := range s.entries {
		views[i] = float64(s.entries[i].Views)
		s.mean += views[i] / n
		s.length += float64(s.entries[i].duration) / n
	}
	for _, v := range views {
		s.deviation += (v - s.mean) * (v - s.mean) / n
	}
	s.deviation = math.Sqrt(s.deviation)
	slices.Sort(views)
	s.median = (views[len(views)/2] + views[(len(views)-1)/2]) / 2
	for i := range s.entries {
		e := &s.entries[i]
		e.z = divideOrZero(float64(e.Views)-s.mean, s.deviation)
		e.ratio = divideOrZero(float64(e.Views), s.mean)
	}
}

// divideOrZero is a/b, or 0 if b is 0.
func divideOrZero(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// variation is the deviation of views in proportion to their mean.
func (s *Sample) variation() float64 { return divideOrZero(s.deviation, s.mean) }

// monthlyViews are the views of the uploads of 30 days.
func (s *Sample) monthlyViews() float64 {
	return s.mean * divideOrZero(30*24*float64(time.Hour), float64(s.channel.schedules[s.kind].every))
}

// monthlyRevenue is the estimated revenue of the uploads of 30 days.
func (s *Sample) monthlyRevenue() estimate { return s.rpm.revenueOf(s.monthlyViews()) }

func (s *Sample) viewsPerSubscriber() float64 { return divideOrZero(s.mean, float64(s.subscribers)) }

// An estimate is a range around an amount of money.
type estimate struct{ from, to float64 }

// estimateOf is a range of 70 to 80 % up to 120 to 140 % of an amount.
func estimateOf(amount float64, d *rand.Rand) estimate {
	cents := func(share float64) float64 { return math.Round(amount*share*100) / 100 }
	return estimate{cents(0.7 + 0.1*d.Float64()), cents(1.2 + 0.2*d.Float64())}
}

// revenueOf is the revenue of views at this revenue per thousand.
func (e estimate) revenueOf(views float64) estimate {
	return estimate{views / 1000 * e.from, views / 1000 * e.to}
}
