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

// StopGrace is how long a call that was already sent may go on after its context
// has ended. Its answer may have been paid for, so a stop waits that long for it.
const StopGrace = 20 * time.Second

const defaultTimeout = 60 * time.Second

// Client is the only code that talks to the service. Its fields are set before
// the first call; then it may be used by several goroutines at once.
type Client struct {
	URL       string            // as accepted by [CheckURL]
	Key       Key               // the zero Key sends no Authorization
	Arrays    Arrays            // how lists go into a query string; "" means ArraysRepeat
	Pacer     Pacer             // nil: unpaced
	Transport http.RoundTripper // nil: as of [NewTransport], with a connection for each call
	UserAgent string            // "" means "outlierd"
	Timeout   time.Duration     // from connecting to the last byte; 0 means 60 s
	Forgotten Mention           // of ids that are neither asked about nor kept; nil for none

	// Pseudonym is what is kept of the id of a comment's author, "" for nothing; nil keeps all
	// that the service tells of authors.
	Pseudonym func(id string) string
}

// Do makes one attempt to have r answered, never a second one, and keeps m's
// books. The package comment tells the way of a call.
//
// The Answer is nil only if r was never reserved: the context ended while waiting,
// r names what was forgotten ([*ForgottenError]), or m refused, whose reason the error
// wraps. Otherwise it is what was settled, and the error is its Err, joined with an
// [*UnkeptError] if the books could not be kept.
//
// When ctx ends before the request was sent, nothing is sent. A request that was
// sent is given [StopGrace] to finish.
//
// A RoundTripper other than [http.Transport] must call the GotConn of
// [httptrace.ClientTrace] before it sends anything, and then honour the request's
// context.
func (c *Client) Do(ctx context.Context, r *Request, m Meter) (a *Answer, err error) {
	if r.mentions(c.Forgotten) {
		return nil, &ForgottenError{r}
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

	// From here on the reservation is settled whatever happens: should the exchange
	// panic, the answer is as it stands here.
	a = &Answer{Request: r, Waited: waited, Err: &Error{Kind: Lost, Op: r.op, Entity: r.entity, Message: "given up"}}
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
	outcome = c.exchange(ctx, a, attempt)
	return a, nil
}

// exchange sends the request of a and completes a with what comes of it.
func (c *Client) exchange(ctx context.Context, a *Answer, attempt Attempt) Outcome {
	x, done := newExchange(ctx, a, attempt, cmp.Or(c.Timeout, defaultTimeout))
	defer done()
	outcome, wrong := x.send(c)
	a.Err = nil
	if wrong != nil {
		wrong.Op, wrong.Entity, wrong.Status = a.Request.op, a.Request.entity, a.Status
		wrong.redact(c.Key)
		a.Err = wrong
	}
	return outcome
}

// request is what goes over the wire. Accept-Encoding is set here, so that the
// transport leaves the body as it comes.
func (c *Client) request(ctx context.Context, r *Request) (*http.Request, error) {
	u, err := parse(strings.TrimRight(c.URL, "/") + r.path)
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
		Method: cmp.Or(endpoints[r.op].method, http.MethodGet), URL: u, Host: u.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if !r.Paid() && req.Method == http.MethodGet {
		req.Body = unrepeatable{}
	}
	if err := c.Arrays.put(r, req); err != nil {
		return nil, err
	}
	return req.WithContext(ctx), nil
}

func (c *Client) transport() (http.RoundTripper, error) {
	if c.Transport != nil {
		return c.Transport, nil
	}
	t, err := NewTransport(TransportOptions{})
	if err != nil {
		return nil, err
	}
	return t.fresh, nil
}

// name is how errors speak of r: "transcript dQw4w9WgXcQ".
func (r *Request) name() string {
	return strings.TrimSpace(string(r.op) + " " + r.entity)
}

// unpaced lets every request leave at once.
type unpaced struct{}

func (unpaced) Wait(context.Context, *Request) error { return nil }
func (unpaced) Observe(*Answer)                      {}
func (unpaced) Unsent(*Request)                      {}
