package bucket

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"outlierd/sinks/bucket/buckettest"
)

// TestStatSaysWhyItWasRefused over real HTTP, where the response to a HEAD request has no error code.
func TestStatSaysWhyItWasRefused(t *testing.T) {
	t.Parallel()
	store := buckettest.New("outliers")
	store.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
		buckettest.Refuse(w, http.StatusForbidden, "ExpiredToken")
		return true
	})
	server := httptest.NewServer(store)
	defer server.Close()
	objects, err := OpenObjects(Options{Address: "s3://outliers", Env: func(name string) (string, bool) {
		value, ok := map[string]string{
			"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "s3cret",
		}[name]
		return value, ok
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = objects.Stat(t.Context(), "lake/file")
	if want := "the credentials have expired"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}
