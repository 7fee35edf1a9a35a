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

// An index takes 2 MB. Tests that run in parallel use about a dozen different hours.
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

// find returns the upload with this id, if it is published by then.
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

// Index is what a search reads: all samples of an hour and their outliers.
type Index struct {
	At      time.Time
	Hits    []*Hit
	samples [2][]*Sample // by kind, without their entries
}

// add adds a sample and its outliers, and takes its entries from it.
func (x *Index) add(s *Sample) (entries []entry) {
	x.samples[s.kind] = append(x.samples[s.kind], s)
	income := s.income()
	for i := range s.entries {
		if e := &s.entries[i]; e.positive() || e.negative() {
			x.Hits = append(x.Hits, newHit(e, s, income))
		}
	}
	entries, s.entries = s.entries, nil
	return entries
}

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
	x := &Index{At: at}
	var entries []entry
	for _, c := range l.Channels {
		for k := range c.schedules {
			entries = x.add(c.sampleInto(entries, Kind(k), at))
		}
	}
	if len(l.indexes) == maxIndexes {
		l.indexes = slices.Delete(l.indexes, maxIndexes-1, maxIndexes)
	}
	l.indexes = slices.Insert(l.indexes, 0, x)
	return x
}
