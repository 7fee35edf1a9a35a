package outlier

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// about requests the details of the nth video, so that all requests differ.
func about(t *testing.T, op Operation, n int) *Request {
	t.Helper()
	r, err := DataRequest(op, fmt.Sprintf("v%010d", n))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newTransport(t *testing.T) *Transport {
	t.Helper()
	transport, err := NewTransport(TransportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.kept.CloseIdleConnections)
	transport.keepAfter = 0
	return transport
}

func TestFreeCallsShareAConnectionAndPaidOnesHaveTheirOwn(t *testing.T) {
	for name, start := range map[string]func(*httptest.Server){"http": (*httptest.Server).Start, "https": (*httptest.Server).StartTLS} {
		t.Run(name, func(t *testing.T) {
			var connections atomic.Int32
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if paid := r.URL.Path == "/search/outliers"; r.Close != paid || r.ContentLength != 0 || r.TransferEncoding != nil {
					t.Errorf("%s: close=%v, length %d, %v", r.URL.Path, r.Close, r.ContentLength, r.TransferEncoding)
				}
				fmt.Fprint(w, `{"hits":[]}`)
			}))
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					connections.Add(1)
				}
			}
			start(s)
			defer s.Close()
			transport := newTransport(t)
			if s.TLS != nil {
				transport.kept.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
				transport.fresh.TLSClientConfig = transport.kept.TLSClientConfig
			}
			c := &Client{URL: s.URL, Transport: transport}
			for n, want := range []struct {
				r           *Request
				connections int32
			}{
				{about(t, OpDetails, 1), 1}, {about(t, OpComments, 1), 1}, {search(t), 2}, {about(t, OpTranscript, 1), 2},
				{search(t), 3}, {search(t), 4}, {about(t, OpDetails, 2), 4},
			} {
				if _, err := c.Do(t.Context(), want.r, &books{}); err != nil {
					t.Fatal(err)
				}
				if got := connections.Load(); got != want.connections {
					t.Errorf("call %d, %s: %d connections so far, want %d", n, want.r.op, got, want.connections)
				}
			}
		})
	}
}

// A server that does not support kept connections costs one failed call.
func TestFailedCallSuspendsSharedConnections(t *testing.T) {
	var connections atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := connections.Load(); n == 1 && !strings.HasSuffix(r.URL.Path, "1") {
			panic(http.ErrAbortHandler) // the second request of the first connection
		}
		fmt.Fprint(w, `{"items":[]}`)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	transport := newTransport(t)
	transport.keepAfter = time.Hour
	c := &Client{URL: s.URL, Transport: transport}
	for n := range 5 {
		_, err := c.Do(t.Context(), about(t, OpDetails, n+1), &books{})
		if failed := n == 1; failed != (kindOf(err) == Lost) {
			t.Errorf("call %d: %v", n, err)
		}
	}
	if got := connections.Load(); got != 4 {
		t.Errorf("%d connections, want one for the first two calls and one for each after them", got)
	}
	transport.failed.Store(time.Now().Add(-2 * time.Hour).UnixNano())
	for n := range 3 {
		if _, err := c.Do(t.Context(), about(t, OpDetails, n+11), &books{}); err != nil {
			t.Errorf("an hour later, call %d: %v", n, err)
		}
	}
	if got := connections.Load(); got != 5 {
		t.Errorf("%d connections an hour later, want one more", got)
	}
}

// A wilful server treats each request at random, and counts the requests that it has read.
type wilful struct {
	net.Listener
	serving sync.WaitGroup

	mu     sync.Mutex
	chance *rand.Rand
	read   map[string]int // requests, by path
}

// What a wilful server does with a request.
const (
	answers    = iota // and goes on
	thenCloses        // as a server does that has had enough requests on a connection, and does not say so
	thenResets
	closesUnanswered
	closesInTheHeader
	closesInTheBody
	ways
)

func newWilful(t *testing.T, seed uint64) *wilful {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &wilful{Listener: listener, chance: rand.New(rand.NewPCG(seed, 1)), read: map[string]int{}}
	s.serving.Go(func() {
		for {
			conn, err := s.Accept()
			if err != nil {
				return
			}
			s.serving.Go(func() { s.serve(conn.(*net.TCPConn)) })
		}
	})
	return s
}

func (s *wilful) serve(conn *net.TCPConn) {
	defer conn.Close()
	for from := bufio.NewReader(conn); ; {
		r, err := http.ReadRequest(from)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.read[r.URL.Path]++
		way := s.chance.IntN(ways)
		s.mu.Unlock()
		answer := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"items\":[]}"
		switch way {
		case closesUnanswered:
			answer = ""
		case closesInTheHeader:
			answer = answer[:40]
		case closesInTheBody:
			answer = answer[:len(answer)-5]
		}
		_, _ = io.WriteString(conn, answer) // a client that is gone is no concern of the server
		if way == thenResets {
			_ = conn.SetLinger(0)
		}
		if way != answers {
			return
		}
	}
}

// A kept connection may end at any moment. Whatever the server does, it reads a request at most once
// for each attempt, and each attempt is booked correctly.
func TestNoRequestIsReadMoreOftenThanItWasAttempted(t *testing.T) {
	for seed := range uint64(20) {
		s := newWilful(t, seed)
		c := &Client{URL: "http://" + s.Addr().String(), Transport: newTransport(t)}
		booked := map[string]Outcome{}
		for n := range 50 {
			r, b := about(t, OpDetails, n), &books{}
			_, err := c.Do(t.Context(), r, b)
			if booked[r.path] = b.outcome; b.outcome == Charged != (err == nil) {
				t.Fatalf("seed %d: settled %s, error %v", seed, b.outcome, err)
			}
		}
		c.Transport.(*Transport).kept.CloseIdleConnections()
		s.Close()
		s.serving.Wait()
		outcomes := map[Outcome]int{}
		for _, path := range slices.Sorted(maps.Keys(booked)) {
			outcome, read := booked[path], s.read[path]
			outcomes[outcome]++
			if read > 1 || outcome == Charged && read != 1 || outcome == Refunded && read != 0 {
				t.Errorf("seed %d: %s was booked as %s, and read %d times", seed, path, outcome, read)
			}
		}
		if outcomes[Charged] == 0 || outcomes[Unknown] == 0 {
			t.Errorf("seed %d: all ended as %v", seed, outcomes)
		}
	}
}

// deaf accepts no more bytes once it is set, like a connection that was reset.
type deaf struct {
	net.Conn
	now atomic.Bool
}

func (d *deaf) Write(b []byte) (int, error) {
	if d.now.Load() {
		return 0, errors.New("connection reset by peer")
	}
	return d.Conn.Write(b)
}

// atOnce is a pacer that never waits, and records its calls.
type atOnce struct{ pacer }

func (atOnce) Wait(context.Context, *Request) error { return nil }

func TestACallOnAStaleConnectionWasNotSent(t *testing.T) {
	var read atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		read.Add(1)
		fmt.Fprint(w, `{"items":[]}`)
	}))
	defer s.Close()
	transport := newTransport(t)
	var last *deaf
	transport.kept.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialCounting(ctx, network, address)
		if err != nil {
			return nil, err
		}
		last = &deaf{Conn: conn.(*counted).Conn}
		return &counted{Conn: last}, nil
	}
	b := &books{}
	c := &Client{URL: s.URL, Transport: transport, Pacer: atOnce{pacer{b}}}
	for n := range 3 {
		a, err := c.Do(t.Context(), about(t, OpDetails, n), b)
		if stale := n == 1; stale != (kindOf(err) == Unsent) || stale != a.SentAt.IsZero() {
			t.Errorf("call %d: sent at %v, error %v", n, a.SentAt, err)
		}
		last.now.Store(n == 0)
	}
	want := []string{
		"reserve 0", "sending", "observe 200", "settle charged",
		"reserve 0", "sending", "unsent", "settle refunded",
		"reserve 0", "sending", "observe 200", "settle charged",
	}
	if diff := cmp.Diff(want, b.lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := read.Load(); got != 2 {
		t.Errorf("the server read %d requests, want 2", got)
	}
}
