// Package page is what a browser is shown of a daemon: HTML made by the server, which works
// without a script, but for keeping itself up to date. It knows how things look and who has logged
// in, and asks its [Sources] for what there is to see and to do.
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

// Sources are what a site asks for what it shows. Each may be asked by several requests at a time.
type Sources struct {
	Now   func(context.Context) (*Now, error) // may take as long as a call of the service takes
	Found func(context.Context, Filter) (*Found, error)
	Runs  func(context.Context, RunFilter) (*Runs, error)
	Run   func(ctx context.Context, id string) (*RunDetails, error)

	Video   func(context.Context, VideoFilter) (*Video, error)
	Channel func(context.Context, ChannelFilter) (*Channel, error)

	Tables    []Table // that can be asked
	Questions func() []Question
	Ask       func(ctx context.Context, sql string) (*Result, error)               // [MostRows] rows, or a [RefusedError]
	Download  func(ctx context.Context, sql, format string) (io.ReadCloser, error) // the whole result, or a [RefusedError]

	// What people who have logged in can do; nil if nothing can be done. A [RefusedError] says why not.
	Offer func(context.Context, Action) (*Offer, error)
	Do    func(context.Context, Action) (*Done, error)
}

// The errors of sources that a person is told of in their own words.
var (
	ErrNothingPublished = errors.New("there is no published DuckDB file yet; " +
		"the first run that ends publishes one, if the job file has a duckdb sink")
	ErrUnknown = errors.New("nothing is known") // wrapped by what says about what
)

const (
	waiting   = 15 * time.Second // how long a request waits for its turn to ask the published tables
	answering = 10 * time.Second // and then for their answer
)

//go:embed *.html
var files embed.FS

//go:embed style.css
var style []byte

// The scripts: what keeps pages up to date, and what helps to write SQL.
//
//go:embed live.js
var liveScript []byte

//go:embed ask.js
var askScript []byte

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"whole": whole, "decimal": decimal, "thousands": thousands, "head": newHead, "sparkline": sparkline, "segment": url.PathEscape,
}).ParseFS(files, "*.html"))

// head is what the head of a page says of it.
type head struct{ Title, Section string }

// newHead is for a page with a title of its own in a section of the site.
func newHead(title, section string) head { return head{title, section} }

// Site answers the requests for pages. It looks at nothing between requests.
type Site struct {
	ctx    context.Context // of the looks: a look serves more than the request that began it
	from   Sources
	logins *logins
	log    *slog.Logger

	// Each has an element while a question to the published tables is under way, which takes memory:
	// one of the pages, one that a person has written, and a download.
	reading, asking, downloads chan struct{}

	pages singleflight.Group // the questions of pages that are under way, by the addresses of those

	mu      sync.Mutex
	last    *Now          // nil before the first look
	began   time.Time     // to look
	looked  time.Time     // it had been looked
	acted   time.Time     // the last action ended: what was looked at before is old
	err     error         // of the newest look
	looking chan struct{} // closed at the end of the look under way; nil without one
}

// New makes a site that asks its sources until ctx ends. The token logs a browser in; it is empty if
// there is none.
func New(ctx context.Context, from Sources, token string, log *slog.Logger) *Site {
	return &Site{ctx: ctx, from: from, logins: newLogins(token), log: log,
		reading: make(chan struct{}, 1), asking: make(chan struct{}, 1), downloads: make(chan struct{}, 1)}
}

// Routes are the handlers of the pages by the patterns of [http.ServeMux]. Who may ask is the
// caller's affair. Without a site there are none.
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
	if s.from.Do != nil {
		routes["GET /do/{verb}"] = guarded(s.offer)
		routes["POST /do/{verb}"] = guarded(s.do)
	}
	return routes
}

// Open are the handlers for requests of anybody, who may yet have to log in.
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

// policy lets a page use the files of its own origin, and nothing else: titles are text of other
// people, and none of it may become a script or a style.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// mostSent is how long a form may be, in bytes.
const mostSent = 64 << 10

// Guard forbids the browser what no page needs.
func Guard(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// guarded guards an answer, and bounds what is read of a request.
func guarded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		Guard(w.Header())
		r.Body = http.MaxBytesReader(w, r.Body, mostSent)
		next(w, r)
	}
}

// file serves a file that the program holds.
func file(kind string, text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text) // whether the client has read it is its own affair
	}
}

// read asks the published tables for a page. Requests for the same page share one answer, which is
// asked for even if they all leave.
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

// ask asks the published tables when it is its turn.
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
		return cmp.Or(ctx.Err(), err) // an interruption has words of its own
	}
	return nil
}

// refuse answers a request with why there is nothing to show. What only the log may say is an
// error that nobody has foreseen.
func (s *Site) refuse(w http.ResponseWriter, r *http.Request, page string, err error) {
	switch {
	case r.Context().Err() != nil: // the client has left
	case errors.Is(err, ErrUnknown):
		s.say(w, http.StatusNotFound, err.Error()+".")
	case errors.Is(err, ErrNothingPublished):
		s.say(w, http.StatusOK, err.Error()+".")
	case errors.Is(err, context.DeadlineExceeded):
		w.Header().Set("Retry-After", "10")
		s.say(w, http.StatusServiceUnavailable, "The tables took too long to answer; load the page again, or ask for less.")
	default:
		s.log.Warn("page not shown", "page", page, "err", err)
		s.say(w, http.StatusInternalServerError, "This could not be read; the log of outlierd up says why.")
	}
}

// say answers with a sentence in the place of a page.
func (s *Site) say(w http.ResponseWriter, status int, sentence string) {
	s.write(w, status, "sentence.html", sentence)
}

func (s *Site) show(w http.ResponseWriter, name string, data any) {
	s.write(w, http.StatusOK, name, data)
}

// write sends a page once it is whole: half of one is not sent with a status of 200.
func (s *Site) write(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		s.log.Error("page not shown", "page", name, "err", err)
		http.Error(w, "the page could not be made; the log of outlierd up says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // whether the client has read it is its own affair
}
