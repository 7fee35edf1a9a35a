package simulator

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// channelCount makes some 75,000 uploads in samples, of which some thousands are outliers.
const channelCount = 600

// library holds everything that the service knows. It never ends: uploads follow
// from the seed and their number, measures from the clock. The service measures
// the library once an hour, so all answers of an hour agree with one another.
type library struct {
	seed     uint64
	channels []*channel
	byID     map[string]*channel

	mu      sync.Mutex
	indexes map[int64]*index // by hour, the last few
}

// libraries keeps the libraries of the last seeds: a library is the same for all
// services of its seed, so that a thousand services in tests share one index.
var libraries = struct {
	sync.Mutex
	bySeed map[uint64]*library
}{bySeed: map[uint64]*library{}}

const maxLibraries, maxIndexes = 8, 3

// openLibrary returns the library of a seed.
func openLibrary(seed uint64) *library {
	libraries.Lock()
	defer libraries.Unlock()
	if l, ok := libraries.bySeed[seed]; ok {
		return l
	}
	if len(libraries.bySeed) >= maxLibraries {
		clear(libraries.bySeed)
	}
	l := newLibrary(seed)
	libraries.bySeed[seed] = l
	return l
}

func newLibrary(seed uint64) *library {
	l := &library{seed: seed, byID: map[string]*channel{}, indexes: map[int64]*index{}}
	for i := range channelCount {
		c := newChannel(seed, i)
		l.channels = append(l.channels, c)
		l.byID[c.id] = c
	}
	return l
}

// measured is when the library was last measured.
func measured(at time.Time) time.Time { return at.Truncate(time.Hour) }

// find returns the upload with this id if it is out.
func (l *library) find(id string, at time.Time) (upload, bool) {
	address, ok := addressOf(l.seed, id)
	if !ok || address>>36 >= uint64(len(l.channels)) {
		return upload{}, false
	}
	c, k, n := l.channels[address>>36], kind(address>>35&1), int(address&(1<<35-1))
	if n > c.latest(k, at) {
		return upload{}, false
	}
	return c.upload(k, n), true
}

// index is what search looks through: all samples of an hour and their outliers.
type index struct {
	at      time.Time
	hits    []*hit
	samples [2][]*sample // by kind, without their entries
}

// add takes a sample and its outliers in and lets the rest of it go.
func (x *index) add(s *sample) {
	x.samples[s.kind] = append(x.samples[s.kind], s)
	for i := range s.entries {
		if e := &s.entries[i]; e.positive() || e.negative() {
			x.hits = append(x.hits, newHit(e, s))
		}
	}
	s.entries = nil
}

// index returns the index of the hour of at, made when first asked for.
func (l *library) index(at time.Time) *index {
	at = measured(at)
	l.mu.Lock()
	defer l.mu.Unlock()
	if x, ok := l.indexes[at.Unix()]; ok {
		return x
	}
	if len(l.indexes) >= maxIndexes {
		delete(l.indexes, slices.Min(slices.Collect(maps.Keys(l.indexes))))
	}
	x := &index{at: at}
	for _, c := range l.channels {
		for k := range c.lines {
			x.add(c.sample(kind(k), at))
		}
	}
	l.indexes[at.Unix()] = x
	return x
}
