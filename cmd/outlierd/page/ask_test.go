package page

import (
	"context"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/sinks/duckdb/query"
	"outlierd/sync/serve"
)

// resultOf returns a result with the given cells; "NULL" stands for NULL.
func resultOf(columns []query.Field, rows ...[]string) *query.Rows {
	r := &query.Rows{Columns: columns}
	for _, row := range rows {
		cells := make([]*string, len(row))
		for i := range row {
			if row[i] != "NULL" {
				cells[i] = &row[i]
			}
		}
		r.Rows = append(r.Rows, cells)
	}
	return r
}

// askSite returns a site that answers SQL with ask.
func askSite(t *testing.T, ask func(ctx context.Context, sql string) (*query.Rows, error)) *Site {
	return siteOf(t, Sources{
		Ask:       ask,
		Questions: func() []Question { return []Question{{"Best & worst", "select 1 as best"}} },
		Elsewhere: func(sql string) []Snippet { return []Snippet{{"DuckDB", sql + ";"}} },
	})
}

func TestAskShowsResults(t *testing.T) {
	channels := resultOf([]query.Field{{Name: "channel"}, {Name: "videos", Kind: "BIGINT"}}, []string{"Coffee & tea", "12"}, []string{"NULL", "6"})
	channels.More = true
	s := askSite(t, func(_ context.Context, sql string) (*query.Rows, error) {
		if sql != "select '&'" {
			t.Errorf("the query is %q", sql)
		}
		return channels, nil
	})
	shows(t, answer(s, "/ask"), "Best &amp; worst", "/ask?sql=select+1+as+best", `data-name="video_id"`, "!id=\"result\"")
	shows(t, answer(s, "/ask?sql=select+%27%26%27"), "The first 2 rows", "Coffee &amp; tea", `<td class="number"><bdi>6</bdi>`,
		"/ask/result/parquet?sql=select+%27%26%27", "<pre><bdi>select &#39;&amp;&#39;;</bdi></pre>")
}

func TestRefusedSQLIsShownWithReason(t *testing.T) {
	w := answer(askSite(t, func(context.Context, string) (*query.Rows, error) {
		return nil, serve.Refuse(http.StatusConflict, "line 1 of the SQL: there is no column <b>")
	}), "/ask?sql=select+nosuch")
	body := w.Body.String()
	if w.Code != http.StatusOK || !strings.Contains(body, "there is no column &lt;b&gt;") ||
		!strings.Contains(body, ">select nosuch</textarea>") {
		t.Errorf("HTTP %d %s, want the SQL and the error", w.Code, body)
	}
	s := askSite(t, func(context.Context, string) (*query.Rows, error) {
		t.Error("SQL that is too long was run")
		return nil, nil
	})
	if w := answer(s, "/ask?sql="+strings.Repeat("x", maxSQL+1)); w.Code != http.StatusBadRequest {
		t.Errorf("SQL that is too long: HTTP %d %s, want %d", w.Code, w.Body, http.StatusBadRequest)
	}
}

// answerFrom returns the answer to a browser that followed a link on a page of the given Sec-Fetch-Site.
func answerFrom(s *Site, site, path string) *httptest.ResponseRecorder {
	mux := http.NewServeMux()
	for pattern, handler := range s.Routes() {
		mux.HandleFunc(pattern, handler)
	}
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Sec-Fetch-Site", site)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

// TestForeignLinkRunsNothing: the page shows the SQL of a link from another site, but the user has to run it.
func TestForeignLinkRunsNothing(t *testing.T) {
	queries := 0
	s := siteOf(t, Sources{
		Ask: func(context.Context, string) (*query.Rows, error) { queries++; return &query.Rows{}, nil },
		Download: func(context.Context, string, string) (io.ReadCloser, error) {
			queries++
			return io.NopCloser(strings.NewReader("x")), nil
		},
	})
	for site, want := range map[string]int{"cross-site": 0, "same-site": 0, "same-origin": 2, "none": 2} {
		queries = 0
		shown := answerFrom(s, site, "/ask?sql=select+1")
		answerFrom(s, site, "/ask/result/csv?sql=select+1")
		if queries != want || !strings.Contains(shown.Body.String(), ">select 1</textarea>") {
			t.Errorf("from %s: %d queries, want %d; HTTP %d %s", site, queries, want, shown.Code, shown.Body)
		}
	}
}

func TestDownload(t *testing.T) {
	s := siteOf(t, Sources{Download: func(_ context.Context, sql, format string) (io.ReadCloser, error) {
		switch sql {
		case "wrong":
			return nil, serve.Refuse(http.StatusBadRequest, "there is no column <b>")
		case "away":
			return nil, ErrNothingPublished
		}
		return io.NopCloser(strings.NewReader(format + " of " + sql)), nil
	}})
	for path, want := range map[string]struct {
		code int
		says string
	}{
		"csv?sql=select+1":      {http.StatusOK, "csv of select 1"},
		"parquet?sql=select+1":  {http.StatusOK, "parquet of select 1"},
		"xlsx?sql=select+1":     {http.StatusOK, "xlsx of select 1"},
		"html?sql=select+1":     {http.StatusBadRequest, "csv, links, md, parquet or xlsx"},
		"csv":                   {http.StatusBadRequest, "A download needs SQL"},
		"csv?sql=wrong":         {http.StatusBadRequest, "there is no column <b>"},
		"csv?sql=away":          {http.StatusOK, "no published DuckDB file"},
		"..%2fcsv?sql=select+1": {http.StatusBadRequest, "csv, links, md, parquet or xlsx"},
	} {
		w := answer(s, "/ask/result/"+path)
		if w.Code != want.code || !strings.Contains(html.UnescapeString(w.Body.String()), want.says) {
			t.Errorf("%s: HTTP %d %s, want %d %s", path, w.Code, w.Body, want.code, want.says)
		}
		if isFile := strings.Contains(w.Body.String(), " of select"); isFile != (w.Header().Get("Content-Disposition") != "") {
			t.Errorf("%s: it is a file: %t, but the header is %v", path, isFile, w.Header())
		}
	}
}

// TestOneDownloadAtATime: a download may need much memory and disk space, and a minute.
func TestOneDownloadAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := siteOf(t, Sources{Download: func(ctx context.Context, _, _ string) (io.ReadCloser, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		began := time.Now()
		done := make(chan *httptest.ResponseRecorder)
		go func() { done <- answer(s, "/ask/result/csv?sql=x") }()
		synctest.Wait()
		if w := answer(s, "/ask/result/csv?sql=x"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("a second download: HTTP %d %s, want %d with Retry-After", w.Code, w.Body, http.StatusServiceUnavailable)
		}
		if w := <-done; w.Code != http.StatusServiceUnavailable || time.Since(began) != downloading {
			t.Errorf("the first download: HTTP %d %s after %s, want %d after %s",
				w.Code, w.Body, time.Since(began), http.StatusServiceUnavailable, downloading)
		}
		s.from.Download = func(context.Context, string, string) (io.ReadCloser, error) {
			return nil, errors.New("the disk is full")
		}
		if w := answer(s, "/ask/result/csv?sql=x"); w.Code != http.StatusInternalServerError {
			t.Errorf("a download after it: HTTP %d %s, want %d", w.Code, w.Body, http.StatusInternalServerError)
		}
	})
}

// TestAddressContainsSQL: the address can be shared, whatever characters the SQL has.
func TestAddressContainsSQL(t *testing.T) {
	const sql = "select '&=#?%' as \"ä\"\n+ 1"
	view := askView{SQL: sql}
	for _, address := range []string{view.File("csv"), Question{SQL: sql}.Address()} {
		u, err := url.Parse(address)
		if err != nil || u.Query().Get("sql") != sql {
			t.Errorf("%s contains the SQL %q, %v, want %q", address, u.Query().Get("sql"), err, sql)
		}
	}
}
