// Package library is the world that the simulated service serves: channels and their
// uploads, texts, statistics, and what a search finds among them. It knows no HTTP.
//
// Everything in it is a function of a seed and the time, by the hour, so that nothing
// has to be kept: the same question in the same hour has the same answer in every
// process.
package library

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// ChannelCount makes some 75,000 uploads in samples, of which some thousands are outliers.
const ChannelCount = 600

// Library holds everything that the service knows. It never ends: uploads follow
// from the seed and their number, measures from the clock. The service measures
// the library once an hour, so all answers of an hour agree with one another.
type Library struct {
	Seed     uint64
	Channels []*channel
	ByID     map[string]*channel

	mu      sync.Mutex
	indexes map[int64]*Index // by hour, the last few
}

// libraries keeps the libraries of the last seeds: a library is the same for all
// services of its seed, so that a thousand services in tests share one index.
var libraries = struct {
	sync.Mutex
	bySeed map[uint64]*Library
}{bySeed: map[uint64]*Library{}}

const maxLibraries, maxIndexes = 8, 3

// Open returns the library of a seed, which all services of the seed share.
func Open(seed uint64) *Library {
	libraries.Lock()
	defer libraries.Unlock()
	if l, ok := libraries.bySeed[seed]; ok {
		return l
	}
	if len(libraries.bySeed) >= maxLibraries {
		clear(libraries.bySeed)
	}
	l := New(seed)
	libraries.bySeed[seed] = l
	return l
}

// New makes the library of a seed, of which nothing is shared.
func New(seed uint64) *Library {
	l := &Library{Seed: seed, ByID: map[string]*channel{}, indexes: map[int64]*Index{}}
	for i := range ChannelCount {
		c := newChannel(seed, i)
		l.Channels = append(l.Channels, c)
		l.ByID[c.ID] = c
	}
	return l
}

// measured is when the library was last measured.
func measured(at time.Time) time.Time { return at.Truncate(time.Hour) }

// find returns the upload with this id if it is out.
func (l *Library) find(id string, at time.Time) (Upload, bool) {
	address, ok := addressOf(l.Seed, id)
	if !ok || address>>36 >= uint64(len(l.Channels)) {
		return Upload{}, false
	}
	c, k, n := l.Channels[address>>36], Kind(address>>35&1), int(address&(1<<35-1))
	if n > c.latest(k, at) {
		return Upload{}, false
	}
	return c.upload(k, n), true
}

// Index is what search looks through: all samples of an hour and their outliers.
type Index struct {
	At      time.Time
	Hits    []*Hit
	samples [2][]*Sample // by kind, without their entries
}

// add takes a sample and its outliers in and lets the rest of it go.
func (x *Index) add(s *Sample) {
	x.samples[s.kind] = append(x.samples[s.kind], s)
	for i := range s.entries {
		if e := &s.entries[i]; e.positive() || e.negative() {
			x.Hits = append(x.Hits, newHit(e, s))
		}
	}
	s.entries = nil
}

// Index returns the index of the hour of at, made when first asked for.
func (l *Library) Index(at time.Time) *Index {
	at = measured(at)
	l.mu.Lock()
	defer l.mu.Unlock()
	if x, ok := l.indexes[at.Unix()]; ok {
		return x
	}
	if len(l.indexes) >= maxIndexes {
		delete(l.indexes, slices.Min(slices.Collect(maps.Keys(l.indexes))))
	}
	x := &Index{At: at}
	for _, c := range l.Channels {
		for k := range c.lines {
			x.add(c.Sample(Kind(k), at))
		}
	}
	l.indexes[at.Unix()] = x
	return x
}
