// Package page serves the pages of a daemon to browsers: HTML rendered by the server, with scripts only
// for live updates and completion. It knows how things look and who has logged in. What there is to
// show and to do comes from its [Sources].
package page

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Sources provides the data of a site. Each function may be called concurrently.
type Sources struct {
	Now   func(context.Context) (*Now, error) // may take as long as a call to the service
	Found func(context.Context, Filter) (*Found, error)
	Runs  func(context.Context, RunFilter) (*Runs, error)
	Run   func(ctx context.Context, id string) (*RunDetails, error)

	Video   func(context.Context, VideoFilter) (*Video, error)
	Channel func(context.Context, ChannelFilter) (*Channel, error)

	Tables    []Table // that can be queried
	Questions func() []Question
	Ask       func(ctx context.Context, sql string) (*Result, error)               // [MostRows] rows, or a [RefusedError]
	Download  func(ctx context.Context, sql, format string) (io.ReadCloser, error) // the whole result, or a [RefusedError]

	// The pictures of videos, at /thumbnails/{video}?s=320|480; nil if none are shown.
	Thumbnails       http.HandlerFunc
	ImageSources     string       // where browsers may load images from: the value of img-src
	ThumbnailTrouble func() error // why none are fetched at the moment, or nil

	// The actions of logged-in users, or nil. A [RefusedError] explains why an action
	// was refused.
	Offer func(context.Context, Action) (*Offer, error)
	Do    func(context.Context, Action) (*Done, error)
}

// Errors of sources whose text is shown to the user.
var (
	ErrNothingPublished = errors.New("there is no published DuckDB file yet; " +
		"the first run that ends publishes one, if the job file has a duckdb sink")
	ErrUnknown = errors.New("not found") // wrapped by an error that names the entity
)

const (
	waiting   = 15 * time.Second // how long a request waits for its turn to query the tables
	answering = 10 * time.Second // and then for the result
)

//go:embed *.html
var files embed.FS

//go:embed style.css
var style []byte

// Scripts for live updates and for completion in SQL.
//
//go:embed live.js
var liveScript []byte

//go:embed ask.js
var askScript []byte

// pages are parsed at the first request, since most processes of the program serve none.
var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"whole": whole, "decimal": decimal, "thousands": thousands, "head": newHead, "sparkline": sparkline,
		"segment": url.PathEscape,
	}).ParseFS(files, "*.html"))
})

// head is the data of a page's head.
type head struct{ Title, Section string }

// newHead returns the head of a page with its own title in a section of the site.
func newHead(title, section string) head { return head{title, section} }

// Site serves the pages. It reads nothing between requests.
type Site struct {
	ctx    context.Context // context of readings, since one reading may serve several requests
	from   Sources
	logins *logins
	log    *slog.Logger

	// Semaphores of one, because a query of the published tables takes memory: for pages, for SQL of
	// users, and for downloads.
	reading, asking, downloads chan struct{}

	pages singleflight.Group // running queries of pages, by the pages' addresses

	mu      sync.Mutex
	last    *Now          // nil before the first reading
	began   time.Time     // start of the last reading
	looked  time.Time     // end of the last reading
	acted   time.Time     // end of the last action: earlier readings are out of date
	err     error         // of the last reading
	looking chan struct{} // closed when the reading in progress ends; nil without one
}

// New returns a site that reads from its sources until ctx ends. The token allows a login; it may be
// empty.
func New(ctx context.Context, from Sources, token string, log *slog.Logger) *Site {
	return &Site{ctx: ctx, from: from, logins: newLogins(token), log: log,
		reading: make(chan struct{}, 1), asking: make(chan struct{}, 1), downloads: make(chan struct{}, 1)}
}

// Routes returns the handlers of the pages by [http.ServeMux] pattern. The caller controls access. A nil
// site has none.
func (s *Site) Routes() map[string]http.HandlerFunc {
	if s == nil {
		return nil
	}
	routes := map[string]http.HandlerFunc{
		"GET /{$}":                 guarded(s.now),
		"GET /found":               guarded(s.found),
		"GET /runs":                guarded(s.runs),
		"GET /runs/{run}":          guarded(s.run),
		"GET /videos/{video}":      guarded(s.video),
		"GET /channels/{channel}":  guarded(s.channel),
		"GET /ask":                 guarded(s.askSQL),
		"GET /ask/result/{format}": guarded(s.download),
	}
	if s.from.Thumbnails != nil {
		routes["GET /thumbnails/{video}"] = guarded(s.from.Thumbnails)
	}
	if s.from.Do != nil {
		routes["GET /do/{verb}"] = guarded(s.offer)
		routes["POST /do/{verb}"] = guarded(s.do)
	}
	return routes
}

// Open returns the handlers that need no login, such as the login page itself.
func (s *Site) Open() map[string]http.HandlerFunc {
	if s == nil {
		return nil
	}
	return map[string]http.HandlerFunc{
		"GET /login":     guarded(s.login),
		"POST /login":    guarded(s.enter),
		"POST /logout":   guarded(s.leave),
		"GET /style.css": guarded(file("text/css; charset=utf-8", style)),
		"GET /live.js":   guarded(file("text/javascript; charset=utf-8", liveScript)),
		"GET /ask.js":    guarded(file("text/javascript; charset=utf-8", askScript)),
	}
}

// policy allows only files of the page's own origin. Titles are untrusted text and must never become a
// script or a style.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// mostSent is the maximum size of a form, in bytes.
const mostSent = 64 << 10

// Guard sets headers that forbid everything that the pages do not need.
func Guard(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// guarded sets the headers of an answer, and limits the size of a request.
func guarded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		Guard(w.Header())
		r.Body = http.MaxBytesReader(w, r.Body, mostSent)
		next(w, r)
	}
}

// file serves an embedded file.
func file(kind string, text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text) // whether the client has read it is its own affair
	}
}

// read reads the published tables for a page. Requests for the same page share one answer, which is
// completed even if all clients disconnect.
func read[T any](s *Site, r *http.Request, question func(context.Context) (T, error)) (T, error) {
	shared, err, _ := s.pages.Do(r.URL.RequestURI(), func() (any, error) {
		var answer T
		err := ask(s.ctx, s.reading, func(ctx context.Context) (err error) {
			answer, err = question(ctx)
			return err
		})
		return answer, err
	})
	answer, _ := shared.(T)
	return answer, err
}

// ask runs a query of the published tables when it is its turn.
func ask(ctx context.Context, turn chan struct{}, question func(context.Context) error) error {
	enough := time.NewTimer(waiting)
	defer enough.Stop()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-enough.C:
		return context.DeadlineExceeded
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	if err := question(ctx); err != nil {
		return cmp.Or(ctx.Err(), err) // an interruption has its own message
	}
	return nil
}

// refuse explains why there is nothing to show. Unexpected errors are logged, and the user sees only a
// reference to the log.
func (s *Site) refuse(w http.ResponseWriter, r *http.Request, page string, err error) {
	switch {
	case r.Context().Err() != nil: // the client has disconnected
	case errors.Is(err, ErrUnknown):
		s.say(w, http.StatusNotFound, err.Error()+".")
	case errors.Is(err, ErrNothingPublished):
		s.say(w, http.StatusOK, err.Error()+".")
	case errors.Is(err, context.DeadlineExceeded):
		w.Header().Set("Retry-After", "10")
		s.say(w, http.StatusServiceUnavailable, "The query took too long; reload the page, or narrow the filter.")
	default:
		s.log.Warn("page not shown", "page", page, "err", err)
		s.say(w, http.StatusInternalServerError, "The data could not be read; the log of outlierd up has the reason.")
	}
}

// say shows a sentence instead of a page.
func (s *Site) say(w http.ResponseWriter, status int, sentence string) {
	s.write(w, status, "sentence.html", sentence)
}

func (s *Site) show(w http.ResponseWriter, name string, data any) {
	s.write(w, http.StatusOK, name, data)
}

// write renders a page completely before sending it, so that an incomplete page is never sent with
// status 200.
func (s *Site) write(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := pages().ExecuteTemplate(&b, name, data); err != nil {
		s.log.Error("page not shown", "page", name, "err", err)
		http.Error(w, "the page could not be rendered; the log of outlierd up has the reason",
			http.StatusInternalServerError)
		return
	}
	if s.from.Thumbnails != nil {
		w.Header().Set("Content-Security-Policy", policy+"; img-src "+s.from.ImageSources)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // whether the client has read it is its own affair
}
