package engine

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"outlierd/internal/testenv"
	"outlierd/sync/runs"
)

// TestBytesAfterGzipCostNoAnswer: a proxy may append a line break or other text to an answer.
func TestBytesAfterGzipCostNoAnswer(t *testing.T) {
	t.Parallel()
	all := []string{"\n", strings.Repeat("\x00", 512), "<!-- seen by the proxy -->"}
	if !*long {
		at := testenv.Random(t).IntN(len(all))
		all = all[at : at+1]
	}
	for _, after := range all {
		single(t, strings.Replace(oneCallFile, "%s", "details", 1), func(w *workshop) {
			w.wire = compressing(w.wire, "", after)
			w.mustRun(runs.OK)
			if n := w.count("select count(*) from outliers"); n != 40 || w.count("select count(*) from videos") != 1 {
				t.Errorf("%d outliers after %q, want those of the page, and one video", n, after)
			}
		})
	}
}

// TestErrorNamesAnswerSizeLimit that an answer exceeds, in the run that fails and in the log.
func TestErrorNamesAnswerSizeLimit(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	single(t, strings.Replace(oneCallFile, "%s", "details", 1), func(w *workshop) {
		var log bytes.Buffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		w.wire = compressing(w.wire, strings.Repeat(" ", 65<<20), "")
		row, err := w.run()
		if err == nil || row.Status != runs.Failed || !strings.Contains(row.Error, "bytes, and more than 64 MiB decompressed, which is the limit") {
			t.Errorf("run %+v, error %v", row, err)
		}
		if text := log.String(); !strings.Contains(text, "more than 64 MiB decompressed, which is the limit") || strings.Contains(text, "not a JSON object") {
			t.Errorf("log %s", text)
		}
	})
}

// compressing compresses answers, with a text before their end and one after the compressed bytes.
func compressing(wire http.RoundTripper, within, after string) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r.Header.Set("Accept-Encoding", "identity")
		answer, err := wire.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err = io.Copy(z, io.MultiReader(answer.Body, strings.NewReader(within)))
		if err != nil || z.Close() != nil {
			return nil, err
		}
		b.WriteString(after)
		answer.Header.Set("Content-Encoding", "gzip")
		answer.Header.Del("Content-Length")
		answer.Body, answer.ContentLength = io.NopCloser(&b), int64(b.Len())
		return answer, nil
	})
}
