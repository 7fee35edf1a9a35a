//go:build iceberg

package iceberg

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"outlierd/sinks"
	"outlierd/sinks/bucket/buckettest"
	"outlierd/sinks/sinktest"
)

// ranged is a store that also answers requests for a part of an object.
func ranged(store *buckettest.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		store.ServeHTTP(answer, r)
		maps.Copy(w.Header(), answer.Header())
		if r.Method == http.MethodGet && answer.Code == http.StatusOK && r.Header.Get("Range") != "" {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(answer.Body.Bytes()))
			return
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // to a client that may have left
	})
}

// TestBucketThatRefuses: the message says what to do, also about requests whose answers have no text; nothing is
// lost, and no rebuild is suggested.
func TestBucketThatRefuses(t *testing.T) {
	t.Parallel()
	for code, says := range map[string]string{
		"ExpiredToken":          "the credentials have expired: renew them",
		"SignatureDoesNotMatch": "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
		"AccessDenied":          "allow the credentials s3:ListBucket",
		"NoSuchBucket":          "create the bucket, or correct its address",
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			dir, journal, name := t.TempDir(), sinktest.Sample(4), strings.ToLower(code)
			store := buckettest.New(name)
			server := httptest.NewServer(ranged(store))
			defer server.Close()
			o := options(dir, "a")
			o.Warehouse = "s3://" + name + "/lake"
			o.Env = func(name string) (string, bool) {
				value, ok := map[string]string{
					"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "s3cret",
				}[name]
				return value, ok
			}
			open := func(t testing.TB, _ string) sinks.Sink {
				t.Helper()
				s, err := Open(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := open(t, dir).(*Sink)
			fill(t, s, journal, 2)
			refusing := func(w http.ResponseWriter, r *http.Request) bool {
				status := http.StatusForbidden
				if code == "NoSuchBucket" {
					status = http.StatusNotFound
				}
				buckettest.Refuse(w, status, code)
				return true
			}
			store.SetFault(refusing)
			b := journal.Batch(2, 4)
			err := s.Write(t.Context(), b)
			sinktest.Release(b)
			failed := []error{err}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			_, err = Open(t.Context(), o)
			failed = append(failed, err, Probe(t.Context(), o))
			for _, err := range failed {
				if err == nil || !strings.Contains(err.Error(), code) || !strings.Contains(err.Error(), says) ||
					strings.Contains(err.Error(), "s3cret") || errors.Is(err, ErrRebuild) {
					t.Errorf("error %v, want %q and %q", err, code, says)
				}
			}
			store.SetFault(nil)
			s = open(t, dir).(*Sink)
			fill(t, s, journal, 4)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			k := sinktest.Sink{Read: readOptions(o)}
			k.Check(t, dir, journal, 4)
		})
	}
}
