//go:build iceberg

package iceberg

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"outlierd/sinks/bucket/buckettest"
	"outlierd/sinks/sinktest"
)

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
			server := httptest.NewServer(store)
			defer server.Close()
			o := options(dir, "a")
			o.Warehouse = "s3://" + name + "/lake"
			o.Env = func(name string) (string, bool) {
				value, ok := map[string]string{
					"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "s3cret",
				}[name]
				return value, ok
			}
			l := openAs(o).Line(t, dir)
			l.Write(t, journal, 0, 2)
			l.Publish(t)
			refusing := func(w http.ResponseWriter, r *http.Request) bool {
				status := http.StatusForbidden
				if code == "NoSuchBucket" {
					status = http.StatusNotFound
				}
				buckettest.Refuse(w, status, code)
				return true
			}
			store.SetFault(refusing)
			l.Write(t, journal, 2, 4)
			failed := []error{l.Copy.Publish(t.Context())}
			if err := l.Copy.Close(); err != nil {
				t.Fatal(err)
			}
			_, err := New(l.Warehouse, o).Shows(t.Context())
			failed = append(failed, err, Probe(t.Context(), o))
			for _, err := range failed {
				if err == nil || !strings.Contains(err.Error(), code) || !strings.Contains(err.Error(), says) ||
					strings.Contains(err.Error(), "s3cret") || errors.Is(err, ErrRebuild) {
					t.Errorf("error %v, want %q and %q", err, code, says)
				}
			}
			store.SetFault(nil)
			l.Copy = openAs(o)(t, dir, l.Warehouse)
			l.Publish(t)
			l.Check(t, journal, 4)
			l.Close(t)
		})
	}
}
