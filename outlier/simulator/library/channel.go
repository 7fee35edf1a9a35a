package library

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
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
	nicheIndex  int   // index of niche
	topics      []int // indexes into niche.topics; the first is its main one
	language    int
	Gone        bool    // the channel endpoints answer 404
	subscribers float64 // at Beginning
	growth      float64 // of subscribers, a year
	rpm         float64
	adsense     bool
	sponsored   *bool // nil: unknown
	faceless    *bool // nil: not classified
	quality     string
	schedules   [2]schedule // by kind
	words       string      // of its title and keywords, see [foldWords]

	mu   sync.Mutex
	kept [2]uploads // by kind
}

// uploads caches consecutive uploads of a schedule: the samples of neighbouring hours share
// almost all of theirs.
type uploads struct {
	first int // number of all[0]
	all   []Upload
}

// maxKept bounds how many uploads of a schedule are kept. A sample has 120 at most.
const maxKept = 400

// newestUploads returns the n uploads up to number latest, the oldest first.
func (c *channel) newestUploads(k Kind, latest, n int) []Upload {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept, first := &c.kept[k], latest-n+1
	end := kept.first + len(kept.all)
	if first > end || latest+1 < kept.first || max(end, latest+1)-min(kept.first, first) > maxKept {
		*kept, end = uploads{first: first}, first
	}
	if first < kept.first {
		kept.all = append(c.appendUploads(nil, k, first, kept.first), kept.all...)
		kept.first = first
	}
	if end <= latest {
		kept.all = c.appendUploads(kept.all, k, end, latest+1)
	}
	return kept.all[first-kept.first:][:n:n]
}

// appendUploads appends the uploads from number first up to, not including, end. An index asks for
// tens of thousands, so they share one source of random numbers.
func (c *channel) appendUploads(all []Upload, k Kind, first, end int) []Upload {
	source := rand.NewPCG(0, 0)
	d := rand.New(source)
	all = slices.Grow(all, end-first)
	for n := first; n < end; n++ {
		source.Seed(seedsOf(c.Seed, forUpload, uint64(c.index), uint64(k), uint64(n)))
		all = append(all, c.uploadBy(d, k, n))
	}
	return all
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
	c := &channel{Seed: seed, index: index, nicheIndex: index % len(Niches), language: pickLanguage(d)}
	c.ID = "UC" + encodeBits(
		Hash(seed, uint64(forChannelID), uint64(index)),
		Hash(seed, uint64(forChannelID), uint64(index), 1),
	)
	c.Niche = &Niches[c.nicheIndex]
	c.topics = d.Perm(len(c.Niche.Topics))[:1+d.IntN(3)]
	c.nameChannel(d)
	c.Gone = Chance(d, 0.015)
	c.subscribers = math.Exp(10.5 + 1.9*d.NormFloat64())
	c.growth = 0.02 + 0.3*d.Float64()
	c.rpm = c.Niche.rpm * math.Exp(0.3*d.NormFloat64())
	c.adsense = Chance(d, 0.85)
	c.classifyChannel(d)
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
	topic := c.Niche.Topics[c.topics[0]].Names[c.language]
	c.title = fillTemplate(pickOne(d, v.channels), capitalizeWords(topic), d, v)
	c.description = writeParagraphs(v, topic, d, 1+d.IntN(3))
	english := strings.ToLower(c.Niche.Topics[c.topics[0]].Names[0])
	c.handle = fmt.Sprintf("%s%03d", strings.ReplaceAll(english, " ", ""), c.index)
	if Chance(d, 0.7) { // the service shows handles with and without it
		c.handle = "@" + c.handle
	}
	for _, t := range c.topics {
		c.keywords = append(c.keywords, c.Niche.Topics[t].Names[c.language])
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

func (c *channel) classification() classification {
	return classification{IsFaceless: c.faceless, Quality: orNull(c.quality == "", c.quality)}
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
