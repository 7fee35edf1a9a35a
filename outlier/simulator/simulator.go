// Package simulator simulates the paid service in memory: as an [http.Handler] for other processes,
// and as an [http.RoundTripper] for this process and for tests in virtual time.
//
// It refuses what package outlier refuses, and records what it has charged. Tests compare both with
// openapi.yaml.
//
// The content of the library is a pure function of the seed and the clock, by the hour. The same
// request in the same hour has the same answer in every process, apart from timestamps, also in the
// year 2000 of a synctest bubble. A new Service continues where another one stopped. This includes
// scans: the id of a scan encodes everything about it except the text of its queries. That text is
// kept in memory, and a new Service returns the names of the topics instead.
package simulator

import (
	"cmp"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"outlierd/outlier"
)

// Options configure the service. The zero value is a service with seed 0,
// key "demo", ten requests a minute and unlimited credits.
type Options struct {
	Seed        uint64        // determines everything in the library
	Key         string        // required as "Authorization: Api-Key <key>"; "" means "demo"
	Limit       int           // requests per Window; 0 means 10
	Window      time.Duration // of the rate limit, from its first request; 0 means a minute
	Credits     int64         // the balance; 0 means unlimited
	CachePeriod time.Duration // how long an identical paid call is free; 0 means 10 minutes
	PagingItems bool          // `from` counts items instead of pages
	Quirks      Quirk         // oddities of the pages; 0 means none

	// Freeze stops the service's clock at Epoch. Rate limits, cache periods and scans
	// go by the real clock nevertheless.
	Freeze bool

	Clock func() time.Time // of the service; nil means this machine's

	// Scans are the phases of every scan of a mode; nil means random ones: 30 minutes
	// to 2 hours in mode fast, 2 to 4 hours in mode standard. Many goroutines call it.
	Scans func(mode string) []Phase

	// Latency is how long the next answer takes; nil means no time. Many goroutines
	// call it.
	Latency func() time.Duration
}

// Epoch is the time of a frozen service.
var Epoch = time.Date(2026, time.November, 1, 12, 0, 0, 0, time.UTC)

// Service is one account at the service. It is safe for concurrent use.
type Service struct {
	options Options
	window  window
	faults  faultQueue
	ledger  *ledger
	begun   atomic.Uint64 // counts scans, so that two of the same millisecond have different ids
	queries sync.Map      // by the id of a scan: the texts that it was started with, which its id lacks
}

// New makes a service. It is cheap: the library is made by the first request.
func New(o Options) *Service {
	o.Key = cmp.Or(o.Key, "demo")
	o.Limit = cmp.Or(o.Limit, 10)
	o.Window = cmp.Or(o.Window, time.Minute)
	o.CachePeriod = cmp.Or(o.CachePeriod, 10*time.Minute)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Service{
		options: o,
		window:  window{limit: o.Limit, length: o.Window},
		faults:  faultQueue{queue: map[outlier.Operation][]Fault{}},
		ledger:  newLedger(o),
	}
}

// instant is a time by both clocks. The service's may stand still, while rate limits,
// cache periods and scans go by the real one (or synctest's).
type instant struct{ service, real time.Time }

// now is the service's time.
func (o Options) now() time.Time {
	if o.Freeze {
		return Epoch
	}
	return o.Clock().UTC()
}

// paging is how the service cuts pages.
func (o Options) paging() paging { return paging{o.PagingItems, o.Quirks} }

// booksPath is not part of the interface: it lets another process read the [Books].
const booksPath = "/_simulator/books"

// booksReply checks the key like every endpoint, and books nothing.
func (s *Service) booksReply(c *call) *reply {
	if !s.keyFits(c) {
		return errorReply(c, statusUnauthorized, simpleError{"Unauthorized"})
	}
	return encodeReply(http.StatusOK, s.Books(), c.zip, c.At)
}

// window is the rate limit of a key: a fixed window that begins with the first request after the
// last window ended. Refused requests count too. It uses the real (or synctest's) clock even if the
// service is frozen.
type window struct {
	limit  int
	length time.Duration

	mu   sync.Mutex
	ends time.Time
	used int
}

// countRequest counts a request, and reports whether it is within the limit. It returns the number
// of requests in the window and the time until the window ends (interface, Errors). With
// exhaust, another client has used the window up.
func (w *window) countRequest(now time.Time, exhaust bool) (current int, reset time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !now.Before(w.ends) {
		w.ends, w.used = now.Add(w.length), 0
	}
	if exhaust {
		w.used = max(w.used, w.limit)
	}
	w.used++
	return w.used, w.ends.Sub(now), w.used <= w.limit
}
