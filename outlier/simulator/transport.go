package simulator

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"syscall"
	"time"
)

// Transport is the service without a network. It behaves like an http.Transport without
// keep-alive: it calls the hooks of httptrace, honours the request's context, and returns
// faults as the errors of a real connection. It works inside a synctest bubble.
func (s *Service) Transport() http.RoundTripper { return transport{s} }

type transport struct{ service *Service }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	ctx := r.Context()
	if err := t.callHooks(r); err != nil {
		return nil, err
	}
	out := t.service.answerCall(r)
	if err := t.service.waitLatency(ctx, out.delay); err != nil {
		return nil, err
	}
	switch out.ending {
	case reset:
		return nil, netError("read", "read", syscall.ECONNRESET)
	case closed:
		return nil, io.EOF
	}
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotFirstResponseByte != nil {
		trace.GotFirstResponseByte()
	}
	return &http.Response{
		Status: fmt.Sprint(out.status, " ", http.StatusText(out.status)), StatusCode: out.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: out.header.Clone(), ContentLength: int64(len(out.body)), Body: out.reader(ctx), Request: r,
	}, nil
}

// callHooks calls the hooks up to WroteRequest. A client may still cancel its context in
// GotConn: then nothing is sent.
func (t transport) callHooks(r *http.Request) error {
	ctx := r.Context()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(r.URL.Host)
	}
	op, _ := routeOf(r.URL.Path)
	if f := t.service.faults.nextFault(op, beforeConnection, beforeConnection); f == Unreachable {
		return netError("dial", "connect", syscall.ECONNREFUSED)
	}
	if trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if trace != nil && trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{})
	}
	return nil
}

// netError is an error as package net makes it.
func netError(op, call string, err syscall.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(call, err)}
}

// waitLatency waits for the latency of an answer, plus d.
func (s *Service) waitLatency(ctx context.Context, d time.Duration) error {
	if s.options.Latency != nil {
		d += s.options.Latency()
	}
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reader is the body as it arrives.
func (r *reply) reader(ctx context.Context) io.ReadCloser {
	switch r.ending {
	case cut:
		return io.NopCloser(io.MultiReader(bytes.NewReader(r.firstHalf()), brokenReader{}))
	case stalled:
		return &stalledBody{ctx: ctx, rest: bytes.NewReader(r.firstHalf()), closed: make(chan struct{})}
	}
	return io.NopCloser(bytes.NewReader(r.body))
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// stalledBody returns its rest, and then blocks until the context or the body is closed.
type stalledBody struct {
	ctx    context.Context
	rest   *bytes.Reader
	once   sync.Once
	closed chan struct{}
}

func (b *stalledBody) Read(p []byte) (int, error) {
	if b.rest.Len() > 0 {
		return b.rest.Read(p)
	}
	select {
	case <-b.ctx.Done():
		return 0, context.Cause(b.ctx)
	case <-b.closed:
		return 0, os.ErrClosed
	}
}

func (b *stalledBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

// ServeHTTP answers one request over a listener. Faults and latency are those of
// [Service.Transport].
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := s.answerCall(r)
	if err := s.waitLatency(r.Context(), out.delay); err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
	switch out.ending {
	case reset:
		resetConnection(w)
		return
	case closed:
		panic(http.ErrAbortHandler)
	}
	for name, values := range out.header {
		w.Header()[name] = values
	}
	w.WriteHeader(out.status)
	if out.ending == whole {
		w.Write(out.body) // an error means that the client is gone
		return
	}
	w.Write(out.firstHalf())
	http.NewResponseController(w).Flush()
	if out.ending == stalled {
		<-r.Context().Done()
	}
	panic(http.ErrAbortHandler)
}

// resetConnection resets the connection without an answer.
func resetConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil { // HTTP/2, or a recorder
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0) // sends RST in place of FIN
	}
	conn.Close()
}
