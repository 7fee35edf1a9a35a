package outlier

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
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

func newTransport(t *testing.T) *http.Transport {
	t.Helper()
	transport, err := NewTransport("")
	if err != nil {
		t.Fatal(err)
	}
	return transport
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

// A connection may end at any moment. Whatever the server does, it reads a request at most once
// for each attempt, and each attempt is booked correctly.
func TestRequestIsReadOncePerAttempt(t *testing.T) {
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
