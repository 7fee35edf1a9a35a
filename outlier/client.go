package outlier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// StopGrace is how long a request that was sent may continue after its context has ended. Its answer may
// be charged, so a stop waits that long for it.
const StopGrace = 20 * time.Second

const defaultTimeout = 60 * time.Second

// Client is the only code that sends requests to the service. Its fields are set before the first call;
// after that, several goroutines may use it concurrently.
type Client struct {
	URL       string            // as accepted by [CheckURL]
	Key       Key               // the zero Key sends no Authorization
	Arrays    Arrays            // encoding of lists in a query string; "" means ArraysRepeat
	Pacer     Pacer             // nil: no rate limit
	Transport http.RoundTripper // nil: that of [NewTransport]
	UserAgent string            // "" means "outlierd"
	Timeout   time.Duration     // from connecting to the last byte; 0 means 60 s
	Forgotten Mention           // matches ids that must be neither requested nor stored; nil for none

	// Pseudonym returns what is stored in place of the id of a comment's author; "" stores nothing. If it
	// is nil, all data about authors is stored.
	Pseudonym func(id string) string
}

// Do sends r once, never a second time, and reports reservation and outcome to m. The package comment
// describes the steps.
//
// The Answer is nil only if r was never reserved: the context ended while waiting, r names a forgotten id,
// or m refused; the error then wraps m's reason. Otherwise it is the answer that was settled, and the error is its Err,
// joined with an [*UnkeptError] if Settle failed.
//
// If ctx ends before the request was sent, nothing is sent. A request that was sent has [StopGrace] to
// finish.
//
// A RoundTripper other than [http.Transport] must call GotConn of [httptrace.ClientTrace] before it sends
// anything, and then honour the request's context.
func (c *Client) Do(ctx context.Context, r *Request, m Meter) (a *Answer, err error) {
	if r.mentionsForgotten(c.Forgotten) {
		return nil, fmt.Errorf("%s: it names an id that was erased with 'outlierd forget', so it is not sent; "+
			"remove the id from the job", r.name())
	}
	pacer := cmp.Or[Pacer](c.Pacer, unpaced{})
	begun := time.Now()
	if err := pacer.Wait(ctx, r); err != nil {
		return nil, fmt.Errorf("%s: %w", r.name(), err)
	}
	waited := time.Since(begun)
	attempt, err := m.Reserve(ctx, r)
	if err != nil {
		pacer.Unsent(r)
		return nil, fmt.Errorf("%s: %w", r.name(), err)
	}

	// From here on the reservation is always settled, with this answer if the exchange panics.
	a = &Answer{Request: r, Waited: waited, Err: &Error{Kind: Lost, Op: r.op, Entity: r.entity, Message: "the call ended without an answer"}}
	outcome := Unknown
	defer func() {
		a.ReceivedAt = time.Now()
		if a.SentAt.IsZero() {
			outcome = Refunded
			pacer.Unsent(r)
		} else {
			pacer.Observe(a)
		}
		err = a.Err
		if failed := attempt.Settle(a, outcome); failed != nil {
			err = errors.Join(err, &UnkeptError{Request: r, Outcome: outcome, Cause: failed})
		}
	}()
	outcome = c.exchangeOnce(ctx, a, attempt)
	return a, nil
}

// exchangeOnce sends the request of a and completes a with the result.
func (c *Client) exchangeOnce(ctx context.Context, a *Answer, attempt Attempt) Outcome {
	x, done := newExchange(ctx, a, attempt, cmp.Or(c.Timeout, defaultTimeout))
	defer done()
	outcome, wrong := x.sendAttempt(c)
	a.Err = nil
	if wrong != nil {
		wrong.Op, wrong.Entity, wrong.Status = a.Request.op, a.Request.entity, a.Status
		wrong.redactKey(c.Key)
		a.Err = wrong
	}
	return outcome
}

// newHTTPRequest returns the HTTP request. It sets Accept-Encoding itself, so that the transport does not
// decompress the body.
func (c *Client) newHTTPRequest(ctx context.Context, r *Request) (*http.Request, error) {
	u, err := parseURL(strings.TrimRight(c.URL, "/") + r.path)
	if err != nil {
		return nil, err
	}
	header := http.Header{
		"Accept":          {"application/json"},
		"Accept-Encoding": {"gzip"},
		"User-Agent":      {cmp.Or(c.UserAgent, "outlierd")},
	}
	if !c.Key.IsZero() {
		header.Set("Authorization", c.Key.authorization())
	}
	req := &http.Request{
		Method: r.op.Method(), URL: u, Host: u.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if err := c.Arrays.putParams(r, req); err != nil {
		return nil, err
	}
	return req.WithContext(ctx), nil
}

func (c *Client) transport() (http.RoundTripper, error) {
	if c.Transport != nil {
		return c.Transport, nil
	}
	return NewTransport("")
}

// name returns the name of r in errors: "transcript dQw4w9WgXcQ".
func (r *Request) name() string {
	return strings.TrimSpace(string(r.op) + " " + r.entity)
}

// unpaced is a Pacer without a limit.
type unpaced struct{}

func (unpaced) Wait(context.Context, *Request) error { return nil }
func (unpaced) Observe(*Answer)                      {}
func (unpaced) Unsent(*Request)                      {}

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
