package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/load"
	"outlierd/sync/store"
)

// listening starts a server on the socket of a folder. Its engine keeps no schedule.
func listening(t *testing.T, dir string, patience time.Duration) *Server {
	t.Helper()
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(&engine.Engine{Config: &job.Config{Path: "/etc/jobs.yaml"}}, "1.2.3", patience)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
	return s
}

// connect opens a raw connection, for clients that send anything.
func connect(t *testing.T, dir string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", Socket(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func mustDial(t *testing.T, dir string) *Client {
	t.Helper()
	c, err := Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSocketIsPrivate(t *testing.T) {
	short, long := t.TempDir(), filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	for name, dir := range map[string]string{"short": short, "longer than a socket's path may be": long} {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if _, err := Dial(t.Context(), dir); !errors.Is(err, ErrNoDaemon) {
				t.Errorf("Dial without a socket: %v, want %v", err, ErrNoDaemon)
			}
			killed, err := Listen(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := killed.Close(); err != nil { // the file stays
				t.Fatal(err)
			}
			if _, err := Dial(t.Context(), dir); !errors.Is(err, ErrNoDaemon) {
				t.Errorf("Dial the socket of a killed process: %v, want %v", err, ErrNoDaemon)
			}
			s := listening(t, dir, time.Minute)
			if info, err := os.Stat(Socket(dir)); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the socket: %v, %v; want 0600", info, err)
			}
			c := mustDial(t, dir)
			want := About{Interface: Version, Program: "1.2.3", PID: os.Getpid(), Config: "/etc/jobs.yaml"}
			if diff := cmp.Diff(want, c.About, cmpopts.IgnoreFields(About{}, "Started")); diff != "" || c.Started.IsZero() {
				t.Errorf("about the daemon, started %s (-want +got):\n%s", c.Started, diff)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := Dial(t.Context(), dir); !errors.Is(err, ErrNoDaemon) {
				t.Errorf("Dial after Close: %v, want %v", err, ErrNoDaemon)
			}
		})
	}
}

// TestSocketOfAnotherDaemon: a daemon whose folder was moved away leaves the socket of the one that
// took its place.
func TestSocketOfAnotherDaemon(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	old, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(dir, dir+".away"), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	listening(t, dir, time.Minute)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	mustDial(t, dir)
}

// TestMalformedRequestsAreRefused: with a message that names the mistake, and the next client is served.
func TestMalformedRequestsAreRefused(t *testing.T) {
	dir := t.TempDir()
	s := listening(t, dir, time.Minute)
	s.Stop() // so that well-formed requests are refused, too, and do not wait for a schedule
	post := func(path, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: outlierd\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	}
	for name, c := range map[string]struct{ sends, want string }{
		"another protocol": {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400 Bad Request"},
		"another version": {"GET /v2/runs HTTP/1.1\r\nHost: outlierd\r\n\r\n",
			"GET /v2/runs is not in version 1 of the interface, which outlierd 1.2.3 has"},
		"another method": {"GET /v1/runs HTTP/1.1\r\nHost: outlierd\r\n\r\n", "404 Not Found"},
		"not JSON":       {post("/v1/Adjust", "credits=5"), "read the request: invalid character 'c'"},
		"unknown key":    {post("/v1/runs", `{"jobs": "coffee"}`), `unknown field \"jobs\"`},
		"wrong type":     {post("/v1/SetCursors", `{"job": 5}`), "cannot unmarshal number"},
		"two documents":  {post("/v1/ClearQueue", `{"job": "a"} {"job": "b"}`), "more than one document"},
		"too many headers": {"GET /v1 HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", 10_000),
			"431 Request Header Fields Too Large"},
		"hostile names":           {post("/v1/runs/%2e%2e%2f%00/cancel", `{}`), "the daemon is stopping"},
		"while the daemon stops":  {post("/v1/ClearQueue", `{"job": "a"}`), "503 Service Unavailable"},
		"an order while it stops": {post("/v1/runs", `{"job": "a", "version": "", "trigger": "manual"}`), `"kinds":["stopped"]`},
		"a body of 100 MB": {"POST /v1/runs HTTP/1.1\r\nHost: outlierd\r\nContent-Length: 104857600\r\n\r\n" +
			strings.Repeat("x", maxBody+1), "request body too large"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := connect(t, dir)
			go func() { _, _ = io.WriteString(conn, c.sends) }() // the server may not read all of it
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			_, _ = io.Copy(&text, answer.Body)
			if all := answer.Status + " " + text.String(); !strings.Contains(all, c.want) {
				t.Errorf("the answer is %s, want %q in it", all, c.want)
			}
			mustDial(t, dir)
		})
	}
}

// TestSlowClientsAreDisconnected: those that send nothing, half a header or half a body.
func TestSlowClientsAreDisconnected(t *testing.T) {
	dir := t.TempDir()
	listening(t, dir, 50*time.Millisecond)
	for name, sends := range map[string]string{
		"nothing":       "",
		"half a header": "POST /v1/runs HTTP/1.1\r\nHost:",
		"half a body":   "POST /v1/runs HTTP/1.1\r\nHost: outlierd\r\nContent-Length: 100\r\n\r\n{\"job\":",
	} {
		t.Run(name, func(t *testing.T) {
			conn := connect(t, dir)
			if _, err := io.WriteString(conn, sends); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Errorf("the connection is not closed: %v", err)
			}
		})
	}
	var err error
	for range 100 { // on a busy machine this client may be slow, too
		if _, err = Dial(t.Context(), dir); err == nil {
			return
		}
	}
	t.Errorf("no other client is served: %v", err)
}

// served starts any HTTP handler on the socket of a folder, which it returns.
func served(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	dir := t.TempDir()
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	return dir
}

func TestDialReportsForeignDaemons(t *testing.T) {
	for name, c := range map[string]struct {
		answers http.HandlerFunc
		want    string
	}{
		"not JSON": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<html>")
		}, "is it another version of outlierd?"},
		"no such path": {http.NotFound, "is it another version of outlierd?"},
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, "does not answer; stop it, and start it again"},
		"closes the connection": {func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}, "ended before its answer"},
		"other JSON": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "[1]")
		}, "is it another version of outlierd?"},
	} {
		t.Run(name, func(t *testing.T) {
			within := answerTimeout
			if name == "hangs" {
				within = 100 * time.Millisecond
			}
			_, err := dialSocket(t.Context(), served(t, c.answers), within)
			if err == nil || errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Dial: %v, want %q in it", err, c.want)
			}
		})
	}
	newer := served(t, func(w http.ResponseWriter, _ *http.Request) {
		writeDocument(w, http.StatusOK, About{Interface: 2, Program: "9.0", PID: 77})
	})
	err := mustDial(t, newer).Understands("1.2.3")
	want := "another version: 'outlierd up' (process 77) is outlierd 9.0 (interface 2), " +
		"and this is outlierd 1.2.3 (interface 1); restart it with this version, or use that one"
	if err == nil || err.Error() != want || !errors.Is(err, ErrOtherVersion) {
		t.Errorf("Understands: %v\nwant %s", err, want)
	}
}

// TestOrderReportsALostDaemon: a run has started, and the process that performs it is killed.
func TestOrderReportsALostDaemon(t *testing.T) {
	dir := served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			writeDocument(w, http.StatusOK, About{Interface: Version, PID: 77})
			return
		}
		_ = json.NewEncoder(w).Encode(Event{Run: "r1", Joined: true})
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	var begun Event
	_, err := mustDial(t, dir).Order(t.Context(), Order{}, func(e Event) { begun = e })
	if begun.Run != "r1" || !begun.Joined {
		t.Errorf("Order: begun %+v, error %v; want run r1, joined", begun, err)
	}
	lost, ok := errors.AsType[*LostError](err)
	if !ok || lost.Daemon != "'outlierd up' (process 77)" {
		t.Errorf("Order: %v, want a LostError of the daemon", err)
	}
}

// TestErrorsSurviveEncoding: with the kinds and details that decide about exit codes and remedies.
func TestErrorsSurviveEncoding(t *testing.T) {
	sent := fmt.Errorf("job a: %w", errors.Join(
		&outlier.Error{Kind: outlier.Unauthorized, Op: outlier.OpSearch, Status: 401},
		&pace.LongWaitError{}, &store.LowSpaceError{Dir: "data"},
		&load.AheadError{}, &load.SinksDownError{Err: io.EOF}, ErrStopped, ErrOtherJobs))
	text, err := json.Marshal(failureOf(sent))
	if err != nil {
		t.Fatal(err)
	}
	var f Failure
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	got := decodeFailure(&f)
	if got.Error() != sent.Error() {
		t.Errorf("the message is %q, want %q", got, sent)
	}
	service, isService := errors.AsType[*outlier.Error](got)
	if !isService || service.Kind != outlier.Unauthorized {
		t.Errorf("service error %v, want kind %s", service, outlier.Unauthorized)
	}
	for i, is := range []bool{as[*pace.LongWaitError](got), as[*store.LowSpaceError](got), as[*load.AheadError](got),
		as[*load.SinksDownError](got), errors.Is(got, ErrStopped), errors.Is(got, ErrOtherJobs)} {
		if !is {
			t.Errorf("kind %d of those sent is missing in %s", i, text)
		}
	}
	if as[*outlier.UnkeptError](got) || as[*RefusedError](got) || as[*engine.CancelledError](got) {
		t.Errorf("kinds that were not sent are received from %s", text)
	}
	if failureOf(nil) != nil || decodeFailure(nil) != nil {
		t.Errorf("nil is encoded as %v and decoded as %v, want nil", failureOf(nil), decodeFailure(nil))
	}
}

func as[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

func TestRequestsEndWithTheirContext(t *testing.T) {
	dir := t.TempDir()
	listening(t, dir, time.Minute)
	c := mustDial(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := c.Order(ctx, Order{Asked: job.Asked{Job: "a"}, Trigger: engine.Manual}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Order: %v, want %v", err, context.Canceled)
	}
	if _, err := Send(ctx, c, ClearQueue{Job: "a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Send: %v, want %v", err, context.Canceled)
	}
}

// TestLoginNeedsAPage: a daemon without one refuses tickets.
func TestLoginNeedsAPage(t *testing.T) {
	dir := t.TempDir()
	s := listening(t, dir, time.Minute)
	c := mustDial(t, dir)
	if _, err := c.Login(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "serves no page") {
		t.Errorf("login without a page: %v, want a refusal", err)
	}
	s.Provide(Documents{Page: "http://localhost:7411", Ticket: func() string { return "/login?ticket=1" }})
	if ticket, err := c.Login(t.Context()); err != nil || ticket.Path != "/login?ticket=1" {
		t.Errorf("ticket %+v, error %v; want /login?ticket=1", ticket, err)
	}
}

// TestStuckScheduleIsReported once it has made no progress for ten minutes since the daemon has started.
func TestStuckScheduleIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&engine.Engine{Config: &job.Config{}}, "test")
		for _, c := range []struct{ after, want time.Duration }{{stuckAfter, 0}, {time.Second, stuckAfter + time.Second}} {
			time.Sleep(c.after)
			if got := s.Describe().Stuck.Duration; got != c.want {
				t.Errorf("stuck for %s after %s more, want %s", got, c.after, c.want)
			}
		}
	})
}

// TestRemedyDependsOnCurrentFile on disk, as far as the daemon knows it.
func TestRemedyDependsOnCurrentFile(t *testing.T) {
	s := listening(t, t.TempDir(), time.Minute)
	for _, c := range []struct{ changed, refused, want string }{
		{"", "", "That is the file on disk: use it here, too, with the same variables"},
		{ReadSoon, "", "The file on disk is read there within a minute, or at once on SIGHUP: repeat the command then"},
		{ReadOnSignal, "", "Reload the file there (SIGHUP, or a restart)"},
		{ReadOnSignal, "jobs.yaml:5:3: unknown key evry", "Reload the file there (SIGHUP, or a restart)"},
		{"", "jobs.yaml:5:3: unknown key evry", "The file on disk was refused there: jobs.yaml:5:3: unknown key evry"},
	} {
		s.Compare(func() (refused, changed string) { return c.refused, c.changed })
		if got := s.differenceRemedy(); got != c.want {
			t.Errorf("with a change %q and refusal %q: %q, want %q", c.changed, c.refused, got, c.want)
		}
	}
}
