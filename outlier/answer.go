package outlier

import (
	"net/http"
	"time"
)

// Outcome is what became of the price of a request. There are three, because a
// failed request is refunded (interface, Errors, rule 3) but a lost answer
// proves nothing.
type Outcome string

const (
	Charged  Outcome = "charged"  // a whole answer arrived
	Refunded Outcome = "refunded" // proof of failure: provably unsent, or the documented error JSON
	Unknown  Outcome = "unknown"  // no proof either way; counts as charged
)

// Answer is all that is known after one attempt, whether or not the service
// replied. Its body stays raw: [Answer.JSON] opens it, package schema decodes it.
type Answer struct {
	Request    *Request
	Status     int         // HTTP status; 0 if no status line arrived
	Header     http.Header // as received, without Set-Cookie; nil if none arrived
	Body       []byte      // as it came over the wire, perhaps cut short
	Encoding   string      // how Body is encoded: "gzip" or ""
	Waited     time.Duration
	SentAt     time.Time // just before the first byte could leave; zero if provably unsent
	ReceivedAt time.Time // when the answer was complete, or the attempt was given up
	Err        error     // nil for a usable answer, else usually an *Error
}
