package simulator

import (
	"net/url"
	"strings"
	"time"

	"outlierd/internal/excerpt"
	"outlierd/outlier"
	"outlierd/outlier/simulator/library"
)

// Scans (interface, POST /scan and GET /scan/{id}) are started, polled, and read by
// `referenceId` once they have completed.

// startScan starts the scan that was ordered, and returns its id.
func (s *Service) startScan(order url.Values, at instant) string {
	query, channels := order["query"], order.Get("findBy") == outlier.FindByChannels
	n := scan{
		started:  uint64(at.real.Sub(library.Beginning).Milliseconds()),
		standard: order.Get("mode") == standard.name, channels: channels,
		topics: uint64(library.Open(s.options.Seed).TopicsOf(query, channels)),
		salt:   lowestBits(library.HashText(strings.Join(query, "\n"))+s.begun.Add(1), saltBits),
	}
	id := n.id(s.options.Seed)
	s.queries.Store(id, query)
	return id
}

// scanAnswer is the record of a scan; nil if no scan has this id.
func (s *Service) scanAnswer(id string, at instant) any {
	n, ok := scanOf(s.options.Seed, id)
	if !ok {
		return nil
	}
	after := n.timeSinceStart(at)
	state := stateAt(s.phasesOf(n), after)
	timeOf := func(d time.Duration) string { return s.scanTime(n).Add(d).Format(library.WithMillis) }
	a := scanAnswer{ID: n.id(s.options.Seed), Status: state.status}
	a.Input.Threshold = n.threshold(s.options.Seed)
	a.CreatedAt, a.UpdatedAt = timeOf(0), timeOf(max(state.since, after.Truncate(time.Minute)))
	if state.ended {
		a.UpdatedAt = timeOf(state.since)
		a.EndedAt = new(a.UpdatedAt)
	}
	query := []string{} // the id of a scan from channels does not contain them
	if kept, ok := s.queries.Load(a.ID); ok {
		query = kept.([]string)
	} else if !n.channels {
		query = library.TopicSet(n.topics).Names()
	}
	a.Input.Query, a.Name = query, excerpt.Runes("Scan: "+strings.Join(query, ", "), maxName)
	return a
}

// phasesOf are the phases of a scan in this service.
func (s *Service) phasesOf(n *scan) []Phase {
	if s.options.Scans != nil {
		return s.options.Scans(n.mode().name)
	}
	return n.drawPhases(s.options.Seed)
}

// timeSinceStart is the time since the scan started.
func (n *scan) timeSinceStart(at instant) time.Duration { return max(at.real.Sub(n.startTime()), 0) }

// startTime is when the scan started by the real clock.
func (n *scan) startTime() time.Time {
	return library.Beginning.Add(time.Duration(n.started) * time.Millisecond)
}

// scanTime is when the scan started by the service's clock.
func (s *Service) scanTime(n *scan) time.Time {
	if s.options.Freeze {
		return Epoch
	}
	return n.startTime()
}

// noThreshold is the largest whole number of the interface.
const noThreshold = 9007199254740991

// threshold has two forms, as the service's: both limits, of which one is infinite, or the
// finite one alone.
func (n *scan) threshold(seed uint64) any {
	t := scanThreshold{Channels: noThreshold, OutlierVideos: int64(n.mode().outliers)}
	only := t.OutlierVideos
	if n.channels {
		t = scanThreshold{Channels: int64(n.mode().channels), OutlierVideos: noThreshold}
		only = t.Channels
	}
	if library.Unit(library.Hash(seed, uint64(library.ForScan), n.started, n.salt)) < 0.25 {
		return only
	}
	return t
}

// maxName is how many characters the name of a scan has at most.
const maxName = 80

// indexFor is the index that a search looks in: the library, or the results of a scan. A
// scan that has not completed, or does not exist, has no results.
func (s *Service) indexFor(c *call, at instant) *library.Index {
	l := library.Open(s.options.Seed)
	if !c.params.Has("referenceId") {
		return l.Index(at.service)
	}
	n, ok := scanOf(s.options.Seed, c.params.Get("referenceId"))
	if !ok {
		return &library.Index{At: at.service}
	}
	state := stateAt(s.phasesOf(n), n.timeSinceStart(at))
	if !state.ended || state.status != completed {
		return &library.Index{At: at.service}
	}
	ended := s.scanTime(n)
	if !s.options.Freeze {
		ended = ended.Add(state.since)
	}
	return n.nearestResults(l.Index(ended), l.Seed)
}

// nearestResults are the outliers nearest to the scan's topics, or those of the channels nearest to
// them, as many as its threshold allows. They are as of the scan's end, so that they do not
// change while they are read.
func (n *scan) nearestResults(x *library.Index, seed uint64) *library.Index {
	if n.channels {
		return x.NearestChannels(library.TopicSet(n.topics), seed, n.mode().channels)
	}
	return x.Nearest(library.TopicSet(n.topics), seed, n.mode().outliers)
}
