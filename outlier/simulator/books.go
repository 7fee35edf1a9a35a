package simulator

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"outlierd/outlier"
)

// Books is what the service charged, served and refused, so that a test can hold
// its client's ledger against it. Over HTTP it is GET /_simulator/books.
type Books struct {
	Total         Totals                       `json:"total"`
	Operations    map[outlier.Operation]Totals `json:"operations"`
	UnknownParams map[string]int               `json:"unknown_params"` // query parameters that the interface does not name, and how often they came
	Calls         []Call                       `json:"calls"`          // the last 100,000, in the order in which they were answered
}

// Totals sums calls up. Every call is exactly one of Served, Missing, Refused,
// Failed and Lost.
type Totals struct {
	Calls    int             `json:"calls"`
	Served   int             `json:"served"`  // a good answer left
	Missing  int             `json:"missing"` // 404: no such thing
	Refused  int             `json:"refused"` // key, limit, rules, balance: nothing was done
	Failed   int             `json:"failed"`  // processed, answered with the documented error and refunded
	Lost     int             `json:"lost"`    // processed and charged, but no good answer arrived
	Cached   int             `json:"cached"`  // of Served and Lost: free repeats of a paid call
	Charged  outlier.Credits `json:"charged"`
	Refunded outlier.Credits `json:"refunded"` // of Charged
}

// Spent is what the account is poorer by.
func (t Totals) Spent() outlier.Credits { return t.Charged - t.Refunded }

// Call is one line of the log.
type Call struct {
	At       time.Time         `json:"at"`
	Op       outlier.Operation `json:"op"` // "" for a path that the interface does not know
	Entity   string            `json:"entity,omitempty"`
	Identity string            `json:"identity"` // as [outlier.Request.Identity]
	Result   Result            `json:"result"`
	Status   int               `json:"status"` // 0 if no status line left
	Charged  outlier.Credits   `json:"charged"`
	Refunded outlier.Credits   `json:"refunded"`
	Cached   bool              `json:"cached"`
	Fault    string            `json:"fault,omitempty"`
}

// Result is what became of a call: the columns of [Totals].
type Result string

const (
	Served  Result = "served"
	Missing Result = "missing"
	Refused Result = "refused"
	Failed  Result = "failed"
	Lost    Result = "lost"
)

// maxLog bounds the log, so that a simulator may run for weeks. Totals are exact all the same.
const maxLog = 100_000

// ledger keeps the books. Its lock is also the till's: a call is charged and
// written down in one step.
type ledger struct {
	mu      sync.Mutex
	books   Books
	balance int64 // left; meaningless if unlimited
	repeats map[string]repeat
}

func newLedger(credits int64) *ledger {
	return &ledger{
		books:   Books{Operations: map[outlier.Operation]Totals{}, UnknownParams: map[string]int{}},
		balance: credits,
		repeats: map[string]repeat{},
	}
}

// Books returns a copy of the books as they stand.
func (s *Service) Books() Books {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	b := s.ledger.books
	b.Operations = maps.Clone(b.Operations)
	b.UnknownParams = maps.Clone(b.UnknownParams)
	b.Calls = slices.Clone(b.Calls)
	return b
}

// write books c. The caller holds the lock.
func (l *ledger) write(c Call) {
	l.books.Total.add(c)
	t := l.books.Operations[c.Op]
	t.add(c)
	l.books.Operations[c.Op] = t
	if len(l.books.Calls) >= maxLog {
		l.books.Calls = slices.Clone(l.books.Calls[maxLog/10:])
	}
	l.books.Calls = append(l.books.Calls, c)
}

func (t *Totals) add(c Call) {
	t.Calls++
	*map[Result]*int{
		Served: &t.Served, Missing: &t.Missing, Refused: &t.Refused, Failed: &t.Failed, Lost: &t.Lost,
	}[c.Result]++
	if c.Cached {
		t.Cached++
	}
	t.Charged += c.Charged
	t.Refunded += c.Refunded
}

// identity is equal for two calls exactly when they ask the same thing.
func identity(op outlier.Operation, entity, params string) string {
	return strings.Join([]string{string(op), entity, params}, " ")
}
