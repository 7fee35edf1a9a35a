package command

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"outlierd/cmd/outlierd/page"
	"outlierd/sync/job"
	"outlierd/sync/metrics"
	"outlierd/sync/yamltree"
)

// # HTTP endpoints of up
//
// Health says whether a restart may help, so it depends only on the schedule's loop: a restart fixes
// neither a failed job nor an unreachable service or a full disk. Readiness says what does not work. Both
// serve probes of containers, which have no token; without the token only the status is shown.

// stuckAfter is how long the schedule may make no progress. It is longer than a call, and than copying a
// large file for readers.
const stuckAfter = 10 * time.Minute

// stuckFor returns how long the schedule has made no progress: since its last heartbeat, or since the
// process began to run it.
func stuckFor(began, beat time.Time) time.Duration {
	if beat.Before(began) {
		beat = began
	}
	return time.Since(beat)
}

// Request limits: for requests with the token, or all requests where none is needed, and for requests
// without it. Probes are not limited, because the program that restarts containers would take a refusal for a failure.
const (
	perSecond = 10
	atOnce    = 20
)

// A monitor serves the HTTP endpoints of a program. A nil one does nothing.
type monitor struct {
	program *program
	config  *job.Config
	file    string // the job file
	env     func(string) (string, bool)
	began   time.Time
	metrics http.Handler // nil if this process is no daemon
	site    *page.Site   // nil if none is offered
	server  *http.Server
	known   *rate.Limiter // requests with the token or a session
	read    *rate.Limiter // those of them for pages, which share their data
	unknown *rate.Limiter // requests with neither

	looking sync.Mutex // guards the following fields
	looked  time.Time  // when the readiness was read last
	found   readiness
}

func newMonitor(p *program, file string, env func(string) (string, bool)) *monitor {
	return &monitor{
		program: p, config: p.Engine.Config, file: file, env: env, began: time.Now(),
		known: rate.NewLimiter(perSecond, atOnce), unknown: rate.NewLimiter(perSecond, atOnce),
		read: rate.NewLimiter(10*perSecond, 20*atOnce),
	}
}

// listen starts to serve at daemon.listen; it returns nil without one.
func (o *options) listen(ctx context.Context, p *program) (*monitor, error) {
	d, log := p.Engine.Config.Daemon, p.Engine.Log
	if d.Listen == "" {
		return nil, nil
	}
	port, err := new(net.ListenConfig).Listen(ctx, "tcp", d.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen at daemon.listen %s: %w; end the program that uses the address, "+
			"or change daemon.listen", d.Listen, innermost(err))
	}
	m := newMonitor(p, o.config, o.world.env)
	m.metrics, err = p.metrics.Handler(metrics.Sources{
		Store: p.Engine.Store, Pace: p.Engine.Pace, Waited: p.Engine.Waited, Beat: p.Engine.Beat, Log: log,
	})
	if err != nil {
		return nil, errors.Join(err, port.Close())
	}
	if m.site = o.site(ctx, p); m.site != nil {
		p.server.LogIn(m.site.Ticket)
	}
	if d.Private() {
		log.Info("listening", "address", port.Addr().String())
	} else {
		log.Warn("listening for other machines, without encryption; requests need daemon.token",
			"address", port.Addr().String())
	}
	m.serve(port, log)
	return m, nil
}

// serve answers requests in the background, until the monitor is closed.
func (m *monitor) serve(port net.Listener, log *slog.Logger) {
	m.server = &http.Server{
		Handler:           m.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		if err := m.server.Serve(port); !errors.Is(err, http.ErrServerClosed) {
			log.Error("requests are not answered any more", "err", err)
		}
	}()
}

// innermost returns the error of the operating system: the errors that wrap it repeat the address.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// close waits for the requests in progress.
func (m *monitor) close() error {
	if m == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishTime)
	defer cancel()
	if m.server.Shutdown(ctx) == nil {
		return nil
	}
	return m.server.Close()
}

func (m *monitor) handler() http.Handler {
	mux := http.NewServeMux()
	if m.metrics != nil { // a daemon
		mux.HandleFunc("GET /healthz", m.health)
		mux.HandleFunc("GET /readyz", m.ready)
		mux.HandleFunc("GET /metrics", m.tokened(m.metrics.ServeHTTP))
	}
	pages := map[string]bool{} // patterns of pages, with the style and the scripts that each page loads
	for pattern, page := range m.site.Routes() {
		mux.HandleFunc(pattern, m.loggedIn(page))
		pages[pattern] = strings.HasPrefix(pattern, "GET ")
	}
	for pattern, page := range m.site.Open() {
		mux.HandleFunc(pattern, page)
		pages[pattern] = strings.HasPrefix(pattern, "GET ")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page.Guard(w.Header())
		limit := m.unknown
		if m.knows(r) || m.site.Knows(r) {
			limit = m.known
			if _, pattern := mux.Handler(r); pages[pattern] {
				limit = m.read
			}
		}
		isProbe := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
		switch {
		case !isProbe && !limit.Allow():
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		case !m.named(r):
			http.Error(w, "use the address of daemon.listen as the host, or set daemon.token", http.StatusForbidden)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// knows reports whether a request has the token, if one is required.
func (m *monitor) knows(r *http.Request) bool {
	token := m.config.Daemon.Token.Reveal()
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(given)) // of equal length, whatever was sent
	return token == "" || strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// named reports whether the host of a request without a token is this machine. A page in a browser that
// resolves its own name to this machine fails this check.
func (m *monitor) named(r *http.Request) bool {
	d := m.config.Daemon
	asked, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		asked = r.Host
	}
	host, _, _ := net.SplitHostPort(d.Listen)
	ip := net.ParseIP(strings.Trim(asked, "[]"))
	return d.Token.Reveal() != "" || asked == host || asked == "localhost" || ip != nil && ip.IsLoopback()
}

// health reports whether the schedule makes progress.
func (m *monitor) health(w http.ResponseWriter, _ *http.Request) {
	if still := stuckFor(m.began, m.program.Engine.Beat()); still > stuckAfter {
		http.Error(w, fmt.Sprintf("the schedule has been stuck for %s", job.Duration(still.Round(time.Second))),
			http.StatusServiceUnavailable)
		return
	}
	io.WriteString(w, "ok\n") // whether the client has read it is its own affair
}

// tokened requires the token, if there is one.
func (m *monitor) tokened(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !m.knows(r) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="outlierd"`)
			http.Error(w, "daemon.token is needed, as `Authorization: Bearer TOKEN`", http.StatusUnauthorized)
			return
		}
		next(w, r)
	}
}

// loggedIn requires the token or a session for a page, if a login is required.
func (m *monitor) loggedIn(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !m.knows(r) && !m.site.Knows(r) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="outlierd"`)
			m.site.Login(w, r)
			return
		}
		next(w, r)
	}
}

// readiness is the answer of /readyz: for each part "ok" or the problem.
type readiness struct {
	Ready bool   `json:"ready"`
	File  string `json:"file"`  // the job file as it is now
	State string `json:"state"` // whether it can be read and written

	Sinks map[string]string `json:"sinks"`
}

// ready reports what works.
func (m *monitor) ready(w http.ResponseWriter, r *http.Request) {
	found := m.readiness()
	code := http.StatusOK
	if !found.Ready {
		code = http.StatusServiceUnavailable
	}
	if !m.knows(r) {
		http.Error(w, http.StatusText(code), code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(found) // whether the client has read it is its own affair
}

// readFor is how long requests share one reading of the readiness, so that probes cost nothing.
const readFor = time.Second

// readiness returns what works, at most [readFor] ago.
func (m *monitor) readiness() readiness {
	m.looking.Lock()
	defer m.looking.Unlock()
	if m.looked.IsZero() || time.Since(m.looked) >= readFor {
		m.found, m.looked = m.readReadiness(), time.Now()
	}
	return m.found
}

func (m *monitor) readReadiness() readiness {
	_, fileErr := job.Load(m.file, m.env)
	if mistakes, ok := errors.AsType[yamltree.Mistakes](fileErr); ok {
		fileErr = errors.New(mistakes[0].String()) // the first one often causes the others
	}
	state := m.program.Engine.Store
	_, stateErr := state.Instance()
	stateErr = errors.Join(stateErr, state.DB.Room())
	found := readiness{Ready: fileErr == nil && stateErr == nil, File: wordOf(fileErr), State: wordOf(stateErr),
		Sinks: map[string]string{}}
	for name, err := range m.program.metrics.Sinks() {
		found.Sinks[name] = wordOf(err)
		found.Ready = found.Ready && err == nil
	}
	return found
}

// wordOf returns "ok", or the problem.
func wordOf(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}
