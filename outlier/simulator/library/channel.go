package library

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// channel holds what does not change about a channel.
type channel struct {
	Seed        uint64
	index       int
	ID          string
	handle      string
	title       string
	description string
	keywords    []string
	Niche       *niche
	topics      []Topic // of the niche; the first is its main one
	language    int
	Gone        bool    // the channel endpoints answer 404
	subscribers float64 // at Beginning
	growth      float64 // of subscribers, a year
	rpm         float64
	adsense     bool
	sponsored   *bool  // nil: unknown
	faceless    *bool  // nil: not classified
	quality     string // "": not classified
	gaps        channelGaps
	schedules   [2]schedule // by kind
	words       string      // of its title and keywords, see [foldWords]
}

// Kind is a kind of upload.
type Kind int

// The kinds. A channel may publish both.
const (
	Video Kind = iota
	Short
)

func (k Kind) String() string { return [2]string{"video", "short"}[k] }

// schedule says when a channel publishes uploads of one kind. It never ends: number n is
// published about n*every after the first. In a channel without that kind, every is 0.
type schedule struct {
	every  time.Duration
	first  time.Time
	depth  int     // how many uploads the service samples at most
	median float64 // final views of a typical upload
	spread float64 // of the logarithm of views
	length float64 // median duration in seconds
}

// Beginning is the time of the oldest uploads. It is years before the clock of a synctest
// bubble starts, so that channels have uploads in tests, too.
var Beginning = time.Date(1995, time.January, 1, 0, 0, 0, 0, time.UTC)

func newChannel(seed uint64, index int) *channel {
	d := Random(seed, forChannel, uint64(index))
	c := &channel{Seed: seed, index: index, Niche: &niches[index%nicheCount], language: pickLanguage(d)}
	c.ID = "UC" + encodeBits(
		Hash(seed, uint64(forChannelID), uint64(index)),
		Hash(seed, uint64(forChannelID), uint64(index), 1),
	)
	for _, t := range d.Perm(perNiche)[:1+d.IntN(3)] {
		c.topics = append(c.topics, Topic(index%nicheCount*perNiche+t))
	}
	c.nameChannel(d)
	c.Gone = Chance(d, 0.015)
	c.subscribers = math.Exp(10.5 + 1.9*d.NormFloat64())
	c.growth = 0.02 + 0.3*d.Float64()
	c.rpm = c.Niche.rpm * math.Exp(0.3*d.NormFloat64())
	c.adsense = Chance(d, 0.85)
	c.classifyChannel(d)
	c.gaps = drawChannelGaps(Random(seed, forDiscovery, uint64(index)))
	c.words = foldWords(c.title + " " + strings.Join(c.keywords, " "))
	for k := range c.schedules {
		c.schedules[k] = newSchedule(c, Kind(k))
	}
	return c
}

// pickLanguage picks the first language for two channels in five.
func pickLanguage(d *rand.Rand) int {
	if Chance(d, 0.4) {
		return 0
	}
	return 1 + d.IntN(len(languages)-1)
}

func (c *channel) nameChannel(d *rand.Rand) {
	v := &phrasesOf[c.language]
	topic := c.topics[0].subject().names[c.language]
	c.title = fillTemplate(pickOne(d, v.channels), capitalizeWords(topic), d, v)
	c.description = writeParagraphs(v, topic, d, 1+d.IntN(3))
	english := strings.ToLower(c.topics[0].Name())
	c.handle = fmt.Sprintf("%s%03d", strings.ReplaceAll(english, " ", ""), c.index)
	if Chance(d, 0.7) { // the service shows handles with and without it
		c.handle = "@" + c.handle
	}
	for _, t := range c.topics {
		c.keywords = append(c.keywords, t.subject().names[c.language])
	}
}

func (c *channel) classifyChannel(d *rand.Rand) {
	c.quality = pickOne(d, []string{"negative", "neutral", "neutral", "positive", "positive", ""})
	if Chance(d, 0.95) {
		c.faceless = new(Chance(d, c.Niche.faceless))
	}
	if Chance(d, 0.9) {
		c.sponsored = new(Chance(d, 0.3))
	}
}

func (c *channel) classification() object {
	return object{"isFaceless": c.faceless, "quality": orNull(c.quality == "", c.quality)}
}

// channelGaps says which fields of a channel a search leaves out.
type channelGaps struct {
	noHandle, subscribersHidden, noLanguage, noAdsense, unclassified bool
}

func drawChannelGaps(d *rand.Rand) channelGaps {
	return channelGaps{
		noHandle: Chance(d, 0.01), subscribersHidden: Chance(d, 0.03), noLanguage: Chance(d, 0.03),
		noAdsense: Chance(d, 0.03), unclassified: Chance(d, 0.03),
	}
}

// firstSeen is when the service first saw the channel: in the library's first four years.
func (c *channel) firstSeen() time.Time {
	years := 4 * Unit(Hash(c.Seed, uint64(forDiscovery), uint64(c.index)))
	return Beginning.Add(time.Duration(years * 365 * 24 * float64(time.Hour)))
}

// uploadKinds are the kinds of uploads that the channel has.
func (c *channel) uploadKinds() (kinds []string) {
	for k, of := range c.schedules {
		if of.every != 0 {
			kinds = append(kinds, Kind(k).String())
		}
	}
	return kinds
}

func newSchedule(c *channel, k Kind) schedule {
	d := Random(c.Seed, forSchedule, uint64(c.index), uint64(k))
	l := schedule{
		depth:  20 + d.IntN(101),
		median: c.subscribers * math.Exp(-2+0.8*d.NormFloat64()),
		spread: 0.25 + 0.6*d.Float64(),
		length: 300 + 1200*d.Float64(),
	}
	days := 1 + 9*d.Float64()
	if k == Short {
		if Chance(d, 0.2) {
			return schedule{}
		}
		days /= 2
		l.median *= 2
		l.length = 15 + 30*d.Float64()
	}
	l.every = time.Duration(days * 24 * float64(time.Hour)).Round(time.Minute)
	l.first = Beginning.Add(time.Duration(d.Int64N(int64(l.every))).Truncate(time.Second))
	return l
}

// subscribersAt is the number of subscribers at a time.
func (c *channel) subscribersAt(at time.Time) int64 {
	years := at.Sub(Beginning).Hours() / (24 * 365)
	return int64(c.subscribers * (1 + c.growth*years))
}

// latestUpload returns the number of the newest upload of kind k published by then, or -1.
func (c *channel) latestUpload(k Kind, at time.Time) int {
	l := c.schedules[k]
	if l.every == 0 || at.Before(l.first) {
		return -1
	}
	n := int(at.Sub(l.first) / l.every)
	if c.publishedAt(k, n).After(at) {
		n--
	}
	return n
}

// publishedAt returns when number n is published: after a random delay of less than four fifths
// of the interval, so that uploads stay in the order of their numbers.
func (c *channel) publishedAt(k Kind, n int) time.Time {
	l := c.schedules[k]
	late := Unit(Hash(c.Seed, uint64(forTime), uint64(c.index), uint64(k), uint64(n))) * 0.8 * float64(l.every)
	return l.first.Add(time.Duration(n)*l.every + time.Duration(late).Truncate(time.Second))
}
