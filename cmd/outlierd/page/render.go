package page

import (
	"bytes"
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"

	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
)

// pages are parsed at the first request, since most processes of the program serve none.
var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"whole": formatWhole, "thousands": func(n any) string { return formatThousands(reflect.Indirect(reflect.ValueOf(n)).Int()) },
		"count": func(n any, one string) string { return formatCount(reflect.ValueOf(n).Int(), one) },
		"short": formatShort, "times": formatTimes, "decimal": formatDecimal, "gained": formatGained,
		"gainedExactly": gainedExactly, "level": levelOf, "segment": url.PathEscape,
		"ruled": func(ratio *float64) string { return onRuler(*ratio) }, "share": shareOf,
		"day": formatDay, "took": formatTook, "perNew": formatPerNew, "jobName": job.Shown,
		"statusLevel": func(s runs.Status) string { return statusLevels[s] }, "join": func(texts []string) string { return strings.Join(texts, ", ") },
		"language": func(code string) string { return labelValue("language", code) }, "inline": inlinePicture,
		"many": func(n int) []int { return make([]int, n) },
	}).ParseFS(files, "*.html"))
})

// policy allows only files of the page's own origin. Titles are untrusted text and must never become a
// script or a style.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// maxForm is the maximum size of a form, in bytes.
const maxForm = 64 << 10

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

// handler answers a request, or returns why it cannot, which the renderer explains to the reader: a
// [serve.RefusedError], whose text the reader sees, [errNoLogin], or an error of a source.
type handler func(http.ResponseWriter, *http.Request) error

func badRequest(format string, args ...any) error {
	return serve.Refuse(http.StatusBadRequest, format, args...)
}

// renderer writes pages, or explains why a request has no page.
type renderer struct {
	from   *Sources
	logins *logins
	status *statusReader
	log    *slog.Logger
}

// guardHandlers sets the headers of answers, and limits the size of requests.
func (p *renderer) guardHandlers(routes map[string]handler) map[string]http.HandlerFunc {
	guarded := map[string]http.HandlerFunc{}
	for pattern, answer := range routes {
		guarded[pattern] = p.guardHandler(answer)
	}
	return guarded
}

func (p *renderer) guardHandler(answer handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		Guard(w.Header())
		if p.from.Thumbnails != nil {
			w.Header().Set("Content-Security-Policy", policy+"; img-src "+p.from.ImageSources)
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := answer(w, r); err != nil {
			p.explain(w, r, err)
		}
	}
}

// explain says why there is nothing to show. Unexpected errors are logged, and the reader sees only a
// reference to the log.
func (p *renderer) explain(w http.ResponseWriter, r *http.Request, err error) {
	status, v := http.StatusOK, view{"say.html", "Nothing to show", "", nil}
	refused, isRefused := errors.AsType[*serve.RefusedError](err)
	switch {
	case isRefused:
		if err != error(refused) { // it has a cause that the reader does not see
			p.log.Error("page not shown", "page", r.URL.Path, "err", err)
		}
		status, v.Data = refused.Status, sentence{Sentence: refused.Error()}
	case errors.Is(err, errNoLogin):
		status = http.StatusUnauthorized
		v = p.logins.page(loginView{To: requestedPage(r), Acting: true})
	case r.Context().Err() != nil: // the client has disconnected
		return
	case errors.Is(err, ErrUnknown):
		status, v.Data = http.StatusNotFound, sentence{Sentence: err.Error() + "."}
	case errors.Is(err, ErrNothingPublished):
		v = p.viewWithoutData(r, err.Error()+".")
	case errors.Is(err, context.DeadlineExceeded):
		status, v = http.StatusServiceUnavailable, viewOfTimeout(r)
	default:
		p.log.Warn("page not shown", "page", r.URL.Path, "err", err)
		status, v.Data = http.StatusInternalServerError,
			sentence{Sentence: "The data could not be read; the log of outlierd up has the reason."}
	}
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "12")
	}
	p.write(w, r, status, v)
}

// sentence is shown instead of a page.
type sentence struct {
	Sentence string
	Links    []Link
}

// Link leads to a page.
type Link struct {
	Text, Address string
	Price         string // what it may cost; "" for most
	Dot           string // class of a dot before the text, or ""
	Count         *int64 // of what the page shows; nil if it is not counted
	On            bool   // it is where the reader is, or in force
}

// viewOfTimeout offers a narrower query instead of one that took too long.
func viewOfTimeout(r *http.Request) view {
	said := sentence{Sentence: "The query took too long. Reload the page, narrow the filter, or ask in SQL."}
	if r.URL.Path == "/" || r.URL.Path == "/found" {
		form := r.URL.Query()
		form.Set("days", "30")
		said.Links = []Link{{Text: "Only the last 30 days", Address: r.URL.Path + "?" + form.Encode()}, {Text: "Ask in SQL", Address: "/ask"}}
	}
	return view{"say.html", "This took longer than 10 seconds", "Found", said}
}

// viewWithoutData explains why there are no data yet: the first run works, or none has begun.
func (p *renderer) viewWithoutData(r *http.Request, why string) view {
	v, first := view{"first.html", "Nothing is here yet", "Found", nil}, firstView{Now: p.glanceAt(r), Why: why}
	if now := first.Now; now != nil {
		if first.Running = now.Running(); first.Running != "" {
			v.Title = "Your first outliers are on their way"
		} else if p.from.Offer != nil {
			first.Jobs = now.Rows[:min(3, len(now.Rows))]
		}
	}
	v.Data = first
	return v
}

// firstView is shown before the first run has published something.
type firstView struct {
	*Now
	Why, Running string
	Jobs         []Job
}

// view is a page: its template, its title, the section that it belongs to, and its data.
type view struct {
	name, Title, Section string
	Data                 any
}

// show writes a page.
func (p *renderer) show(w http.ResponseWriter, r *http.Request, v view) error {
	p.write(w, r, http.StatusOK, v)
	return nil
}

// write renders a page completely before sending it, so that an incomplete page is never sent with
// status 200.
func (p *renderer) write(w http.ResponseWriter, r *http.Request, status int, v view) {
	var b bytes.Buffer
	if err := pages().ExecuteTemplate(&b, v.name, p.newFrame(r, v)); err != nil {
		p.log.Error("page not shown", "page", v.name, "err", err)
		http.Error(w, "the page could not be rendered; the log of outlierd up has the reason",
			http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // whether the client has read it is its own affair
}

// glance is how long a page waits for a status that its header needs.
const glance = 50 * time.Millisecond

// glanceAt returns the status as far as it is known: the last one if reading it takes long, or nil.
func (p *renderer) glanceAt(r *http.Request) *Now {
	ctx, cancel := context.WithTimeout(r.Context(), glance)
	defer cancel()
	now, _ := p.status.read(ctx) // the page Now says why it could not be read
	return now
}
