// Package simulator is the paid service in memory: an [http.Handler] for another
// process, and an [http.RoundTripper] for this one and for tests in virtual time.
//
// It checks its client by rules of its own, written from the interface and not
// shared with the client, and keeps books of what it charged.
//
// What the library holds is a pure function of the seed and the clock, by the
// hour: the same question in the same hour has the same answer (but for the time
// that it names) in every process, in the year 2000 of a synctest bubble as well
// as today, and a service made anew goes on where another one stopped. Nothing
// depends on when a Service was made. Scans are no exception: all that there is to
// know of one stands in its id, but for the wording of its queries, which is kept
// in memory; a service made anew names the topics that were meant in their place.
package simulator

import (
	"cmp"
	"net/http"
	"time"

	"outlierd/outlier"
)

// Options say how the service behaves. The zero value is a service with seed 0,
// key "demo", ten requests a minute and unlimited credits.
type Options struct {
	Seed        uint64                    // everything in the library follows from it
	Key         string                    // required as "Authorization: Api-Key <key>"; "" means "demo"
	Limit       int                       // requests per Window; 0 means 10
	Window      time.Duration             // of the rate limit, from its first request; 0 means a minute
	Freeze      bool                      // the service's clock stands at Epoch; windows, cache periods and scans pass all the same
	Credits     int64                     // the balance; 0 means unlimited
	CachePeriod time.Duration             // how long an identical paid call is free; 0 means 10 minutes
	PagingItems bool                      // `from` counts items instead of pages
	Arrays      outlier.Arrays            // how lists in a query string are read; "" means outlier.ArraysRepeat
	Quirks      Quirk                     // oddities of the pages; 0 means none
	Scans       func(mode string) []Phase // how every scan of a mode goes; nil means that dice decide: 30 minutes to 2 hours if fast, 2 to 4 hours if standard. Called from many goroutines
	Latency     func() time.Duration      // how long the next answer takes; nil means no time. Called from many goroutines
}

// Epoch is where the clock of a frozen service stands.
var Epoch = time.Date(2026, time.November, 1, 12, 0, 0, 0, time.UTC)

// Service is one account at the service. It is safe for concurrent use.
type Service struct {
	options Options
	window  window
	script  script
	ledger  *ledger
	press   press
	wording wording
}

// New opens the service. It is cheap: the library is made when it is first asked.
func New(o Options) *Service {
	o.Key = cmp.Or(o.Key, "demo")
	o.Limit = cmp.Or(o.Limit, 10)
	o.Window = cmp.Or(o.Window, time.Minute)
	o.CachePeriod = cmp.Or(o.CachePeriod, 10*time.Minute)
	return &Service{
		options: o,
		window:  window{limit: o.Limit, length: o.Window},
		script:  script{queue: map[outlier.Operation][]Fault{}},
		ledger:  newLedger(o),
	}
}

// instant is a moment by both clocks. That of the library may stand still, while
// windows, cache periods and scans go by the real one (or synctest's).
type instant struct{ told, real time.Time }

// now is the time that the service tells.
func (s *Service) now() time.Time {
	if s.options.Freeze {
		return Epoch
	}
	return time.Now().UTC()
}

// paging is how the service cuts pages.
func (s *Service) paging() paging { return paging{s.options.PagingItems, s.options.Quirks} }

// booksPath is not of the interface: it lets another process read the [Books].
const booksPath = "/_simulator/books"

// showBooks asks for the key like every endpoint, and counts nothing.
func (s *Service) showBooks(c *call) *reply {
	if !s.keyFits(c) {
		return s.sorry(c, statusUnauthorized, simpleError{"Unauthorized"})
	}
	return s.press.print(http.StatusOK, s.Books(), c.zip, c.At)
}
