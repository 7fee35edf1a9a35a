package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"outlierd/cmd/outlierd/page"
	"outlierd/sync/job"
	"outlierd/sync/serve"
)

// # HTTP endpoints of up
//
// Health says whether a restart may help, so it depends only on the schedule's loop: a restart fixes
// neither a failed job nor an unreachable service or a full disk. Readiness says what does not work. Both
// serve probes of containers, which have no token; without one only the status is shown.

// Limits of changes with a token, or of all changes where none is needed, and of requests without one; ten times as
// many reads are answered. Probes are not limited, because the program that restarts containers would take a refusal
// for a failure.
const (
	perSecond = 10
	atOnce    = 20
)

// A Web serves the HTTP endpoints of a daemon; without Metrics it serves its pages alone. A nil one does nothing.
type Web struct {
	Daemon  job.Daemon
	Site    *page.Site           // nil if none is offered
	API     http.Handler         // the interface for other programs; nil if this process is no daemon
	Metrics http.Handler         // nil if this process is no daemon
	Stuck   func() time.Duration // see [serve.Server.Stuck]
	Check   func() Readiness

	server         *http.Server
	changes, reads *rate.Limiter // of requests with a token or a session
	unknown        *rate.Limiter // requests with neither

	checking sync.Mutex // guards the following fields
	checked  time.Time  // when the readiness was read last
	found    Readiness
}

// Listen opens the port of daemon.listen.
func Listen(ctx context.Context, d job.Daemon, log *slog.Logger) (net.Listener, error) {
	port, err := new(net.ListenConfig).Listen(ctx, "tcp", d.Listen)
	if failed, is := errors.AsType[*net.OpError](err); is {
		err = failed.Err // what wraps it repeats the address
	}
	if err != nil {
		return nil, fmt.Errorf("listen at daemon.listen %s: %w; end the program that uses the address, "+
			"or change daemon.listen", d.Listen, err)
	}
	if d.Private() {
		log.Info("listening", "address", port.Addr().String())
	} else {
		log.Warn("listening for other machines, without encryption; requests need daemon.token",
			"address", port.Addr().String())
	}
	return port, nil
}

// Serve answers requests in the background, until Close is called.
func (h *Web) Serve(port net.Listener, log *slog.Logger) {
	h.server = &http.Server{
		Handler:           h.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		if err := h.server.Serve(port); !errors.Is(err, http.ErrServerClosed) {
			log.Error("requests are not answered any more", "err", err)
		}
	}()
}

// Close waits for the requests in progress.
func (h *Web) Close() error {
	if h == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishTimeout)
	defer cancel()
	if h.server.Shutdown(ctx) == nil {
		return nil
	}
	return h.server.Close()
}

// Handler returns the handler of all requests.
func (h *Web) Handler() http.Handler {
	h.changes, h.unknown = rate.NewLimiter(perSecond, atOnce), rate.NewLimiter(perSecond, atOnce)
	h.reads = rate.NewLimiter(10*perSecond, 20*atOnce)
	mux := http.NewServeMux()
	if h.Metrics != nil { // a daemon
		mux.HandleFunc("GET /healthz", h.serveHealth)
		mux.HandleFunc("GET /readyz", h.serveReadiness)
		mux.HandleFunc("GET /metrics", h.requireScope(scopeRead, h.Metrics.ServeHTTP))
		mux.HandleFunc("GET /api/v1/", h.requireScope(scopeRead, h.API.ServeHTTP))
		mux.HandleFunc("/api/v1/", h.requireScope(scopeRun, h.API.ServeHTTP))
	}
	for pattern, page := range h.Site.Routes() {
		mux.HandleFunc(pattern, h.requireLogin(page))
	}
	for pattern, page := range h.Site.Open() {
		mux.HandleFunc(pattern, page)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page.Guard(w.Header())
		limit := h.unknown
		switch known := h.scopeOf(r) >= scopeRead || h.Site.Knows(r); {
		case known && r.Method == http.MethodGet:
			limit = h.reads
		case known:
			limit = h.changes
		}
		_, unread := url.ParseQuery(r.URL.RawQuery) // else a filter with a `;` would be dropped
		isProbe := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
		switch {
		case !isProbe && !limit.Allow():
			w.Header().Set("Retry-After", "1")
			refuse(w, r, http.StatusTooManyRequests, "too many requests; repeat this one in a second")
		case !h.isLocal(r):
			refuse(w, r, http.StatusForbidden, "use the address of daemon.listen as the host, or set daemon.token")
		case unread != nil:
			refuse(w, r, http.StatusBadRequest, unread.Error()+"; write ; as %3B and % as %25 in an address")
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// refuse answers a program with JSON, and a person with text.
func refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		serve.WriteFailure(w, serve.Refuse(status, "%s", why))
		return
	}
	http.Error(w, why, status)
}

// scope is what a request may do.
type scope int

const (
	scopeNone scope = iota
	scopeRead       // with daemon.read_token, or if the daemon has no token
	scopeRun        // with daemon.token
)

// scopeOf returns what a request may do. Programs that know only HTTP basic authentication send the token as the
// password.
func (h *Web) scopeOf(r *http.Request) scope {
	_, given, _ := r.BasicAuth()
	if kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(kind, "Bearer") {
		given = token
	}
	switch {
	case serve.IsToken(h.Daemon.Token.Reveal(), given):
		return scopeRun
	case serve.IsToken(h.Daemon.ReadToken.Reveal(), given), !h.Daemon.Guarded():
		return scopeRead
	}
	return scopeNone
}

// isLocal reports whether the host of a request without a token is this machine. A page in a browser that
// resolves its own name to this machine fails this check.
func (h *Web) isLocal(r *http.Request) bool {
	d := h.Daemon
	asked, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		asked = r.Host
	}
	host, _, _ := net.SplitHostPort(d.Listen)
	ip := net.ParseIP(strings.Trim(asked, "[]"))
	return d.Guarded() || asked == host || asked == "localhost" || ip != nil && ip.IsLoopback()
}

// serveHealth reports whether the schedule makes progress.
func (h *Web) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if still := h.Stuck(); still > 0 {
		http.Error(w, fmt.Sprintf("the schedule has been stuck for %s", job.FormatDuration(still)),
			http.StatusServiceUnavailable)
		return
	}
	io.WriteString(w, "ok\n")
}

// requireScope requires a token that allows as much.
func (h *Web) requireScope(least scope, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch has := h.scopeOf(r); {
		case has >= least:
			next(w, r)
		case has == scopeRead:
			refuse(w, r, http.StatusForbidden, "this request may only read; a change needs daemon.token of the job file, as `Authorization: Bearer TOKEN`")
		default:
			w.Header().Add("WWW-Authenticate", `Bearer realm="outlierd"`)
			w.Header().Add("WWW-Authenticate", `Basic realm="outlierd"`)
			refuse(w, r, http.StatusUnauthorized, "daemon.token or daemon.read_token is needed, as `Authorization: Bearer TOKEN` "+
				"or as the password of HTTP basic authentication")
		}
	}
}

// requireLogin requires a token or a session for a page, if a login is required.
func (h *Web) requireLogin(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if h.scopeOf(r) < scopeRead && !h.Site.Knows(r) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="outlierd"`)
			if strings.HasPrefix(r.URL.Path, "/feed/") { // pages have a login, and their browser would ask for a password first
				w.Header().Add("WWW-Authenticate", `Basic realm="outlierd"`)
			}
			h.Site.Login(w, r)
			return
		}
		next(w, r)
	}
}

// Readiness is the answer of /readyz: for each part "ok" or the problem.
type Readiness struct {
	Ready bool   `json:"ready"`
	File  string `json:"file"`  // the job file as it is now
	State string `json:"state"` // whether it can be read and written

	Sinks map[string]string `json:"sinks"`
}

// serveReadiness reports what works.
func (h *Web) serveReadiness(w http.ResponseWriter, r *http.Request) {
	found := h.recentReadiness()
	code := http.StatusOK
	if !found.Ready {
		code = http.StatusServiceUnavailable
	}
	if h.scopeOf(r) < scopeRead {
		http.Error(w, http.StatusText(code), code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(found)
}

// checkFor is how long requests share one reading of the readiness, so that probes cost nothing.
const checkFor = time.Second

// recentReadiness returns what works, at most [checkFor] ago.
func (h *Web) recentReadiness() Readiness {
	h.checking.Lock()
	defer h.checking.Unlock()
	if h.checked.IsZero() || time.Since(h.checked) >= checkFor {
		h.found, h.checked = h.Check(), time.Now()
	}
	return h.found
}

// NewReadiness returns what works, by the problems of the job file, the state and the sinks.
func NewReadiness(file, state error, sinks map[string]error) Readiness {
	found := Readiness{Ready: file == nil && state == nil, File: wordOf(file), State: wordOf(state), Sinks: map[string]string{}}
	for name, err := range sinks {
		found.Sinks[name] = wordOf(err)
		found.Ready = found.Ready && err == nil
	}
	return found
}

// wordOf returns "ok", or the problem on one line.
func wordOf(err error) string { return cmp.Or(WhyRefused(err), "ok") }
