package library

import (
	"math"
	"time"
)

// Upload is one video or short, with its final views and how fast it gets them.
type Upload struct {
	Channel   *channel
	Kind      Kind
	n         int
	Published time.Time
	topic     int // index into the channel's topics
	duration  int64
	potential float64 // final views, approximately
	tau, beta float64 // of its growth, see maturity; tau in days
	liked     float64 // likes per view
	discussed float64 // comments per view
}

// nthUpload computes number n of a channel, whether or not it is published yet.
func (c *channel) nthUpload(k Kind, n int) Upload {
	d := Random(c.Seed, forUpload, uint64(c.index), uint64(k), uint64(n))
	u := Upload{Channel: c, Kind: k, n: n, Published: c.publishedAt(k, n)}
	of := &c.schedules[k]
	u.potential = of.median * math.Exp(of.spread*d.NormFloat64())
	switch luck := d.Float64(); {
	case luck < 0.06: // a breakout
		u.potential *= 3 + 25*d.Float64()*d.Float64()
	case luck < 0.09: // a failure
		u.potential *= 0.05 + 0.2*d.Float64()
	}
	u.tau, u.beta = 2+12*d.Float64(), 0.45+0.2*d.Float64()
	u.topic = d.IntN(len(c.topics))
	u.duration = max(5, int64(of.length*math.Exp(0.35*d.NormFloat64())))
	if k == Short {
		u.duration = min(u.duration, 60)
	}
	u.liked = 0.01 + 0.06*d.Float64()
	u.discussed = u.liked * (0.01 + 0.15*d.Float64())
	return u
}

// Topic is what the upload is about.
func (u *Upload) Topic() Topic { return u.Channel.topics[u.topic] }

// address identifies the upload in the library; its id is the enciphered address.
func (u *Upload) address() uint64 {
	return uint64(u.Channel.index)<<36 | uint64(u.Kind)<<35 | uint64(u.n)
}

// ID is the video id.
func (u *Upload) ID() string { return videoID(u.Channel.Seed, u.address()) }

// maturityAt is the share of its final views that an upload has: steep in the first days, with
// a long tail, and never falling.
func (u *Upload) maturityAt(at time.Time) float64 {
	days := at.Sub(u.Published).Hours() / 24
	return 1 - math.Exp(-math.Pow(max(days, 0)/u.tau, u.beta))
}

// reachesShareAt is the inverse: when the upload has this share of its final views.
func (u *Upload) reachesShareAt(share float64) time.Time {
	days := u.tau * math.Pow(-math.Log(1-share), 1/u.beta)
	return u.Published.Add(time.Duration(days * 24 * float64(time.Hour)))
}

// Views returns the views at a time. Their number never stops growing: old uploads still get a few.
func (u *Upload) Views(at time.Time) int64 {
	months := max(at.Sub(u.Published).Hours()/24/30, 0)
	return int64(u.potential * u.maturityAt(at) * (1 + 0.05*math.Log1p(months)))
}

func (u *Upload) likes(at time.Time) int64 {
	return int64(u.potential * u.liked * u.maturityAt(at))
}

// Comments is the number of comments at a time.
func (u *Upload) Comments(at time.Time) int64 {
	return int64(u.potential * u.discussed * u.maturityAt(at))
}

// Gaps says what the service does not have of an upload although the library does.
type Gaps struct {
	deleted          bool // after it was indexed: every data endpoint answers 404
	commentsDisabled bool
	likesHidden      bool
	unclassified     bool
	unpriced         bool // no estimates of revenue
	unscored         bool // a hit without zScore
	noThumbnails     bool // a hit without thumbnails
	noLanguages      bool // details that do not name them
	transcript       transcriptGap
}

// transcriptGap is one of three ways in which a transcript may be missing.
type transcriptGap int

const (
	hasTranscript transcriptGap = iota
	transcript404
	transcriptNoItems
	transcriptNoEvents
)

func (u *Upload) gaps() Gaps {
	d := Random(u.Channel.Seed, forGaps, u.address())
	return Gaps{
		deleted:          Chance(d, 0.025),
		commentsDisabled: Chance(d, 0.05),
		likesHidden:      Chance(d, 0.03),
		unclassified:     Chance(d, 0.03),
		unpriced:         Chance(d, 0.03),
		unscored:         Chance(d, 0.005),
		noThumbnails:     Chance(d, 0.005),
		noLanguages:      Chance(d, 0.3),
		transcript:       gapFor(d.Float64()),
	}
}

func gapFor(luck float64) transcriptGap {
	switch {
	case luck < 0.08:
		return transcript404
	case luck < 0.10:
		return transcriptNoItems
	case luck < 0.12:
		return transcriptNoEvents
	}
	return hasTranscript
}
