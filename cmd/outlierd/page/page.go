// Package page serves the pages of a daemon to browsers: HTML rendered by the server, which works without
// a script. It knows how things look and who has logged in. What there is to
// show and to do comes from its [Sources]: what was found from the published [Tables], which files and mails with the
// same videos read, too.
package page

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"outlierd/outlier"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/marks"
	"outlierd/sync/runs"
)

// Sources provides the data of a site. Each function may be called concurrently. Functions that are nil belong to what
// is not offered.
type Sources struct {
	Now   func(context.Context) (*Now, error)
	Found func(context.Context, Filter) (*Found, error)
	Runs  func(context.Context, runs.Filter) (*Runs, error)
	Run   func(ctx context.Context, id string, page int) (*RunDetails, error)

	Video     func(context.Context, VideoFilter) (*Video, error)
	Channel   func(context.Context, ChannelFilter) (*Channel, error)
	Picked    func(ctx context.Context, ids []string) ([]Card, error)
	PickedSQL func(ids []string) (string, error)
	Niche     func(ctx context.Context, topic string) (*Niche, error)
	Money     func(context.Context) (*Money, error)

	Prices      func() outlier.Prices // nil: the documented ones
	PublishedAt func() (time.Time, error)

	Questions func() []Question
	Ask       func(ctx context.Context, sql string) (*query.Rows, error)           // [MaxRows] rows, or a [serve.RefusedError]
	Download  func(ctx context.Context, sql, format string) (io.ReadCloser, error) // the whole result, or a [serve.RefusedError]
	Feed      func(ctx context.Context, q Question, published time.Time) (atom []byte, err error)
	Elsewhere func(sql string) []Snippet // runs the SQL in other programs

	// The pictures of videos, at /thumbnails/{video}?s=320|480; nil if none are shown.
	Thumbnails       http.HandlerFunc
	ImageSources     string       // where browsers may load images from: the value of img-src
	ThumbnailTrouble func() error // why none are fetched at the moment, or nil

	// The actions of logged-in users. A [serve.RefusedError] explains why an action was refused.
	Offer func(context.Context, Action) (*Offer, error)
	Mark  func(context.Context, marks.Edit) error

	Views    func() ([]marks.View, error)          // the saved ones
	SaveView func(old, name, address string) error // an empty name deletes the old one
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

// Site serves the pages. It reads nothing between requests.
type Site struct {
	ctx    context.Context // of readings, since one reading may serve several requests
	from   Sources
	logins *logins
	status *statusReader
	render *renderer

	// Semaphores of one, because a query of the published tables takes memory: for pages, for SQL of
	// users, and for downloads.
	reading, asking, downloads chan struct{}

	pages singleflight.Group // running queries of pages, by the pages' addresses
}

// New returns a site that reads from its sources until ctx ends. The token allows a login; it may be
// empty.
func New(ctx context.Context, from Sources, token string, log *slog.Logger) *Site {
	s := &Site{ctx: ctx, from: from, logins: newLogins(token), status: &statusReader{ctx: ctx, source: from.Now, log: log},
		reading: make(chan struct{}, 1), asking: make(chan struct{}, 1), downloads: make(chan struct{}, 1)}
	s.render = &renderer{from: &s.from, logins: s.logins, status: s.status, log: log}
	return s
}

// Routes returns the handlers of the pages by [http.ServeMux] pattern. The caller controls access. A nil
// site has none.
func (s *Site) Routes() map[string]http.HandlerFunc {
	if s == nil {
		return nil
	}
	routes := map[string]handler{
		"GET /{$}":                 s.serveFound,
		"GET /found":               s.serveFound,
		"GET /now":                 s.serveNow,
		"GET /videos/{video}":      s.serveVideo,
		"GET /channels/{channel}":  s.serveChannel,
		"GET /picked":              s.servePicked,
		"GET /ask":                 s.askSQL,
		"GET /ask/result/{format}": s.serveDownload,
		"GET /feed/{file}":         s.serveFeed,
		"GET /niches":              s.serveNiche,
		"GET /niches/{topic}":      s.serveNiche,
	}
	if s.from.Runs != nil || s.from.Run != nil {
		routes["GET /runs"], routes["GET /runs/{run}"] = s.serveRuns, s.serveRun
	}
	if s.from.Money != nil {
		routes["GET /money"] = s.serveMoney
	}
	if s.from.Thumbnails != nil {
		routes["GET /thumbnails/{video}"] = func(w http.ResponseWriter, r *http.Request) error {
			s.from.Thumbnails(w, r)
			return nil
		}
	}
	if s.from.Offer != nil {
		routes["GET /do/{verb}"], routes["POST /do/{verb}"] = s.serveOffer, s.serveAction
	}
	if s.from.Mark != nil {
		routes["POST /marks"] = s.serveMark
	}
	if s.from.SaveView != nil {
		routes["GET /views"], routes["POST /views"] = s.serveViews, s.saveView
	}
	return s.render.guardHandlers(routes)
}

// Open returns the handlers that need no login, such as the login page itself.
func (s *Site) Open() map[string]http.HandlerFunc {
	if s == nil {
		return nil
	}
	return s.render.guardHandlers(map[string]handler{
		"GET /login":     s.serveLogin,
		"POST /login":    s.serveEnter,
		"POST /logout":   s.serveLeave,
		"GET /style.css": serveFile("text/css; charset=utf-8", style),
		"GET /page.js":   serveFile("text/javascript; charset=utf-8", script),
		"GET /icon.svg":  serveFile("image/svg+xml", icon),
	})
}

// serveFile serves an embedded file, which never changes under an address with its hash.
func serveFile(kind string, text []byte) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", kind)
		if r.URL.RawQuery != "" && strings.HasSuffix(hashedPath(r.URL.Path, text), r.URL.RawQuery) {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		_, _ = w.Write(text) // whether the client has read it is its own affair
		return nil
	}
}

// readTables reads the published tables for a page. Requests with the same key share one answer, of which each gets a
// record of its own. It is completed even if all clients disconnect.
func readTables[T any](s *Site, key string, question func(context.Context) (*T, error)) (*T, error) {
	shared, err, _ := s.pages.Do(key, func() (any, error) {
		var answer *T
		err := askInTurn(s.ctx, s.reading, func(ctx context.Context) (err error) {
			answer, err = question(ctx)
			return err
		})
		return answer, err
	})
	if err != nil {
		return nil, err
	}
	return new(*shared.(*T)), nil
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
