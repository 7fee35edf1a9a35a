package simulator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
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
	if err := t.callHooks(r); err != nil {
		return nil, err
	}
	answer, err := t.service.respond(r)
	trace := httptrace.ContextClientTrace(r.Context())
	if err == nil && trace != nil && trace.GotFirstResponseByte != nil {
		trace.GotFirstResponseByte()
	}
	return answer, err
}

// respond answers a request as it arrives at a client.
func (s *Service) respond(r *http.Request) (*http.Response, error) {
	out := s.answerCall(r)
	if err := s.waitLatency(r.Context(), out.delay); err != nil {
		return nil, err
	}
	switch out.ending {
	case reset:
		return nil, netError("read", "read", syscall.ECONNRESET)
	case closed:
		return nil, io.EOF
	}
	return &http.Response{
		Status: fmt.Sprint(out.status, " ", http.StatusText(out.status)), StatusCode: out.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: out.header.Clone(), ContentLength: int64(len(out.body)), Body: out.reader(r.Context()), Request: r,
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

// reader is the body as it arrives. Of half of one, the rest is a broken connection, or does not come until the context
// or the body is closed.
func (r *reply) reader(ctx context.Context) io.ReadCloser {
	if r.ending == whole {
		return io.NopCloser(bytes.NewReader(r.body))
	}
	rest, end := io.Pipe()
	if r.ending == cut {
		end.CloseWithError(io.ErrUnexpectedEOF)
	} else {
		context.AfterFunc(ctx, func() { end.CloseWithError(context.Cause(ctx)) })
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(r.body[:len(r.body)/2]), rest), rest}
}

// ServeHTTP answers one request over a listener as [Service.Transport] does.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := s.respond(r)
	if errors.Is(err, syscall.ECONNRESET) {
		resetConnection(w)
		return
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	if _, err := io.Copy(flushing{w}, answer.Body); err != nil { // cut, or the client is gone
		panic(http.ErrAbortHandler)
	}
}

// flushing sends each part of a body at once, as the rest may never come.
type flushing struct{ http.ResponseWriter }

func (w flushing) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	return n, errors.Join(err, http.NewResponseController(w.ResponseWriter).Flush())
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
