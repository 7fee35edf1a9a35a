package library

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// channel is what does not change about a channel.
type channel struct {
	Seed        uint64
	index       int
	ID          string
	handle      string
	title       string
	description string
	keywords    []string
	Niche       *niche
	field       int   // index of niche
	topics      []int // indexes into niche.topics; the first is its main one
	language    int
	Gone        bool    // the channel endpoints know it no more
	subscribers float64 // in the beginning
	growth      float64 // of subscribers, a year
	rpm         float64
	adsense     bool
	sponsored   *bool // nil: not looked at
	faceless    *bool // nil: not classified
	quality     string
	lines       [2]line // by kind
}

// Kind is a kind of upload.
type Kind int

// The kinds. A channel may publish both.
const (
	Video Kind = iota
	Short
)

func (k Kind) String() string { return [2]string{"video", "short"}[k] }

// line is a channel's schedule of one kind of upload, without end: number n comes
// out every*n after the first, give or take. A line that is never used has every 0.
type line struct {
	every  time.Duration
	first  time.Time
	depth  int     // how many uploads the service samples at most
	median float64 // views of a typical upload in the end
	spread float64 // of the logarithm of views
	length float64 // median duration in seconds
}

// Dawn is before anything: no library holds an older upload. It lies well before
// the clock of a synctest bubble, so that channels have a past even there.
var Dawn = time.Date(1995, time.January, 1, 0, 0, 0, 0, time.UTC)

func newChannel(seed uint64, index int) *channel {
	d := Dice(seed, aboutChannel, uint64(index))
	c := &channel{Seed: seed, index: index, field: index % len(Niches), language: pickLanguage(d)}
	c.ID = "UC" + spell(Hash(seed, uint64(aboutChannelID), uint64(index)), Hash(seed, uint64(aboutChannelID), uint64(index), 1))
	c.Niche = &Niches[c.field]
	c.topics = d.Perm(len(c.Niche.Topics))[:1+d.IntN(3)]
	c.name(d)
	c.Gone = Chance(d, 0.015)
	c.subscribers = math.Exp(10.5 + 1.9*d.NormFloat64())
	c.growth = 0.02 + 0.3*d.Float64()
	c.rpm = c.Niche.rpm * math.Exp(0.3*d.NormFloat64())
	c.adsense = Chance(d, 0.85)
	c.classify(d)
	for k := range c.lines {
		c.lines[k] = newLine(c, Kind(k))
	}
	return c
}

// pickLanguage gives two channels in five to the first language.
func pickLanguage(d *rand.Rand) int {
	if Chance(d, 0.4) {
		return 0
	}
	return 1 + d.IntN(len(languages)-1)
}

func (c *channel) name(d *rand.Rand) {
	v := &voices[c.language]
	topic := c.Niche.Topics[c.topics[0]].Names[c.language]
	c.title = fill(pick(d, v.brands), capitals(topic), d, v)
	c.description = paragraphs(v, topic, d, 1+d.IntN(3))
	c.handle = fmt.Sprintf("%s%03d", strings.ReplaceAll(strings.ToLower(c.Niche.Topics[c.topics[0]].Names[0]), " ", ""), c.index)
	if Chance(d, 0.7) { // seen with and without it
		c.handle = "@" + c.handle
	}
	for _, t := range c.topics {
		c.keywords = append(c.keywords, c.Niche.Topics[t].Names[c.language])
	}
}

func (c *channel) classify(d *rand.Rand) {
	c.quality = pick(d, []string{"negative", "neutral", "neutral", "positive", "positive", ""})
	if Chance(d, 0.95) {
		c.faceless = new(Chance(d, c.Niche.faceless))
	}
	if Chance(d, 0.9) {
		c.sponsored = new(Chance(d, 0.3))
	}
}

func newLine(c *channel, k Kind) line {
	d := Dice(c.Seed, aboutLine, uint64(c.index), uint64(k))
	l := line{
		depth:  20 + d.IntN(101),
		median: c.subscribers * math.Exp(-2+0.8*d.NormFloat64()),
		spread: 0.25 + 0.6*d.Float64(),
		length: 300 + 1200*d.Float64(),
	}
	days := 1 + 9*d.Float64()
	if k == Short {
		if Chance(d, 0.2) {
			return line{}
		}
		days /= 2
		l.median *= 2
		l.length = 15 + 30*d.Float64()
	}
	l.every = time.Duration(days * 24 * float64(time.Hour)).Round(time.Minute)
	l.first = Dawn.Add(time.Duration(d.Int64N(int64(l.every))).Truncate(time.Second))
	return l
}

// subscribersAt is the audience at an instant.
func (c *channel) subscribersAt(at time.Time) int64 {
	years := at.Sub(Dawn).Hours() / (24 * 365)
	return int64(c.subscribers * (1 + c.growth*years))
}

// latest is the number of the newest upload of kind k that is out; -1 if there is none.
func (c *channel) latest(k Kind, at time.Time) int {
	l := c.lines[k]
	if l.every == 0 || at.Before(l.first) {
		return -1
	}
	n := int(at.Sub(l.first) / l.every)
	if c.published(k, n).After(at) {
		n--
	}
	return n
}

// published is when number n came or comes out: late by up to four fifths of the
// interval, so that numbers stay in order.
func (c *channel) published(k Kind, n int) time.Time {
	l := c.lines[k]
	late := Unit(Hash(c.Seed, uint64(aboutTime), uint64(c.index), uint64(k), uint64(n))) * 0.8 * float64(l.every)
	return l.first.Add(time.Duration(n)*l.every + time.Duration(late).Truncate(time.Second))
}
