// Package page serves the pages of a daemon to browsers: HTML rendered by the server, which works without
// a script. It knows how things look and who has logged in. What there is to
// show and to do comes from its [Sources].
package page

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"outlierd/sync/job"
	"outlierd/sync/runs"
)

// Sources provides the data of a site. Each function may be called concurrently. Functions that are nil belong to what
// is not offered.
type Sources struct {
	Now   func(context.Context) (*Now, error) // may take as long as a call to the service
	Found func(context.Context, Filter) (*Found, error)
	Runs  func(context.Context, RunFilter) (*Runs, error)
	Run   func(ctx context.Context, id string) (*RunDetails, error)

	Video   func(context.Context, VideoFilter) (*Video, error)
	Channel func(context.Context, ChannelFilter) (*Channel, error)
	Picked  func(ctx context.Context, ids []string) ([]Card, error)
	Niche   func(ctx context.Context, topic string) (*Niche, error)
	Money   func(context.Context) (*Money, error)

	PublishedAt func() (time.Time, error)

	Tables    []Table // that can be queried
	Questions func() []Question
	Ask       func(ctx context.Context, sql string) (*Result, error)               // [MostRows] rows, or a [RefusedError]
	Download  func(ctx context.Context, sql, format string) (io.ReadCloser, error) // the whole result, or a [RefusedError]
	Feed      func(ctx context.Context, q Question, published time.Time) (atom []byte, err error)
	Export    func(cards []Card, format string) (file []byte, err error)
	Elsewhere func(sql string) []Snippet // runs the SQL in other programs

	// The pictures of videos, at /thumbnails/{video}?s=320|480; nil if none are shown.
	Thumbnails       http.HandlerFunc
	ImageSources     string       // where browsers may load images from: the value of img-src
	ThumbnailTrouble func() error // why none are fetched at the moment, or nil

	// The actions of logged-in users. A [RefusedError] explains why an action was refused.
	Offer func(context.Context, Action) (*Offer, error)
	Do    func(context.Context, Action) (*Done, error)
	Mark  func(context.Context, Marking) error
	Views Views
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

// The files of the pages, whose addresses have a hash of their content: a browser loads them once.
//
//go:embed style.css
var style []byte

//go:embed page.js
var script []byte

//go:embed icon.svg
var icon []byte

var styleAddress, scriptAddress = hashedPath("/style.css", style), hashedPath("/page.js", script)

func hashedPath(path string, text []byte) string {
	sum := sha256.Sum256(text)
	return path + "?" + hex.EncodeToString(sum[:6])
}

// pages are parsed at the first request, since most processes of the program serve none.
var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"whole": formatWhole, "thousands": func(n any) string { return formatThousands(reflect.ValueOf(n).Int()) }, "short": formatShort, "times": formatTimes, "decimal": formatDecimal, "gained": formatGained,
		"gainedExactly": gainedExactly, "level": levelOf, "segment": url.PathEscape, "count": formatCount, "atMost": atMost,
		"ruled": func(ratio *float64) string { return onRuler(*ratio) }, "share": shareOf, "percent": formatPercent,
		"day": formatDay, "int64": func(n int) int64 { return int64(n) }, "took": formatTook, "perNew": formatPerNew, "jobName": job.Shown,
		"statusLevel": func(s runs.Status) string { return statusLevels[s] }, "join": func(texts []string) string { return strings.Join(texts, ", ") },
		"language": func(code string) string { return labelValue("language", code) }, "many": func(n int) []int { return make([]int, n) },
	}).ParseFS(files, "*.html"))
})

// Site serves the pages. It reads nothing between requests.
type Site struct {
	ctx    context.Context // context of readings, since one reading may serve several requests
	from   Sources
	logins *logins
	log    *slog.Logger

	// Semaphores of one, because a query of the published tables takes memory: for pages, for SQL of
	// users, and for downloads.
	reading, asking, downloads chan struct{}

	pages singleflight.Group // running queries of pages, by the pages' addresses, and of the status

	mu      sync.Mutex
	last    *Now // nil before the first reading
	looked  time.Time
	err     error // of the last reading
	actions int   // that were carried out: what was read before the last one is out of date
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
		"GET /{$}":                 s.guardHandler(s.serveFound),
		"GET /found":               s.guardHandler(s.serveFound),
		"GET /now":                 s.guardHandler(s.serveNow),
		"GET /videos/{video}":      s.guardHandler(s.serveVideo),
		"GET /channels/{channel}":  s.guardHandler(s.serveChannel),
		"GET /picked":              s.guardHandler(s.servePicked),
		"GET /ask":                 s.guardHandler(s.askSQL),
		"GET /ask/result/{format}": s.guardHandler(s.serveDownload),
		"GET /feed/{file}":         s.guardHandler(s.serveFeed),
	}
	if s.from.Niche != nil {
		routes["GET /niches"], routes["GET /niches/{topic}"] = s.guardHandler(s.serveNiche), s.guardHandler(s.serveNiche)
	}
	if s.from.Runs != nil || s.from.Run != nil {
		routes["GET /runs"], routes["GET /runs/{run}"] = s.guardHandler(s.serveRuns), s.guardHandler(s.serveRun)
	}
	if s.from.Money != nil {
		routes["GET /money"] = s.guardHandler(s.serveMoney)
	}
	if s.from.Thumbnails != nil {
		routes["GET /thumbnails/{video}"] = s.guardHandler(s.from.Thumbnails)
	}
	if s.from.Do != nil {
		routes["GET /do/{verb}"] = s.guardHandler(s.serveOffer)
		routes["POST /do/{verb}"] = s.guardHandler(s.serveAction)
	}
	if s.from.Mark != nil {
		routes["POST /marks"] = s.guardHandler(s.serveMark)
	}
	if s.from.Views.Save != nil {
		routes["GET /views"] = s.guardHandler(s.serveViews)
		routes["POST /views"] = s.guardHandler(s.saveView)
	}
	return routes
}

// Open returns the handlers that need no login, such as the login page itself.
func (s *Site) Open() map[string]http.HandlerFunc {
	if s == nil {
		return nil
	}
	return map[string]http.HandlerFunc{
		"GET /login":     s.guardHandler(s.serveLogin),
		"POST /login":    s.guardHandler(s.serveEnter),
		"POST /logout":   s.guardHandler(s.serveLeave),
		"GET /style.css": s.guardHandler(serveFile("text/css; charset=utf-8", style)),
		"GET /page.js":   s.guardHandler(serveFile("text/javascript; charset=utf-8", script)),
		"GET /icon.svg":  s.guardHandler(serveFile("image/svg+xml", icon)),
	}
}

// policy allows only files of the page's own origin. Titles are untrusted text and must never become a
// script or a style.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// policy returns the policy of a site, which may have pictures.
func (s *Site) policy() string {
	if s.from.Thumbnails == nil {
		return policy
	}
	return policy + "; img-src " + s.from.ImageSources
}

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

// guardHandler sets the headers of an answer, and limits the size of a request.
func (s *Site) guardHandler(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		Guard(w.Header())
		w.Header().Set("Content-Security-Policy", s.policy())
		r.Body = http.MaxBytesReader(w, r.Body, mostSent)
		next(w, r)
	}
}

// serveFile serves an embedded file, which never changes under an address with its hash.
func serveFile(kind string, text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		if r.URL.RawQuery != "" && strings.HasSuffix(hashedPath(r.URL.Path, text), r.URL.RawQuery) {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		_, _ = w.Write(text) // whether the client has read it is its own affair
	}
}

// readTables reads the published tables for a page. Requests with the same key share one answer, which is
// completed even if all clients disconnect.
func readTables[T any](s *Site, key string, question func(context.Context) (T, error)) (T, error) {
	shared, err, _ := s.pages.Do(key, func() (any, error) {
		var answer T
		err := askInTurn(s.ctx, s.reading, func(ctx context.Context) (err error) {
			answer, err = question(ctx)
			return err
		})
		return answer, err
	})
	answer, _ := shared.(T)
	return answer, err
}

// askInTurn runs a query of the published tables when it is its turn.
func askInTurn(ctx context.Context, turn chan struct{}, question func(context.Context) error) error {
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

// serveRefusal explains why there is nothing to show. Unexpected errors are logged, and the user sees only a
// reference to the log.
func (s *Site) serveRefusal(w http.ResponseWriter, r *http.Request, page string, err error) {
	refused, isRefused := errors.AsType[*RefusedError](err)
	switch {
	case isRefused:
		s.serveSentence(w, r, http.StatusConflict, refused.Why)
	case r.Context().Err() != nil: // the client has disconnected
	case errors.Is(err, ErrUnknown):
		s.serveSentence(w, r, http.StatusNotFound, err.Error()+".")
	case errors.Is(err, ErrNothingPublished):
		s.serveNoData(w, r, err.Error()+".")
	case errors.Is(err, context.DeadlineExceeded):
		w.Header().Set("Retry-After", "10")
		s.tooLong(w, r)
	default:
		s.log.Warn("page not shown", "page", page, "err", err)
		s.serveSentence(w, r, http.StatusInternalServerError, "The data could not be read; the log of outlierd up has the reason.")
	}
}

// sentence is shown instead of a page.
type sentence struct {
	Sentence string
	Links    []Link
}

// Link leads to a page. Price is what it may cost.
type Link struct{ Text, Address, Price string }

// serveSentence shows a sentence instead of a page.
func (s *Site) serveSentence(w http.ResponseWriter, r *http.Request, status int, text string) {
	s.writeView(w, r, status, view{"say.html", "Nothing to show", "", sentence{Sentence: text}})
}

// tooLong offers a narrower query instead of one that took too long.
func (s *Site) tooLong(w http.ResponseWriter, r *http.Request) {
	said := sentence{Sentence: "The query took too long. Reload the page, narrow the filter, or ask in SQL."}
	if r.URL.Path == "/" || r.URL.Path == "/found" {
		form := r.URL.Query()
		form.Set("days", "30")
		said.Links = []Link{{Text: "Only the last 30 days", Address: r.URL.Path + "?" + form.Encode()}, {Text: "Ask in SQL", Address: "/ask"}}
	}
	s.writeView(w, r, http.StatusServiceUnavailable, view{"say.html", "This took longer than 10 seconds", "Found", said})
}

// view is a page: its template, its title, the section that it belongs to, and its data.
type view struct {
	name, Title, Section string
	Data                 any
}

func (s *Site) serveView(w http.ResponseWriter, r *http.Request, v view) {
	s.writeView(w, r, http.StatusOK, v)
}

// writeView renders a page completely before sending it, so that an incomplete page is never sent with
// status 200.
func (s *Site) writeView(w http.ResponseWriter, r *http.Request, status int, v view) {
	var b bytes.Buffer
	if err := pages().ExecuteTemplate(&b, v.name, s.newFrame(r, v)); err != nil {
		s.log.Error("page not shown", "page", v.name, "err", err)
		http.Error(w, "the page could not be rendered; the log of outlierd up has the reason",
			http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // whether the client has read it is its own affair
}
