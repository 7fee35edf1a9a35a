// Package library generates the data that the simulated service serves: channels and their uploads,
// texts, statistics, and search results. It does not use HTTP.
//
// Everything in it is a function of a seed and the time, by the hour, so nothing has to be stored:
// the same request in the same hour has the same answer in every process.
package library

import (
	"slices"
	"sync"
	"time"
)

// ChannelCount makes some 75,000 uploads in samples, of which some thousands are outliers.
const ChannelCount = 600

// Library is the data of the service for one seed. It is unbounded: an upload is computed from the
// seed and its number, and its statistics from the clock. Statistics change once an hour, so all
// answers of an hour are consistent.
type Library struct {
	Seed     uint64
	Channels []*channel
	ByID     map[string]*channel

	mu      sync.Mutex
	indexes []*Index // of several hours, the most recently used first
}

// libraries caches the libraries of the last seeds. All services with the same seed share one and
// its indexes.
var libraries = struct {
	sync.Mutex
	bySeed map[uint64]*Library
}{bySeed: map[uint64]*Library{}}

// An index takes 2 MB at most. Tests that run in parallel use about a dozen different hours.
const maxLibraries, maxIndexes = 8, 12

// Open returns the shared library of a seed.
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

// New makes a library of a seed that is not shared.
func New(seed uint64) *Library {
	l := &Library{Seed: seed, ByID: map[string]*channel{}}
	for i := range ChannelCount {
		c := newChannel(seed, i)
		l.Channels = append(l.Channels, c)
		l.ByID[c.ID] = c
	}
	return l
}

// sampledAt is the time of the latest statistics.
func sampledAt(at time.Time) time.Time { return at.Truncate(time.Hour) }

// findUpload returns the upload with this id, if it is published by then.
func (l *Library) findUpload(id string, at time.Time) (Upload, bool) {
	address, ok := addressOf(l.Seed, id)
	if !ok || address>>36 >= uint64(len(l.Channels)) {
		return Upload{}, false
	}
	c, k, n := l.Channels[address>>36], Kind(address>>35&1), int(address&(1<<35-1))
	if n > c.latestUpload(k, at) {
		return Upload{}, false
	}
	return c.nthUpload(k, n), true
}

// Index is what a search reads: the samples of an hour and their outliers. Those of a channel are computed
// when a search first looks at its niche, since most searches look at one.
type Index struct {
	At      time.Time
	results []*Hit // of a scan, of whose channels nothing else is found

	mu       sync.Mutex
	channels []indexed
}

// indexed is a channel in an index.
type indexed struct {
	channel  *channel
	computed bool
	samples  [2]*Sample // by kind, without their entries
	hits     []*Hit
}

// computeSamples computes the samples of a channel and its outliers. The entries are overwritten, to save memory.
func (c *indexed) computeSamples(at time.Time, entries []entry) []entry {
	for k := range c.samples {
		s := c.channel.sampleInto(entries, Kind(k), at)
		income := s.estimateIncome()
		for i := range s.entries {
			if e := &s.entries[i]; e.isPositive() || e.isNegative() {
				c.hits = append(c.hits, newHit(e, s, income))
			}
		}
		entries, s.entries = s.entries, nil
		c.samples[k] = s
	}
	c.computed = true
	return entries
}

// channelsOf returns the channels of some niches.
func (x *Index) channelsOf(niches func(niche int) bool) []*indexed {
	x.mu.Lock()
	defer x.mu.Unlock()
	var found []*indexed
	var entries []entry
	for i := range x.channels {
		c := &x.channels[i]
		if !niches(c.channel.nicheIndex) {
			continue
		}
		if !c.computed {
			entries = c.computeSamples(x.At, entries)
		}
		found = append(found, c)
	}
	return found
}

// hitsOf returns the outliers of some niches.
func (x *Index) hitsOf(niches func(niche int) bool) []*Hit {
	hits := slices.Clone(x.results)
	for _, c := range x.channelsOf(niches) {
		hits = append(hits, c.hits...)
	}
	return hits
}

// Hits returns all outliers.
func (x *Index) Hits() []*Hit { return x.hitsOf(anyNiche) }

// anyNiche is all niches.
func anyNiche(int) bool { return true }

// Index returns the index of the hour of at.
func (l *Library) Index(at time.Time) *Index {
	at = sampledAt(at)
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.indexes, func(x *Index) bool { return x.At.Equal(at) }); i >= 0 {
		x := l.indexes[i]
		copy(l.indexes[1:], l.indexes[:i])
		l.indexes[0] = x
		return x
	}
	x := &Index{At: at, channels: make([]indexed, len(l.Channels))}
	for i, c := range l.Channels {
		x.channels[i].channel = c
	}
	if len(l.indexes) == maxIndexes {
		l.indexes = slices.Delete(l.indexes, maxIndexes-1, maxIndexes)
	}
	l.indexes = slices.Insert(l.indexes, 0, x)
	return x
}
