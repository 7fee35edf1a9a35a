package engine

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"outlierd/internal/testenv"
	"outlierd/schema"
	"outlierd/sync/runs"
)

// altering returns a transport that changes the bodies of answers.
func altering(wire http.RoundTripper, change func(path string, body []byte) []byte) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Del("Accept-Encoding")
		answer, err := wire.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return nil, err
		}
		body = change(r.URL.Path, body)
		answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		answer.Header.Del("Content-Length")
		return answer, answer.Body.Close()
	})
}

// TestOneBadValueCostsNoPage: a byte that is not UTF-8 is replaced, a title of many megabytes is cut, and a
// bare NaN, as Python writes it, is null, in both sinks. The other hits do not change, and the journal has everything.
func TestOneBadValueCostsNoPage(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	const file = "version: 1\nservice: {url: \"sim://\"}\njobs: {coffee: {search: {query: [home espresso]}}}\n"
	bubble(t, file, func(w *workshop) {
		title := []byte(`"title":"`)
		w.wire = altering(w.wire, func(path string, body []byte) []byte {
			body = bytes.Replace(body, regexp.MustCompile(`"zScore":[^,}]+`).Find(body), []byte(`"zScore":NaN`), 1)
			at := bytes.Index(body, title) + len(title)
			body = append(body[:at:at], append([]byte("\xff"), body[at:]...)...)
			at = bytes.LastIndex(body, title) + len(title)
			return append(body[:at:at], append(bytes.Repeat([]byte("x"), 5<<20), body[at:]...)...)
		})
		row := w.mustRun(runs.OK)
		if row.Hits != 40 || w.spent() != 2 {
			t.Errorf("%d hits for %d credits, want 40 for 2", row.Hits, w.spent())
		}
		for _, table := range []string{"outliers", "read_parquet('" + filepath.Join(w.data(), "parquet", "outliers") + "/*.parquet')"} {
			if n := w.count("select count(*) from " + table); n != 40 {
				t.Errorf("%d rows in %s, want 40", n, table)
			}
			if n := w.count("select count(*) from " + table + " where title like '\ufffd%'"); n != 1 {
				t.Errorf("%d titles in %s have a replaced byte, want 1", n, table)
			}
			if n := w.count("select count(*) from " + table + " where z_score is null"); n != 1 {
				t.Errorf("%d hits in %s have no z-score, want 1", n, table)
			}
			if n := w.count("select max(strlen(title)) from " + table + " where title like 'xxx%… [cut from %'"); n != schema.MaxValue {
				t.Errorf("the title that was cut has %d bytes in %s, want %d", n, table, schema.MaxValue)
			}
		}
		w.inspect(func(e *Engine) {
			for entry, err := range e.Store.Journal.After(0) {
				if err != nil || !bytes.Contains(entry.Body, []byte(`"title":"`+"\xff")) || len(entry.Body) < 5<<20 {
					t.Errorf("answer %d is not as it came (%d bytes), %v", entry.ID, len(entry.Body), err)
				}
			}
			drift, err := e.Store.Learned.Drift()
			var told []string
			for _, d := range drift {
				told = append(told, d.Path+" "+d.Problem)
			}
			if got, want := strings.Join(told, ", "), "hits[].snippet.title not UTF-8, hits[].snippet.title too large"; got != want || err != nil {
				t.Errorf("drift %q, %v, want %q", got, err, want)
			}
		})
	})
}

// TestEchoedKeyIsNotStored: the service copies the request's headers into its answers, partly escaped.
func TestEchoedKeyIsNotStored(t *testing.T) {
	t.Parallel()
	spelled := []string{testKey, strings.Replace(testKey, "-", `\u002d`, 1), strings.ReplaceAll(testKey, "-", "%2D"), "YS1rZXktZm9yLXRlc3Rz"}
	file := "version: 1\nservice: {url: \"sim://\"}\njobs: {coffee: {search: {query: [home espresso]}, enrich: {details: {top: 1}, comments: {top: 1}}}}\n"
	single(t, file, func(w *workshop) {
		var log strings.Builder
		w.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		w.wire = altering(w.wire, func(path string, body []byte) []byte {
			if strings.HasPrefix(path, "/video/comments/") {
				return []byte(`{"status":"error","error":{"message":"refused: Api-Key ` + spelled[1] + `"}}`)
			}
			echo := `"request":{"Authorization":["Api-Key ` + strings.Join(spelled, `","`) + `"]},"id":`
			return bytes.Replace(body, []byte(`"id":`), []byte(echo), 2)
		})
		w.mustRun(runs.Partial)
		told := strings.Join(w.rows("select extra from outliers where extra is not null"), " ") +
			strings.Join(w.rows("select error from ops.runs where error is not null"), " ")
		w.inspect(func(e *Engine) {
			for entry, err := range e.Store.Journal.After(0) {
				if told += string(entry.Body); err != nil || len(entry.Body) == 0 {
					t.Errorf("answer %d has %d bytes, %v", entry.ID, len(entry.Body), err)
				}
			}
			drift, err := e.Store.Learned.Drift()
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range drift {
				told += d.Example
			}
		})
		for _, name := range []string{"outliers.duckdb", "state/state.db", "state/warehouse.duckdb"} {
			text, err := os.ReadFile(filepath.Join(w.data(), name))
			if err != nil {
				t.Fatal(err)
			}
			told += string(text)
		}
		if n := strings.Count(told, "[redacted]"); n < 8 {
			t.Errorf("[redacted] %d times: this test shows nothing", n)
		}
		for _, text := range spelled {
			if strings.Contains(told+log.String(), text) {
				t.Errorf("%s is kept or logged", text)
			}
		}
	})
}
