package outlier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// books is a meter and a pacer that record their calls.
type books struct {
	lines   []string
	refusal error // what Reserve says
	veto    error // what Sending says
	failure error // what Settle says

	settled *Answer
	outcome Outcome
}

func (b *books) note(format string, a ...any) { b.lines = append(b.lines, fmt.Sprintf(format, a...)) }

func (b *books) Reserve(_ context.Context, r *Request) (Attempt, error) {
	b.note("reserve %d", r.price)
	return b, b.refusal
}

func (b *books) Sending() error {
	b.note("sending")
	return b.veto
}

func (b *books) Settle(a *Answer, o Outcome) error {
	b.note("settle %s", o)
	b.settled, b.outcome = a, o
	return b.failure
}

// pacer is books as a pacer: its Wait takes a minute.
type pacer struct{ *books }

func (p pacer) Wait(ctx context.Context, _ *Request) error {
	select {
	case <-time.After(time.Minute):
		p.note("wait")
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p pacer) Observe(a *Answer) { p.note("observe %d", a.Status) }
func (p pacer) Unsent(*Request)   { p.note("unsent") }

// wire is a transport without a network. Connect is to be called before it sends.
type wire func(req *http.Request, connect func() error) (*http.Response, error)

func (w wire) RoundTrip(req *http.Request) (*http.Response, error) {
	return w(req, func() error {
		httptrace.ContextClientTrace(req.Context()).GotConn(httptrace.GotConnInfo{})
		return context.Cause(req.Context())
	})
}

// answering is a wire with the same answer to every request. Header lines have the form "Name: value".
func answering(status int, body string, header ...string) wire {
	return func(_ *http.Request, connect func() error) (*http.Response, error) {
		if err := connect(); err != nil {
			return nil, err
		}
		return response(status, strings.NewReader(body), header...), nil
	}
}

func response(status int, body io.Reader, header ...string) *http.Response {
	h := http.Header{}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(body), ContentLength: -1}
}

// trickle yields its parts with a pause before each, until the request is cancelled.
type trickle struct {
	ctx   context.Context
	pause time.Duration
	parts []string
}

func (r *trickle) Read(p []byte) (int, error) {
	if len(r.parts) == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(r.pause):
	case <-r.ctx.Done():
		return 0, context.Cause(r.ctx)
	}
	n := copy(p, r.parts[0])
	r.parts = r.parts[1:]
	return n, nil
}

func search(t *testing.T) *Request {
	t.Helper()
	return ask(t, OpSearch, at(url.Values{"query": {"a b", "c"}}, 0, 40))
}

func scan(t *testing.T) *Request {
	t.Helper()
	return ask(t, OpStartScan, url.Values{"query": {"a b", "ü&"}, "mode": {ModeStandard}})
}

func secret(t *testing.T) Key {
	t.Helper()
	k, err := NewKey("sk-canary")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// kindOf is the kind of err, "" if it is nil and "other" if it is no *Error.
func kindOf(err error) Kind {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return "other"
}

// Do waits for the pacer, reserves, connects, marks the call as sending, sends it and settles it, in this
// order.
func TestDoKeepsCallOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &books{}
		c := Client{URL: "https://api.test/v1/", Key: secret(t), Pacer: pacer{b}, Transport: wire(func(req *http.Request, connect func() error) (*http.Response, error) {
			b.note("connect")
			if err := connect(); err != nil {
				return nil, err
			}
			b.note("%s %s [%s] [%s]", req.Method, req.URL, req.Header.Get("Authorization"), req.Header.Get("Accept-Encoding"))
			return response(200, strings.NewReader(`{"hits":[]}`), "Date: Sat, 21 Nov 2026 10:00:00 GMT", "Set-Cookie: a=b"), nil
		})}
		a, err := c.Do(t.Context(), search(t), b)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"wait", "reserve 2", "connect", "sending",
			"GET https://api.test/v1/search/outliers?from=0&query=a+b&query=c&size=40 [Api-Key sk-canary] [gzip]",
			"observe 200", "settle charged",
		}
		if diff := cmp.Diff(want, b.lines); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if a != b.settled || string(a.Body) != `{"hits":[]}` || a.Waited != time.Minute || a.SentAt.IsZero() || a.ReceivedAt.Before(a.SentAt) {
			t.Errorf("answer is %+v", a)
		}
		if a.Header.Get("Set-Cookie") != "" || !a.Date().Equal(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)) {
			t.Errorf("header is %v, read as %v", a.Header, a.Date())
		}
	})
}

func TestDoWithoutKeySendsNoAuthorization(t *testing.T) {
	c := Client{URL: "http://localhost", Transport: wire(func(req *http.Request, connect func() error) (*http.Response, error) {
		if v, ok := req.Header["Authorization"]; ok {
			t.Errorf("sent %q", v)
		}
		return answering(200, `{}`)(req, connect)
	})}
	if _, err := c.Do(t.Context(), search(t), &books{}); err != nil {
		t.Error(err)
	}
}

// Do sends nothing if it is stopped before, or if the meter refuses the call or cannot mark it as sending.
func TestDoSendsOnlyAllowedCalls(t *testing.T) {
	over := errors.New("budget: 2 of 2 credits spent")
	stop := errors.New("stopping")
	for name, tt := range map[string]struct {
		books  books
		within time.Duration // until the context ends
		want   []string
		err    error
	}{
		"stopped while waiting":  {within: time.Second, err: stop},
		"refused by the meter":   {books: books{refusal: over}, within: time.Hour, want: []string{"wait", "reserve 2", "unsent"}, err: over},
		"marking as sent failed": {books: books{veto: over}, within: time.Hour, want: []string{"wait", "reserve 2", "sending", "unsent", "settle refunded"}, err: over},
		"stopped in connecting":  {within: 90 * time.Second, want: []string{"wait", "reserve 2", "unsent", "settle refunded"}, err: stop},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), tt.within, stop)
				defer cancel()
				b := &tt.books
				c := Client{URL: "https://api.test", Pacer: pacer{b}, Transport: wire(func(req *http.Request, connect func() error) (*http.Response, error) {
					select {
					case <-time.After(40 * time.Second):
					case <-req.Context().Done():
						return nil, req.Context().Err()
					}
					if err := connect(); err != nil {
						return nil, err
					}
					b.note("sent")
					return nil, io.EOF
				})}
				a, err := c.Do(ctx, search(t), b)
				if !errors.Is(err, tt.err) {
					t.Errorf("error is %v, want %v", err, tt.err)
				}
				if diff := cmp.Diff(tt.want, b.lines); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if a != nil && (!a.SentAt.IsZero() || kindOf(err) != Unsent) {
					t.Errorf("sent at %v, kind %s", a.SentAt, kindOf(err))
				}
			})
		})
	}
}

// Do closes the connection of a call that must not be sent, because the transport writes from a goroutine of
// its own, which may not have noticed a cancellation yet.
func TestDoClosesConnectionOfUnsentCall(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	b := &books{veto: errors.New("disk full")}
	c := Client{URL: "https://api.test", Transport: wire(func(req *http.Request, _ func() error) (*http.Response, error) {
		httptrace.ContextClientTrace(req.Context()).GotConn(httptrace.GotConnInfo{Conn: ours})
		_, err := io.WriteString(ours, "GET / HTTP/1.1\r\n")
		return nil, err
	})}
	go io.Copy(io.Discard, theirs) // it ends with the pipe
	if _, err := c.Do(t.Context(), search(t), b); !errors.Is(err, b.veto) || b.outcome != Refunded {
		t.Errorf("settled %s, error %v", b.outcome, err)
	}
	if _, err := ours.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the connection is still open: %v", err)
	}
}

// Do keeps the part of an answer that arrived before the connection broke.
func TestDoKeepsPartialAnswer(t *testing.T) {
	b := &books{}
	c := Client{URL: "https://api.test", Transport: wire(func(_ *http.Request, connect func() error) (*http.Response, error) {
		return response(200, io.MultiReader(strings.NewReader(`{"hits":`), broken{})), connect()
	})}
	a, err := c.Do(t.Context(), search(t), b)
	if got, want := fmt.Sprint(err), "search: HTTP 200: the answer broke off after 8 bytes: connection reset by peer"; got != want {
		t.Errorf("error is %q, want %q", got, want)
	}
	if string(a.Body) != `{"hits":` || a.Status != 200 {
		t.Errorf("kept %d, %q", a.Status, a.Body)
	}
}

// Do ends an answer at the timeout although more of it keeps arriving.
func TestDoEndsSlowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &books{}
		begun := time.Now()
		c := Client{URL: "https://api.test", Timeout: 9500 * time.Millisecond, Transport: wire(func(req *http.Request, connect func() error) (*http.Response, error) {
			return response(200, &trickle{req.Context(), time.Second, strings.Split(strings.Repeat("{", 100), "")}), connect()
		})}
		a, err := c.Do(t.Context(), search(t), b)
		if got, want := fmt.Sprint(err), "search: HTTP 200: the answer broke off after 9 bytes: no complete answer within 9.5s: context deadline exceeded"; got != want {
			t.Errorf("error is %q, want %q", got, want)
		}
		if took := time.Since(begun); took != 9500*time.Millisecond || b.outcome != Unknown || len(a.Body) != 9 {
			t.Errorf("took %v, settled %s, kept %q", took, b.outcome, a.Body)
		}
	})
}

// When Do is stopped, a call that was sent has a grace period for its answer.
func TestStoppedDoAwaitsSentCall(t *testing.T) {
	stop := errors.New("stopping")
	for name, tt := range map[string]struct {
		parts   int // one a second, after the stop at once
		took    time.Duration
		outcome Outcome
		err     error
	}{
		"answer in time": {19, 20 * time.Second, Charged, nil},
		"too late":       {200, StopGrace, Unknown, stop},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				b := &books{}
				begun := time.Now()
				c := Client{URL: "https://api.test", Transport: wire(func(req *http.Request, connect func() error) (*http.Response, error) {
					if err := connect(); err != nil {
						return nil, err
					}
					cancel(stop)
					parts := append(strings.Split(strings.Repeat(" ", tt.parts), ""), "{}")
					return response(200, &trickle{req.Context(), time.Second, parts}), nil
				})}
				a, err := c.Do(ctx, search(t), b)
				if took := time.Since(begun); took != tt.took || b.outcome != tt.outcome || !errors.Is(err, tt.err) {
					t.Errorf("took %v, settled %s, error %v", took, b.outcome, err)
				}
				if len(a.Body) == 0 {
					t.Error("nothing of the answer was kept")
				}
			})
		})
	}
}

func TestDoSettlesACallThatPanics(t *testing.T) {
	for name, tt := range map[string]struct {
		connects bool
		want     []string
	}{
		"before sending": {false, []string{"reserve 2", "settle refunded"}},
		"after sending":  {true, []string{"reserve 2", "sending", "settle unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := &books{}
			c := Client{URL: "https://api.test", Transport: wire(func(_ *http.Request, connect func() error) (*http.Response, error) {
				if tt.connects {
					_ = connect()
				}
				panic("bug")
			})}
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic was swallowed")
					}
				}()
				_, _ = c.Do(t.Context(), search(t), b)
			}()
			if diff := cmp.Diff(tt.want, b.lines); diff != "" || b.settled.Err == nil {
				t.Errorf("settled with error %v; (-want +got):\n%s", b.settled.Err, diff)
			}
		})
	}
}

func TestDoReportsBookkeepingErrors(t *testing.T) {
	full := errors.New("disk full")
	b := &books{failure: full}
	a, err := (&Client{URL: "https://api.test", Transport: answering(200, `{}`)}).Do(t.Context(), search(t), b)
	if !errors.Is(err, full) || a == nil || a.Err != nil {
		t.Errorf("answer %+v, error %v", a, err)
	}
	if unkept, ok := errors.AsType[*UnkeptError](err); !ok || unkept.Outcome != Charged {
		t.Errorf("error %#v, want an *UnkeptError of an answer that was charged", err)
	}
	if got, want := fmt.Sprint(err), "search: settle as charged: disk full"; got != want {
		t.Errorf("error is %q, want %q", got, want)
	}
}

func TestDoErrorsHideKey(t *testing.T) {
	for name, w := range map[string]wire{
		"echoed in a message": answering(401, `{"status":"error","error":{"message":"unknown key sk-canary"}}`),
		"echoed in a field":   answering(400, `{"error":{"errors":[{"path":["sk-canary"],"code":"sk-canary","message":"sk-canary"}]}}`),
		"echoed in a failure": func(_ *http.Request, connect func() error) (*http.Response, error) {
			return nil, cmpOr(connect(), errors.New(`malformed response "Api-Key sk-canary"`))
		},
	} {
		_, err := (&Client{URL: "https://api.test", Key: secret(t), Transport: w}).Do(t.Context(), search(t), &books{})
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err.(*Error).LogValue()), "sk-canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Do sends nothing if the address of the service is invalid.
func TestDoRefusesInvalidAddress(t *testing.T) {
	b := &books{}
	_, err := (&Client{URL: "https://user:hunter2@%zz", Transport: answering(200, `{}`)}).Do(t.Context(), search(t), b)
	if kindOf(err) != Unsent || b.outcome != Refunded || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("settled %s, error %v", b.outcome, err)
	}
}
