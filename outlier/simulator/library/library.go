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
	indexes map[int64]*Index // by the start of their hour
}

// libraries caches the libraries of the last seeds. All services with the same seed share one and
// its indexes.
var libraries = struct {
	sync.Mutex
	bySeed map[uint64]*Library
}{bySeed: map[uint64]*Library{}}

// An index takes 2 MB at most. Tests that run in parallel use about a dozen different hours.
const maxLibraries, maxIndexes = 8, 16

// Open returns the shared library of a seed.
func Open(seed uint64) *Library {
	libraries.Lock()
	defer libraries.Unlock()
	l, ok := libraries.bySeed[seed]
	if !ok {
		if len(libraries.bySeed) >= maxLibraries {
			clear(libraries.bySeed)
		}
		l = New(seed)
		libraries.bySeed[seed] = l
	}
	return l
}

// New makes a library of a seed that is not shared.
func New(seed uint64) *Library {
	l := &Library{Seed: seed, ByID: map[string]*channel{}, indexes: map[int64]*Index{}}
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

// Index is what a search reads: the samples of an hour and their outliers.
type Index struct {
	At      time.Time
	niches  [nicheCount]func() *listed // computed when a search first looks there, since most look at one; nil for a scan
	results []*Hit                     // of a scan
}

// listed is what an index has of the channels of a niche.
type listed struct {
	hits    []*Hit
	samples [2][]*Sample // by kind, without their entries
}

// Index returns the index of the hour of at.
func (l *Library) Index(at time.Time) *Index {
	at = sampledAt(at)
	l.mu.Lock()
	defer l.mu.Unlock()
	x, ok := l.indexes[at.Unix()]
	if !ok {
		if len(l.indexes) >= maxIndexes {
			clear(l.indexes)
		}
		x = &Index{At: at}
		for n := range x.niches {
			x.niches[n] = sync.OnceValue(func() *listed { return l.listNiche(n, at) })
		}
		l.indexes[at.Unix()] = x
	}
	return x
}

// listNiche computes the samples and the outliers of the channels of a niche.
func (l *Library) listNiche(n int, at time.Time) *listed {
	var all listed
	for i := n; i < len(l.Channels); i += nicheCount {
		for k := range all.samples {
			s := l.Channels[i].Sample(Kind(k), at)
			for j := range s.entries {
				if e := &s.entries[j]; e.isPositive() || e.isNegative() {
					all.hits = append(all.hits, newHit(e, s))
				}
			}
			s.entries = nil // which save memory
			all.samples[k] = append(all.samples[k], s)
		}
	}
	return &all
}

// listedIn returns what is listed of some niches.
func (x *Index) listedIn(looksIn func(niche int) bool) (all []*listed) {
	for n, list := range x.niches {
		if list != nil && looksIn(n) {
			all = append(all, list())
		}
	}
	return all
}

// hitsIn returns the outliers of some niches.
func (x *Index) hitsIn(looksIn func(niche int) bool) []*Hit {
	hits := slices.Clone(x.results)
	for _, of := range x.listedIn(looksIn) {
		hits = append(hits, of.hits...)
	}
	return hits
}

// Hits returns all outliers.
func (x *Index) Hits() []*Hit { return x.hitsIn(func(int) bool { return true }) }
