package simulator

import (
	"maps"
	"slices"
	"sync"
	"time"

	"outlierd/outlier"
)

// Books is the record of what the service charged, served and refused, so that a test can compare
// its client's ledger with it. Over HTTP it is GET /_simulator/books.
type Books struct {
	Total      Totals                       `json:"total"`
	Operations map[outlier.Operation]Totals `json:"operations"`

	// UnknownParams are query parameters that the interface does not name, and how often
	// they came.
	UnknownParams map[string]int `json:"unknown_params"`

	// Calls are in the order in which they were answered; the last 90,000 at least.
	Calls []Call `json:"calls"`
}

// Totals are sums over calls. Every call is exactly one of Served, Missing, Refused,
// Failed and Lost.
type Totals struct {
	Calls    int             `json:"calls"`
	Served   int             `json:"served"`
	Missing  int             `json:"missing"`
	Refused  int             `json:"refused"`
	Failed   int             `json:"failed"`
	Lost     int             `json:"lost"`
	Cached   int             `json:"cached"` // of Served and Lost: free repeats of a paid call
	Charged  outlier.Credits `json:"charged"`
	Refunded outlier.Credits `json:"refunded"` // of Charged
}

// Spent is what was charged and not refunded.
func (t Totals) Spent() outlier.Credits { return t.Charged - t.Refunded }

// Result is the outcome of a call.
type Result string

// The results, one for each column of [Totals].
const (
	Served  Result = "served"  // a good answer left
	Missing Result = "missing" // 404: no such thing
	Refused Result = "refused" // by key, limit, rules or balance, or dropped: nothing was done
	Failed  Result = "failed"  // processed, answered with the documented error, refunded
	Lost    Result = "lost"    // processed and charged, but no good answer left
)

// Call is one line of the log.
type Call struct {
	At       time.Time         `json:"at"` // by the service's clock
	Op       outlier.Operation `json:"op"` // "" for a path that the interface does not know
	Entity   string            `json:"entity,omitempty"`
	Identity string            `json:"identity"` // operation, entity and parameters
	Result   Result            `json:"result"`
	Status   int               `json:"status"` // 0 if no status line left
	Charged  outlier.Credits   `json:"charged"`
	Refunded outlier.Credits   `json:"refunded"`
	Cached   bool              `json:"cached"`
	Fault    string            `json:"fault,omitempty"`
	Scan     string            `json:"scan,omitempty"` // that the call started, even if the answer was lost
}

// maxLog bounds the log, so that a simulator may run for weeks. Totals stay exact.
const maxLog = 100_000

// ledger is the account and its books. A call and its price are recorded atomically.
type ledger struct {
	unlimited   bool
	cachePeriod time.Duration

	mu      sync.Mutex
	books   Books
	balance outlier.Credits
	bought  map[string]purchase // by identity
}

// purchase is a paid answer whose repeats are free. The answer itself is not stored: it is computed
// again from the time at which it was made.
type purchase struct {
	made  instant
	until time.Time // by the real clock
}

func newLedger(o Options) *ledger {
	return &ledger{
		unlimited:   o.Credits == 0,
		cachePeriod: o.CachePeriod,
		books:       Books{Operations: map[outlier.Operation]Totals{}, UnknownParams: map[string]int{}},
		balance:     outlier.Credits(o.Credits),
		bought:      map[string]purchase{},
	}
}

// Books returns a copy of the present books.
func (s *Service) Books() Books {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	b := s.ledger.books
	b.Operations = maps.Clone(b.Operations)
	b.UnknownParams = maps.Clone(b.UnknownParams)
	b.Calls = append([]Call{}, b.Calls...)
	return b
}

// cachedSince returns when the answer was made that c repeats for free.
func (l *ledger) cachedSince(c *call) (made instant, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.bought[c.Identity]
	return p.made, c.isCacheable() && c.real.Before(p.until)
}

// sellAnswer charges for c, unless it is a free repeat, and records it. It reports false, with c refused,
// if the balance is too low. A failed call is refunded in the same step, and its answer is not
// cached.
func (l *ledger) sellAnswer(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	price := c.price()
	c.Cached = c.isCacheable() && c.real.Before(l.bought[c.Identity].until)
	if c.Cached {
		price = 0
	}
	if !l.unlimited && price > l.balance {
		c.Result, c.Status, c.Scan = Refused, statusNoCredits, ""
		l.writeCall(c.Call)
		return false
	}
	c.Charged = price
	if c.Result == Failed {
		c.Refunded = price
	} else if price > 0 && c.isCacheable() {
		l.rememberPurchase(c.Identity, purchase{c.instant(), c.real.Add(l.cachePeriod)}, c.real)
	}
	l.balance -= c.Charged - c.Refunded
	l.writeCall(c.Call)
	return true
}

// rememberPurchase keeps a purchase, and every 1,024 purchases drops the expired ones.
func (l *ledger) rememberPurchase(identity string, p purchase, real time.Time) {
	if len(l.bought)%1024 == 1023 {
		maps.DeleteFunc(l.bought, func(_ string, p purchase) bool { return !real.Before(p.until) })
	}
	l.bought[identity] = p
}

// bookFree records a call that was not charged.
func (l *ledger) bookFree(c Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeCall(c)
}

// countUnknown counts query parameters that the interface does not name.
func (l *ledger) countUnknown(names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		l.books.UnknownParams[name]++
	}
}

// writeCall adds c to the books. The caller holds the lock.
func (l *ledger) writeCall(c Call) {
	l.books.Total.addCall(c)
	t := l.books.Operations[c.Op]
	t.addCall(c)
	l.books.Operations[c.Op] = t
	if len(l.books.Calls) >= maxLog {
		l.books.Calls = slices.Clone(l.books.Calls[maxLog/10:])
	}
	l.books.Calls = append(l.books.Calls, c)
}

func (t *Totals) addCall(c Call) {
	t.Calls++
	switch c.Result {
	case Served:
		t.Served++
	case Missing:
		t.Missing++
	case Refused:
		t.Refused++
	case Failed:
		t.Failed++
	case Lost:
		t.Lost++
	}
	if c.Cached {
		t.Cached++
	}
	t.Charged += c.Charged
	t.Refunded += c.Refunded
}
