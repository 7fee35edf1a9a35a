package outlier

import (
	"context"
	"time"
)

// Meter records the spending of a [Client]. Package state implements it durably.
type Meter interface {
	// Reserve reserves r's price, durably if r is paid. If it returns an error, nothing is sent.
	Reserve(ctx context.Context, r *Request) (Attempt, error)
}

// Attempt is one reservation. Settle is called exactly once, unless the process is killed; a reservation
// without Sending is then provably unsent.
type Attempt interface {
	// Sending marks the attempt as sent. For a paid request the mark is durable
	// before Sending returns nil; after an error nothing may be sent.
	Sending() error

	// Settle commits the answer together with its outcome. It does not honour
	// cancellation: what was paid for is kept.
	Settle(a *Answer, o Outcome) error
}

// Pacer decides when the next request may leave. Package pace implements it.
type Pacer interface {
	// Wait blocks until r may be sent, and counts it as sent. Each nil return is followed by one call of
	// Observe or Unsent.
	Wait(ctx context.Context, r *Request) error

	// Observe learns from what an answer says about the service's limits.
	Observe(a *Answer)

	// Unsent returns the slot of a request that was not sent.
	Unsent(r *Request)
}

// Tries are the attempts at a call that have failed and are made again, before the call as a whole has failed.
type Tries struct {
	Failures  int       `json:"failures,omitzero"`   // the service failed, or nothing proves what became of the attempt
	Refusals  int       `json:"refusals,omitzero"`   // for the rate limit, or a key that has changed
	NotBefore time.Time `json:"not_before,omitzero"` // when the next one may be made
}
