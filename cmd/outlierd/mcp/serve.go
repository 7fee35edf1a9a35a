package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxMessage is the maximum size of a message, in bytes.
const maxMessage = 1 << 20

// Serve serves one session over in and out until the client ends it, or ctx ends. What is no message ends it, too, with
// an answer: its id is unknown.
func Serve(ctx context.Context, p Program, in io.Reader, out io.Writer) error {
	ctx, end := context.WithCancelCause(ctx)
	s := newServer(ctx, p)
	defer s.turn.Lock() // what was bought is stored
	defer end(errLeft)
	err := s.sdk.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(in), Writer: nopCloser{out}, MaxLineLength: maxMessage})
	if err == nil || ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	err = fmt.Errorf("read a message of at most %d bytes: %w; the session has ended", maxMessage, err)
	_, failed := fmt.Fprintf(out, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":%q}}`+"\n", err.Error())
	return errors.Join(err, failed)
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// Limits of requests over HTTP, and of idle sessions.
const (
	headerTimeout  = 5 * time.Second
	bodyTimeout    = 20 * time.Second
	sessionTimeout = 12 * time.Hour
	stopTimeout    = time.Second
)

// ServeHTTP serves sessions over HTTP at the path /mcp, to requests with the token, until ctx ends.
func ServeHTTP(ctx context.Context, p Program, port net.Listener, token string) error {
	ctx, end := context.WithCancelCause(ctx)
	s := newServer(ctx, p)
	defer s.turn.Lock() // what was bought is stored
	defer end(errLeft)
	protocol := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.sdk },
		&sdk.StreamableHTTPOptions{SessionTimeout: sessionTimeout})
	mux := http.NewServeMux()
	mux.Handle("/mcp", http.NewCrossOriginProtection().Handler(readWhole(protocol)))
	web := &http.Server{Handler: requireToken(token, mux), ReadHeaderTimeout: headerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	stopped := make(chan error, 1)
	defer context.AfterFunc(ctx, func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err := web.Shutdown(within)
		if err != nil {
			err = web.Close() // streams of clients that wait for notifications
		}
		stopped <- err
	})()
	if err := web.Serve(port); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// requireToken refuses requests without the token.
func requireToken(token string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if got := sha256.Sum256([]byte(given)); !is || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "send the token of mcp.token: Authorization: Bearer TOKEN", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// readWhole reads the body of a request, of limited size and within a limited time, before the protocol sees it: the answer
// may take long, and so may a client that waits for notifications.
func readWhole(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		err := control.SetReadDeadline(time.Now().Add(bodyTimeout))
		body, failed := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
		if err = errors.Join(err, failed, control.SetReadDeadline(time.Time{})); err != nil {
			http.Error(w, fmt.Sprintf("read a message of at most %d bytes: %v", maxMessage, err), http.StatusRequestEntityTooLarge)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}
