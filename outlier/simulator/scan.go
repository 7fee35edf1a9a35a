package simulator

import (
	"strings"
	"sync"
	"time"

	"outlierd/outlier/simulator/library"
)

// Scans, by interface, POST /scan and GET /scan/{id}: begun, told of, and read by
// `referenceId` once they have completed.

// begin starts the scan that was ordered, and tells its id.
func (s *Service) begin(o *order, at instant) string {
	n := scan{
		started: uint64(at.real.Sub(library.Dawn).Milliseconds()), standard: o.mode == standard, channels: o.channels,
		topics: uint64(library.Open(s.options.Seed).TopicsOf(o.query, o.channels)),
		salt:   lowest(library.HashText(strings.Join(o.query, "\n"))+s.wording.next(), saltBits),
	}
	id := n.id(s.options.Seed)
	s.wording.keep(id, o.query)
	return id
}

// wording is what the scans of a service were asked for. It is the one thing that
// their ids do not tell: of a scan that another service began, the queries are the
// names of the topics that were meant.
type wording struct {
	mu    sync.Mutex
	begun uint64
	of    map[string][]string // by id
}

// maxWording bounds what is kept, so that a simulator may run for weeks.
const maxWording = 10_000

// next counts scans, so that no two of a millisecond have one id.
func (w *wording) next() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun++
	return w.begun
}

func (w *wording) keep(id string, query []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil || len(w.of) >= maxWording {
		w.of = map[string][]string{}
	}
	w.of[id] = query
}

func (w *wording) find(id string) (query []string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	query, ok = w.of[id]
	return query, ok
}

// scanAnswer is the record of a scan; nil if there is none with this id.
func (s *Service) scanAnswer(id string, at instant) any {
	n, ok := scanOf(s.options.Seed, id)
	if !ok {
		return nil
	}
	after := n.after(at)
	stands := standing(s.course(n), after)
	tell := func(d time.Duration) string { return s.scanTime(n).Add(d).Format(library.WithMillis) }
	a := scanAnswer{ID: n.id(s.options.Seed), Status: stands.status, Input: scanInput{Threshold: n.threshold(s.options.Seed)}}
	a.CreatedAt, a.UpdatedAt = tell(0), tell(max(stands.since, after.Truncate(time.Minute)))
	if stands.ended {
		a.UpdatedAt = tell(stands.since)
		a.EndedAt = new(a.UpdatedAt)
	}
	query, ok := s.wording.find(a.ID)
	if !ok {
		query = []string{} // a scan from channels does not tell which
		if !n.channels {
			query = library.TopicSet(n.topics).Names()
		}
	}
	a.Input.Query, a.Name = query, excerpt("Scan: "+strings.Join(query, ", "))
	return a
}

// course is how a scan goes in this service.
func (s *Service) course(n *scan) []Phase {
	if s.options.Scans != nil {
		return s.options.Scans(n.mode().name)
	}
	return n.course(s.options.Seed)
}

// after is how long the scan has been there.
func (n *scan) after(at instant) time.Duration { return max(at.real.Sub(n.begun()), 0) }

// begun is when the scan started by the real clock.
func (n *scan) begun() time.Time {
	return library.Dawn.Add(time.Duration(n.started) * time.Millisecond)
}

// scanTime is when the scan started by the service's clock.
func (s *Service) scanTime(n *scan) time.Time {
	if s.options.Freeze {
		return Epoch
	}
	return n.begun()
}

// threshold is seen in two forms: both limits, of which one is infinite, or the
// finite one alone.
func (n *scan) threshold(seed uint64) any {
	t := scanThreshold{Channels: maxInteger, OutlierVideos: int64(n.mode().outliers)}
	only := t.OutlierVideos
	if n.channels {
		t = scanThreshold{Channels: int64(n.mode().channels), OutlierVideos: maxInteger}
		only = t.Channels
	}
	if library.Unit(library.Hash(seed, uint64(library.AboutScan), n.started, n.salt)) < 0.25 {
		return only
	}
	return t
}

// maxName is how many characters the name of a scan has at most.
const maxName = 80

func excerpt(s string) string {
	if r := []rune(s); len(r) > maxName {
		return string(r[:maxName-1]) + "…"
	}
	return s
}

// shelf is where the hits of a search stand: the library, or what a scan found. A
// scan that has not completed found nothing yet, and one that nobody knows nothing
// ever.
func (s *Service) shelf(c *call, at instant) *library.Index {
	l := library.Open(s.options.Seed)
	if !c.params.Has("referenceId") {
		return l.Index(at.told)
	}
	n, ok := scanOf(s.options.Seed, c.params.Get("referenceId"))
	if !ok {
		return &library.Index{At: at.told}
	}
	stands := standing(s.course(n), n.after(at))
	if !stands.ended || stands.status != completed {
		return &library.Index{At: at.told}
	}
	ended := s.scanTime(n)
	if !s.options.Freeze {
		ended = ended.Add(stands.since)
	}
	return n.results(l.Index(ended), l.Seed)
}

// results are what the scan found: the outliers nearest to its topics, or those of
// the channels nearest to them, as many as its threshold says. They are as they
// were when it ended, so that they stand still while they are read.
func (n *scan) results(x *library.Index, seed uint64) *library.Index {
	salt := library.Hash(seed, uint64(library.AboutScan), n.salt)
	if n.channels {
		return x.NearestChannels(library.TopicSet(n.topics), salt, n.mode().channels)
	}
	return x.Nearest(library.TopicSet(n.topics), salt, n.mode().outliers)
}
