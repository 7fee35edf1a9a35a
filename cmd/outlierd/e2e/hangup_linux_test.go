package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"outlierd/outlier/simulator"
)

// TestHangupKeepsTheAnswerInProgress: the terminal of a run is closed while a paid call is in progress, and the
// signal comes twice, from the kernel and from the shell; or timeout(1) ends the run, which signals the process and
// its group. The answer is stored and published. Under nohup the run does not notice.
func TestHangupKeepsTheAnswerInProgress(t *testing.T) {
	t.Parallel() // it runs processes of its own
	for name, wrapper := range map[string][]string{"run": nil, "timeout": nil, "nohup": {"nohup"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := simulator.New(simulator.Options{Seed: 1, Limit: 1_000_000})
			asked, answer := make(chan bool), make(chan bool)
			server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/search/") {
					asked <- true
					<-answer
				}
				service.ServeHTTP(rw, r)
			}))
			t.Cleanup(server.Close)
			w := &testWorld{TB: t, dir: t.TempDir(), service: service, url: server.URL}
			w.write(`
version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 1000000/min}
budget: {per_month: 1000}
jobs: {tea: {search: {query: [tea], pages: 1}}}
`)
			cmd, out := w.command(t.Context(), "run")
			if wrapper != nil {
				program := cmd.Args
				cmd, out = w.command(t.Context())
				cmd.Path, cmd.Args = "/usr/bin/env", append(append([]string{"env"}, wrapper...), program...)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-asked
			sent := syscall.SIGHUP
			if name == "timeout" {
				sent = syscall.SIGTERM
			}
			for range 2 {
				if err := cmd.Process.Signal(sent); err != nil {
					t.Fatal(err)
				}
				time.Sleep(50 * time.Millisecond) // the second signal is one of its own
			}
			answer <- true
			_ = cmd.Wait() // the exit code tells
			code := cmd.ProcessState.ExitCode()
			if code != 0 && (wrapper != nil || code != 130) { // 0 also if all was done before the signal was noticed
				t.Errorf("the run ended with %s, want exit code 0 or, without nohup, 130\n%s", cmd.ProcessState, out)
			}
			var outcomes []string
			w.query("select outcome from ops.requests where operation = 'search'", func(values []any) {
				outcomes = append(outcomes, values[0].(string))
			})
			if got := strings.Join(outcomes, " "); got != "charged" {
				t.Errorf("searches %q, want one that is charged", got)
			}
			if n := len(w.rows("outliers")); n != 40 {
				t.Errorf("%d outliers are published, want 40", n)
			}
		})
	}
}
