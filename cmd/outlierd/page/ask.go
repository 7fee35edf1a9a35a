package page

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"outlierd/sinks/duckdb/query"
	"outlierd/sync/serve"
)

// Question is a named SQL query.
type Question struct{ Name, SQL string }

// MaxRows is the maximum number of rows shown.
const MaxRows = 1000

// FileTypes are the content types of files, by their format.
var FileTypes = map[string]string{
	"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet",
	"xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	"md":   "text/markdown; charset=utf-8", "links": "text/plain; charset=utf-8",
}

const (
	maxSQL      = 8000             // bytes, because it is part of an address
	downloading = 60 * time.Second // time limit of a download
)

// askSQL runs a query and shows its result.
func (s *Site) askSQL(w http.ResponseWriter, r *http.Request) error {
	form := r.URL.Query()
	v := askView{SQL: strings.TrimSpace(form.Get("sql")), Tables: query.Catalog(), Questions: s.from.Questions()}
	if len(v.SQL) > maxSQL {
		return badRequest("The SQL is longer than 8000 bytes; use 'outlierd sql'.")
	}
	var err error
	switch {
	case v.SQL == "":
	case isForeign(r):
		v.Refused = "This query came from another site, so it was not run. Read it, then press Ask."
	default:
		err = askInTurn(r.Context(), s.asking, func(ctx context.Context) (err error) {
			v.Result, err = s.from.Ask(ctx, v.SQL)
			return err
		})
	}
	if refused, ok := errors.AsType[*serve.RefusedError](err); ok {
		v.Refused, err = refused.Error(), nil
	}
	if err != nil {
		return err
	}
	if v.SQL != "" && s.from.Elsewhere != nil {
		v.Elsewhere = s.from.Elsewhere(v.SQL)
	}
	return s.render.show(w, r, view{"ask.html", "Ask", "Ask", v})
}

// isForeign reports whether the request came from a page of another site, according to the browser. Such
// a page could not read the answer, but it could keep the daemon busy.
func isForeign(r *http.Request) bool {
	from := r.Header.Get("Sec-Fetch-Site")
	return from != "" && from != "same-origin" && from != "none"
}

// serveDownload sends the result of a query as a file.
func (s *Site) serveDownload(w http.ResponseWriter, r *http.Request) error {
	sql := r.URL.Query().Get("sql")
	if sql == "" || len(sql) > maxSQL {
		return badRequest("A download needs SQL of at most 8000 bytes.")
	}
	return sendFile(s, w, r, sql, r.PathValue("format"))
}

// sendFile sends the result of a query as a file; the browser shows links and Markdown, so that they can be copied.
// Unlike pages, it does not wait for its turn: a second file at the same time is refused.
func sendFile(s *Site, w http.ResponseWriter, r *http.Request, sql, format string) error {
	if FileTypes[format] == "" {
		return badRequest("A download needs a format: csv, links, md, parquet or xlsx, got %.40q.", format)
	}
	if isForeign(r) {
		return serve.Refuse(http.StatusForbidden, "This download was requested by another site.")
	}
	ctx, cancel := context.WithTimeout(r.Context(), downloading)
	defer cancel()
	select {
	case s.downloads <- struct{}{}:
		defer func() { <-s.downloads }()
	default:
		return serve.Refuse(http.StatusServiceUnavailable, "Another download is under way; try again when it has ended.")
	}
	file, err := s.from.Download(ctx, sql, format)
	if err != nil {
		return err
	}
	defer file.Close()
	err = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(downloading))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	w.Header().Set("Content-Type", FileTypes[format])
	if format != "md" && format != "links" {
		w.Header().Set("Content-Disposition", `attachment; filename="outlierd.`+format+`"`)
	}
	_, _ = io.Copy(w, file) // fails only if the client has closed the connection
	return nil
}

// Snippet are lines that run a query in another program.
type Snippet struct{ Program, Lines string }

// askView is the data of the page Ask.
type askView struct {
	SQL       string
	Elsewhere []Snippet
	Tables    []query.Readable
	Questions []Question
	Refused   string // why the SQL has no result
	Result    *query.Rows
}

// File returns the address for downloading the whole result.
func (v askView) File(format string) string {
	return "/ask/result/" + format + "?" + url.Values{"sql": {v.SQL}}.Encode()
}

// Address returns the address that runs a question.
func (q Question) Address() string { return "/ask?" + url.Values{"sql": {q.SQL}}.Encode() }

// Feed returns the address of the question as a feed.
func (q Question) Feed() string { return "/feed/" + url.PathEscape(q.Name) + ".atom" }

// Feed returns the address of the feed of a question with videos; "" for other results.
func (v askView) Feed() string {
	asked := slices.IndexFunc(v.Questions, func(q Question) bool { return strings.TrimSpace(q.SQL) == v.SQL })
	if asked < 0 || v.Result == nil || !slices.ContainsFunc(v.Result.Columns, func(c query.Field) bool { return c.Name == "video_id" }) {
		return ""
	}
	return v.Questions[asked].Feed()
}
