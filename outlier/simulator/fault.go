package simulator

import (
	"sync"
	"time"

	"outlierd/outlier"
)

// Fault is one way in which a call can fail. The variables below are all of them.
type Fault struct {
	name  string
	stage stage
	delay time.Duration
}

// stage is how far a call gets before its fault. If the call is refused earlier for another reason,
// the fault applies to the next call.
type stage int

const (
	beforeConnection stage = iota // before there is a connection
	beforeCounting                // before the call is counted or looked at
	beforeAnswer                  // in place of an answer that is ready
)

// The faults that keep a call from being processed. None of them costs anything.
var (
	// Unreachable refuses the connection, and is not booked. Over a listener it is DropRequest.
	Unreachable = Fault{"unreachable", beforeConnection, 0}
	// DropRequest resets the connection. The call is neither counted nor processed.
	DropRequest = Fault{"drop request", beforeCounting, 0}
	// Unauthorized is 401 although the key is right.
	Unauthorized = Fault{"unauthorized", beforeCounting, 0}
	// RateLimited is 429 until the window ends: another client has used it up.
	RateLimited = Fault{"rate limited", beforeCounting, 0}
	// NoCredits is 402 whatever the balance.
	NoCredits = Fault{"no credits", beforeAnswer, 0}
)

// The faults of a call that was processed. All but ServerError leave it charged,
// and an identical call within the cache period is then free.
var (
	ServerError = Fault{"server error", beforeAnswer, 0}        // 500 with the documented JSON: charged and refunded
	GatewayPage = Fault{"gateway page", beforeAnswer, 0}        // 502 with a gateway's HTML page
	GatewayJSON = Fault{"gateway JSON", beforeAnswer, 0}        // 504 with a gateway's JSON: error and message, no status
	HTMLPage    = Fault{"html page", beforeAnswer, 0}           // 200 with text/html
	Garbage     = Fault{"garbage", beforeAnswer, 0}             // 200 with application/json that is not JSON
	DropAnswer  = Fault{"drop answer", beforeAnswer, 0}         // connection closed before the status line
	CutBody     = Fault{"cut body", beforeAnswer, 0}            // connection closed in the middle of the body
	Stall       = Fault{"stall", beforeAnswer, 0}               // the body stops in the middle, the connection stays
	Slow        = Fault{"slow", beforeAnswer, 20 * time.Second} // a good answer, which comes late
)

// String is the fault's name, as in [Call].
func (f Fault) String() string { return f.name }

// faultQueue holds the coming faults in order, by operation ("" = any).
type faultQueue struct {
	mu    sync.Mutex
	queue map[outlier.Operation][]Fault
}

// FailNext makes the next call of op fail; op "" means any operation. Faults come in the order
// of the calls of FailNext, those of one operation before those of any.
func (s *Service) FailNext(op outlier.Operation, f Fault) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.queue[op] = append(s.faults.queue[op], f)
}

// nextFault removes and returns the fault of a call of op at one of the stages; the zero Fault if there
// is none.
func (s *faultQueue) nextFault(op outlier.Operation, from, to stage) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range []outlier.Operation{op, ""} {
		if q := s.queue[key]; len(q) > 0 && from <= q[0].stage && q[0].stage <= to {
			s.queue[key] = q[1:]
			return q[0]
		}
	}
	return Fault{}
}
