package outlier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"github.com/go-faster/jx"
)

// An exchange is one attempt to send a request and receive its answer.
type exchange struct {
	ctx     context.Context // ends the attempt; it outlives the caller's context, see stop
	cancel  context.CancelCauseFunc
	a       *Answer
	attempt Attempt

	mu   sync.Mutex // orders mark and stop: a request that was sent before a stop may finish
	sent bool
}

var (
	errResent   = errors.New("the transport wanted to send the request a second time")
	errTooLong  = fmt.Errorf("the answer is larger than %d MiB", maxWire>>20)
	errUntraced = errors.New("the transport did not report its connection, " +
		"so the request left before it was marked as sent")
)

// newExchange prepares an attempt; the caller must call done at its end.
func newExchange(ctx context.Context, a *Answer, attempt Attempt, timeout time.Duration) (x *exchange, done func()) {
	late := fmt.Errorf("no complete answer within %v: %w", timeout, context.DeadlineExceeded)
	timed, stopTimer := context.WithTimeoutCause(context.WithoutCancel(ctx), timeout, late)
	inner, cancel := context.WithCancelCause(timed)
	x = &exchange{cancel: cancel, a: a, attempt: attempt}
	x.ctx = httptrace.WithClientTrace(inner, &httptrace.ClientTrace{GotConn: x.gotConn})
	unwatch := context.AfterFunc(ctx, func() { x.stopSending(context.Cause(ctx)) })
	return x, func() {
		unwatch()
		cancel(nil)
		stopTimer()
	}
}

// stopSending ends the exchange because the caller's context has ended: at once if nothing was sent, otherwise
// after StopGrace.
func (x *exchange) stopSending(cause error) {
	if x.stopUnsent(cause) {
		return
	}
	grace := time.NewTimer(StopGrace)
	defer grace.Stop()
	select {
	case <-x.ctx.Done():
	case <-grace.C:
		x.cancel(cause)
	}
}

// stopUnsent cancels the exchange if it has not sent anything, and prevents that it ever does.
func (x *exchange) stopUnsent(cause error) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.sent {
		x.cancel(cause)
	}
	return !x.sent
}

// gotConn is called when there is a connection, before anything of the request is written. To prevent
// writing it closes the connection: the transport writes in another goroutine, which might be faster than
// a cancellation.
func (x *exchange) gotConn(info httptrace.GotConnInfo) {
	if err := x.markSent(); err != nil {
		x.cancel(err)
		if info.Conn != nil {
			info.Conn.Close()
		}
	}
}

// markSent marks the attempt as sent. It returns an error if the request must not be sent.
func (x *exchange) markSent() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx.Err() != nil {
		return context.Cause(x.ctx)
	}
	if x.sent {
		return errResent
	}
	if err := x.attempt.Sending(); err != nil {
		return fmt.Errorf("mark as sent: %w", err)
	}
	x.sent = true
	x.a.SentAt = time.Now()
	return nil
}

// sendAttempt makes the attempt and judges the result.
func (x *exchange) sendAttempt(c *Client) (Outcome, *Error) {
	req, err := c.newHTTPRequest(x.ctx, x.a.Request)
	if err != nil {
		return Refunded, &Error{Kind: Unsent, Cause: err}
	}
	transport, err := c.transport()
	if err != nil {
		return Refunded, &Error{Kind: Unsent, Cause: err}
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return x.judgeUnanswered(err)
	}
	defer resp.Body.Close()
	return x.receiveAnswer(resp, c)
}

// judgeUnanswered judges an attempt without a status line.
func (x *exchange) judgeUnanswered(err error) (Outcome, *Error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.sent {
		return Unknown, &Error{Kind: Lost, Message: "sent, but not answered", Cause: x.causeOf(err)}
	}
	return Refunded, &Error{Kind: Unsent, Message: "not sent", Cause: x.causeOf(err)}
}

// causeOf returns the cause of the cancellation if there is one, and otherwise err, which may only be its
// effect.
func (x *exchange) causeOf(err error) error {
	if x.ctx.Err() != nil {
		return context.Cause(x.ctx)
	}
	return err
}

// receiveAnswer reads as much of the answer as there is into x.a, removes the key and data that must not be
// stored, and judges the answer.
func (x *exchange) receiveAnswer(resp *http.Response, c *Client) (Outcome, *Error) {
	x.a.Status, x.a.Header = resp.StatusCode, resp.Header
	x.a.Header.Del("Set-Cookie")
	body, err := readBody(resp)
	x.a.Body, x.a.Encoding = body, encodingOf(resp.Header, body)
	x.a.redactKey(c.Key)
	x.a.eraseForgotten(c.Forgotten)
	x.a.hideAuthors(c.Pseudonym)
	defer x.a.dropUnreadable(c) // after it was judged by all that arrived
	switch {
	case x.a.SentAt.IsZero():
		x.a.SentAt = time.Now() // there is no proof that it was not sent
		return Unknown, &Error{Kind: Lost, Cause: errUntraced}
	case x.a.Status == http.StatusTooManyRequests:
		return judgeAnswer(x.a) // the status alone proves the refusal, even if the body is incomplete
	case errors.Is(err, errTooLong):
		return Unknown, &Error{Kind: Malformed, Cause: err}
	case err != nil && !x.a.isWhole():
		return Unknown, &Error{
			Kind: Lost, Message: fmt.Sprintf("the answer broke off after %d bytes", len(body)), Cause: x.causeOf(err),
		}
	}
	return judgeAnswer(x.a)
}

// readBody reads the whole body. On an error it returns what it has read.
func readBody(resp *http.Response) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(max(resp.ContentLength, 0), maxWire)) + bytes.MinRead)
	_, err := b.ReadFrom(io.LimitReader(resp.Body, maxWire+1))
	if b.Len() > maxWire {
		b.Truncate(maxWire)
		err = errTooLong
	}
	return b.Bytes(), err
}

// isWhole reports whether the answer is a whole JSON object, so that nothing of it is missing although the
// connection ended too early.
func (a *Answer) isWhole() bool {
	body, err := a.JSON()
	return err == nil && jx.DecodeBytes(body).Next() == jx.Object && jx.Valid(body)
}

// encodingOf returns the content encoding of a body; "" for none. What the body shows counts more than what
// the header says, which a proxy that unpacks or packs bodies may have left as it was.
func encodingOf(h http.Header, body []byte) string {
	name := strings.ToLower(strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ",")))
	switch {
	case bytes.HasPrefix(body, []byte("\x1f\x8b")):
		return "gzip"
	case name == "", name == "identity", jx.Valid(Lenient(body)):
		return ""
	case name == "x-gzip":
		return "gzip"
	}
	return name
}
