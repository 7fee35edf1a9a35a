package simulator

import (
	"sync"
	"time"

	"outlierd/outlier"
)

// Fault is one way in which a call can go wrong. The variables below are all that
// exist; [Slow] makes one with a length.
type Fault struct {
	name  string
	stage stage
	delay time.Duration
}

// stage is how far a call comes before its fault strikes. A call that is refused
// for a reason of its own before that leaves the fault for the next call.
type stage int

const (
	atDoor    stage = iota // before the call is counted or looked at
	atCounter              // in place of an answer that is ready to be paid for
)

// The faults that keep a call from being processed. None of them costs anything.
var (
	Unreachable  = Fault{name: "unreachable"}        // no connection comes about; over a listener as DropRequest
	DropRequest  = Fault{name: "drop request"}       // the connection is reset, the call neither counted nor processed
	Unauthorized = Fault{name: "unauthorized"}       // 401 although the key is right
	RateLimited  = Fault{name: "rate limited"}       // 429: somebody else has used the window up, until it ends
	NoCredits    = Fault{"no credits", atCounter, 0} // 402 whatever the balance
)

// The faults of a call that was processed. All but ServerError leave it charged,
// and an identical call within the cache period is then free.
var (
	ServerError = Fault{"server error", atCounter, 0} // 500 with the documented JSON: charged and refunded
	GatewayPage = Fault{"gateway page", atCounter, 0} // 502 with a gateway's HTML page
	HTMLPage    = Fault{"html page", atCounter, 0}    // 200 with text/html
	Garbage     = Fault{"garbage", atCounter, 0}      // 200 with application/json that is not JSON
	DropAnswer  = Fault{"drop answer", atCounter, 0}  // the connection ends before the status line
	CutBody     = Fault{"cut body", atCounter, 0}     // the connection ends in the middle of the body
	Stall       = Fault{"stall", atCounter, 0}        // the body stops in the middle; the connection stays
)

// Slow lets a good answer take d longer than the others.
func Slow(d time.Duration) Fault { return Fault{"slow", atCounter, d} }

// String is the fault's name as it stands in [Call].
func (f Fault) String() string { return f.name }

// script holds the faults still to come, in order, by operation ("" = any).
type script struct {
	mu    sync.Mutex
	queue map[outlier.Operation][]Fault
}

// FailNext lets the next call of op go wrong; op "" means a call of any
// operation. Faults of one operation strike in the order of the calls of FailNext,
// and before those of any operation.
func (s *Service) FailNext(op outlier.Operation, f Fault) {
	s.script.mu.Lock()
	defer s.script.mu.Unlock()
	s.script.queue[op] = append(s.script.queue[op], f)
}

// next takes the fault that strikes a call of op at this stage; the zero Fault if none does.
func (s *script) next(op outlier.Operation, at stage) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range []outlier.Operation{op, ""} {
		if q := s.queue[key]; len(q) > 0 {
			if q[0].stage != at {
				return Fault{}
			}
			s.queue[key] = q[1:]
			return q[0]
		}
	}
	return Fault{}
}
