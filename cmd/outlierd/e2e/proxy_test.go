package e2e

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/outlier/simulator"
)

// TestProxyPasswordRequestIsFree: the proxy answers a paid call itself, and the service never gets it.
func TestProxyPasswordRequestIsFree(t *testing.T) {
	t.Parallel() // it runs processes of its own
	service := simulator.New(simulator.Options{Seed: 1, Limit: 1_000_000})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/search/outliers" {
			service.ServeHTTP(w, r) // the service's time is learned first
			return
		}
		w.Header().Set("Proxy-Authenticate", `Basic realm="office"`)
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	t.Cleanup(proxy.Close)
	w := &testWorld{TB: t, dir: t.TempDir(), url: "http://service.example.com"}
	w.write(`
version: 1
service: {url: "${OUTLIERD_URL}", allow_http: true, key: "${OUTLIERD_KEY}", limit: 1000000/min}
budget: {per_month: 100}
jobs: {coffee: {search: {query: coffee}}}
`)
	run, out := w.command(t.Context(), "run", "coffee")
	run.Env = append(run.Env, "HTTP_PROXY="+proxy.URL, "NO_PROXY=")
	if err := run.Run(); err == nil {
		t.Errorf("the run succeeded:\n%s", out)
	}
	programtest.Contains(t, out.String(),
		"the proxy "+strings.TrimPrefix(proxy.URL, "http://")+" did not forward the request: HTTP 407",
		"nothing was sent and no credits were spent")
	// Nothing is held, spent or unknown; all three attempts were refunded.
	if got := w.mustRun("budget"); !regexp.MustCompile(`(?m)^cycle from .* 100 +0 +100 +0 +6$`).MatchString(got) {
		t.Errorf("the call counts in the budget:\n%s", got)
	}
}
