package bucket

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"outlierd/outlier"
)

const attempts = 3 // per request, including retries by the libraries

// Patience is the idle timeout of connections.
const Patience = 20 * time.Second

// Network returns a transport with an idle timeout: a request fails if no byte was transferred for
// patience, but may take any time in total. After a timeout, all other requests fail.
func Network(patience time.Duration) http.RoundTripper {
	return &failFast{transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, OnProxyConnectResponse: outlier.ProxyRefusal, DialContext: Dial(patience),
		MaxIdleConnsPerHost: atOnce, IdleConnTimeout: patience / 2, TLSHandshakeTimeout: patience,
	}}
}

// Dial returns a function that opens connections with an idle timeout.
func Dial(patience time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: patience}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return idleTimeoutConn{conn, patience}, nil
	}
}

// failFast is a transport that fails all requests after a timeout, so that retries of the library do not
// wait for the timeout again. The sink itself is retried later, with a new transport.
type failFast struct {
	transport http.RoundTripper
	timedOut  atomic.Bool
}

var (
	errSilent  = errors.New("the server does not answer")
	errForeign = errors.New("the response is not one of an object store, so a proxy or another server may have sent it")
)

// RoundTrip implements [http.RoundTripper].
func (f *failFast) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.timedOut.Load() {
		return nil, errSilent
	}
	answer, err := f.transport.RoundTrip(r)
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() && r.Context().Err() == nil {
		f.timedOut.Store(true)
	}
	return answer, err
}

// idleTimeoutConn is a connection with an idle timeout.
type idleTimeoutConn struct {
	net.Conn
	patience time.Duration
}

// Read implements [net.Conn].
func (c idleTimeoutConn) Read(into []byte) (int, error) { return c.move(c.Conn.Read, into) }

// Write implements [net.Conn]. It also extends the deadline of a concurrent read.
func (c idleTimeoutConn) Write(some []byte) (int, error) { return c.move(c.Conn.Write, some) }

func (c idleTimeoutConn) move(do func([]byte) (int, error), some []byte) (int, error) {
	if err := c.Conn.SetDeadline(time.Now().Add(c.patience)); err != nil {
		return 0, err
	}
	return do(some)
}
