package outlier

import "context"

// Meter keeps the books of a [Client]: it is asked before a request may leave and
// told afterwards what became of it. Package state implements it durably.
type Meter interface {
	// Reserve sets r's price aside, durably if r is paid, or refuses with the
	// reason, in which case nothing is sent.
	Reserve(ctx context.Context, r *Request) (Attempt, error)
}

// Attempt is one reservation. Either Settle is called exactly once, or the
// process died; a reservation that Sending never marked is then provably unsent.
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
	// Wait blocks until r may leave and counts it as sent. Every nil return is
	// followed by one call of Observe or of Unsent.
	Wait(ctx context.Context, r *Request) error

	// Observe learns from what the service said about its limits.
	Observe(a *Answer)

	// Unsent gives the slot of a request that never left back.
	Unsent(r *Request)
}
