package simulator

import (
	"sync"
	"time"

	"outlierd/outlier"
)

// Fault is one way in which a call can go wrong. The variables below are all
// there are; [Slow] makes one with a length.
type Fault struct {
	name  string
	stage stage
	delay time.Duration
}

// stage is how far a call comes before its fault strikes. A call that is refused
// for a reason of its own before that leaves the fault to the next call.
type stage int

const (
	atDial    stage = iota // before there is a connection
	atDoor                 // before the call is counted or looked at
	atCounter              // in place of an answer that is ready
)

// The faults that keep a call from being processed. None of them costs anything.
var (
	Unreachable  = Fault{"unreachable", atDial, 0}   // connection refused, and not in the books; over a listener as DropRequest
	DropRequest  = Fault{"drop request", atDoor, 0}  // connection reset; the call is neither counted against the limit nor processed
	Unauthorized = Fault{"unauthorized", atDoor, 0}  // 401 although the key is right
	RateLimited  = Fault{"rate limited", atDoor, 0}  // 429, and until the window ends: another client has used it up
	NoCredits    = Fault{"no credits", atCounter, 0} // 402 whatever the balance
)

// The faults of a call that was processed. All but ServerError leave it charged,
// and an identical call within the cache period is then free.
var (
	ServerError = Fault{"server error", atCounter, 0} // 500 with the documented JSON: charged and refunded
	GatewayPage = Fault{"gateway page", atCounter, 0} // 502 with a gateway's HTML page
	GatewayJSON = Fault{"gateway JSON", atCounter, 0} // 504 with a gateway's JSON: an error and its message, no status
	HTMLPage    = Fault{"html page", atCounter, 0}    // 200 with text/html
	Garbage     = Fault{"garbage", atCounter, 0}      // 200 with application/json that is not JSON
	DropAnswer  = Fault{"drop answer", atCounter, 0}  // connection closed before the status line
	CutBody     = Fault{"cut body", atCounter, 0}     // connection closed in the middle of the body
	Stall       = Fault{"stall", atCounter, 0}        // the body stops in the middle, the connection stays
)

// Slow lets a good answer come d later than usual.
func Slow(d time.Duration) Fault { return Fault{"slow", atCounter, d} }

// String is the fault's name, as in [Call].
func (f Fault) String() string { return f.name }

// script holds the faults to come, in order, by operation ("" = any).
type script struct {
	mu    sync.Mutex
	queue map[outlier.Operation][]Fault
}

// FailNext lets the next call of op go wrong; op "" means a call of any
// operation. Faults strike in the order of the calls of FailNext, those of an
// operation before those of any.
func (s *Service) FailNext(op outlier.Operation, f Fault) {
	s.script.mu.Lock()
	defer s.script.mu.Unlock()
	s.script.queue[op] = append(s.script.queue[op], f)
}

// next takes the fault that strikes a call of op at one of the stages; the zero
// Fault if none does.
func (s *script) next(op outlier.Operation, from, to stage) Fault {
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
