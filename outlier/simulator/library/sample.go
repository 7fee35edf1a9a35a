package library

import (
	"math"
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
	size        int // len(entries), which an index does not keep
	subscribers int64
	entries     []entry // newest first
	mean        float64
	median      float64
	deviation   float64 // population standard deviation of views
	length      float64 // mean duration in seconds
	newest      time.Time
	words       string // of the channel, see [foldWords]
}

// address is the number of the channel in the library.
func (s *Sample) address() uint64 { return uint64(s.channel.index) }

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

func (c *channel) Sample(k Kind, at time.Time) *Sample { return c.sampleInto(nil, k, at) }

// sampleInto returns a sample whose entries overwrite those given, to save memory.
func (c *channel) sampleInto(entries []entry, k Kind, at time.Time) *Sample {
	latest := c.latestUpload(k, at)
	s := &Sample{
		channel: c, kind: k, at: at, total: latest + 1, subscribers: c.subscribersAt(at), words: c.words,
	}
	s.size = min(c.schedules[k].depth, latest+1)
	s.entries = slices.Grow(entries[:0], s.size)
	for _, u := range slices.Backward(c.newestUploads(k, latest, s.size)) {
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

// monthlyUploads is how many uploads of the sample's kind come out in 30 days.
func (s *Sample) monthlyUploads() float64 {
	return divideOrZero(30*24*float64(time.Hour), float64(s.channel.schedules[s.kind].every))
}

func (s *Sample) viewsPerSubscriber() float64 { return divideOrZero(s.mean, float64(s.subscribers)) }
