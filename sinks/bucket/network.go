package bucket

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	attempts = 3                // of each request, by the libraries
	patience = 20 * time.Second // without a byte, after which the store is given up
)

// network is a transport that fails once nothing has moved for a while, however long a whole
// request takes.
func network(patience time.Duration) http.RoundTripper {
	dialer := &net.Dialer{Timeout: patience}
	return &mortal{transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return watched{conn, patience}, nil
		},
		MaxIdleConnsPerHost: atOnce, IdleConnTimeout: patience / 2, TLSHandshakeTimeout: patience,
	}}
}

// mortal is a transport that sends nothing more after a time-out. The library would repeat the
// request, and who waits for the copy would wait again; the sink is tried again later.
type mortal struct {
	transport http.RoundTripper
	ended     atomic.Bool
}

var errSilent = silent{}

type silent struct{}

func (silent) Error() string { return "the store does not answer" }

// NonRetriable tells the library for Azure not to wait before it gives up; that for S3 does not.
func (silent) NonRetriable() {}

// RoundTrip implements [http.RoundTripper].
func (m *mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.ended.Load() {
		return nil, errSilent
	}
	answer, err := m.transport.RoundTrip(r)
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() && r.Context().Err() == nil {
		m.ended.Store(true)
	}
	return answer, err
}

// watched is a connection that has to move.
type watched struct {
	net.Conn
	patience time.Duration
}

// Read implements [net.Conn].
func (w watched) Read(into []byte) (int, error) { return w.move(w.Conn.Read, into) }

// Write implements [net.Conn]. It also gives a read more time that waits for the answer.
func (w watched) Write(some []byte) (int, error) { return w.move(w.Conn.Write, some) }

func (w watched) move(do func([]byte) (int, error), some []byte) (int, error) {
	if err := w.Conn.SetDeadline(time.Now().Add(w.patience)); err != nil {
		return 0, err
	}
	return do(some)
}
