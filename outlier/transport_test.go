package outlier

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
)

// A rawServer answers each connection with raw bytes and then closes it.
type rawServer struct {
	net.Listener
	answer  string
	serving sync.WaitGroup

	mu       sync.Mutex
	received []string // what came over each connection, with the body that its length announces
}

func newRawServer(t *testing.T, answer string) *rawServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{Listener: listener, answer: answer}
	s.serving.Go(s.serve)
	t.Cleanup(s.stop)
	return s
}

// stop waits until every connection has been read to its end.
func (s *rawServer) stop() {
	s.Close()
	s.serving.Wait()
}

func (s *rawServer) serve() {
	for {
		conn, err := s.Accept()
		if err != nil {
			return
		}
		s.serving.Go(func() {
			defer conn.Close()
			got := receive(bufio.NewReader(conn))
			s.mu.Lock()
			s.received = append(s.received, got)
			s.mu.Unlock()
			_, _ = io.WriteString(conn, s.answer) // a client that gave up is no concern of the server
		})
	}
}

// receive reads one request, or what arrives of it.
func receive(from *bufio.Reader) string {
	var got strings.Builder
	length := int64(0)
	for {
		line, err := from.ReadString('\n')
		got.WriteString(line)
		if err != nil || line == "\r\n" {
			break
		}
		if value, ok := strings.CutPrefix(line, "Content-Length: "); ok {
			length, _ = strconv.ParseInt(strings.TrimSpace(value), 10, 64) // 0 if the value is no number
		}
	}
	_, _ = io.CopyN(&got, from, length) // a body that is cut short shows in what was got
	return got.String()
}

func (s *rawServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text) // a buffer takes everything
	_ = w.Close()
	return b.String()
}

func TestAnswersOverTheWire(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	page := `{"hits":[` + strings.Repeat(hit+",", 50) + hit + `]}`
	zip := zipped(page)
	for name, tt := range map[string]struct {
		answer  string
		outcome Outcome
		kind    Kind
		bytes   int // of the body kept
	}{
		"with a length":                {ok + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(page)) + page, Charged, "", len(page)},
		"ended by closing":             {ok + "\r\n" + page, Charged, "", len(page)},
		"in chunks":                    {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", Charged, "", 2},
		"compressed":                   {ok + "Content-Encoding: gzip\r\n\r\n" + zip, Charged, "", len(zip)},
		"shorter than its length":      {ok + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(page)) + page[:99], Unknown, Lost, 99},
		"chunks break off":             {ok + "Transfer-Encoding: chunked\r\n\r\n9\r\n{\"hits\":[\r\n", Unknown, Lost, 9},
		"whole in chunks without end":  {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", Charged, "", 2},
		"whole, shorter than length":   {ok + "Content-Length: 7\r\n\r\n{}", Charged, "", 2},
		"cut where closing ends it":    {ok + "\r\n" + page[:99], Unknown, Lost, 99},
		"compressed, cut":              {ok + "Content-Encoding: gzip\r\n\r\n" + zip[:99], Unknown, Lost, 99},
		"compressed, cut in its sum":   {ok + "Content-Encoding: gzip\r\n\r\n" + zip[:len(zip)-3], Charged, "", len(page)},
		"compressed, nothing left":     {ok + "Content-Encoding: gzip\r\n\r\n", Unknown, Lost, 0},
		"compressed, wrong sum":        {ok + "Content-Encoding: gzip\r\n\r\n" + zip[:len(zip)-8] + "12345678", Charged, Malformed, len(zip)},
		"compressed, then cut JSON":    {ok + "Content-Encoding: gzip\r\n\r\n" + zipped(page[:99]), Unknown, Lost, len(zipped(page[:99]))},
		"compressed, bytes after it":   {ok + "Content-Encoding: gzip\r\n\r\n" + zip + "\r\n", Charged, "", len(zip)},
		"compressed, cut, bytes after": {ok + "Content-Encoding: gzip\r\n\r\n" + zipped(page[:99]) + "\r\n", Unknown, Lost, len(zipped(page[:99]))},
		"compressed in two parts":      {ok + "Content-Encoding: gzip\r\n\r\n" + zipped(page[:99]) + zipped(page[99:]), Charged, "", len(zipped(page[:99])) + len(zipped(page[99:]))},
		"compressed refusal":           {"HTTP/1.1 404 X\r\nContent-Encoding: gzip\r\n\r\n" + zipped(`{"status":"error","error":{"message":"m"}}`), Refunded, NotFound, len(zipped(`{"status":"error","error":{"message":"m"}}`))},
		"no answer":                    {"", Unknown, Lost, 0},
		"not HTTP":                     {"220 mail ready\r\n", Unknown, Lost, 0},
		"header without end":           {ok, Unknown, Lost, 0},
		"header too large":             {ok + "X: " + strings.Repeat("x", 70<<10) + "\r\n\r\n{}", Unknown, Lost, 0},
		"early hints before it":        {"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + ok + "Content-Length: 2\r\n\r\n{}", Charged, "", 2},
		"another protocol":             {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", Unknown, Foreign, 0},
		"a body larger than the limit": {ok + "\r\n[" + strings.Repeat(" ", maxWire), Unknown, Malformed, maxWire},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRawServer(t, tt.answer)
			for n, r := range []*Request{search(t), scan(t)} {
				b := &books{}
				a, err := (&Client{URL: "http://" + s.Addr().String(), Key: secret(t)}).Do(t.Context(), r, b)
				if b.outcome != tt.outcome || kindOf(err) != tt.kind {
					t.Errorf("%s: %s, %q (%v); want %s, %q", r.op, b.outcome, kindOf(err), err, tt.outcome, tt.kind)
				}
				if len(a.Body) != tt.bytes {
					t.Errorf("%s: kept %d bytes of the body, want %d", r.op, len(a.Body), tt.bytes)
				}
				if got := s.requests(); len(got) != n+1 {
					t.Errorf("%s: %d requests came in all, want %d: %q", r.op, len(got), n+1, got)
				}
			}
		})
	}
}

func TestGzipIsKeptAndOpened(t *testing.T) {
	s := newRawServer(t, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"+zipped(`{"hits":[]}`))
	a, err := (&Client{URL: "http://" + s.Addr().String()}).Do(t.Context(), search(t), &books{})
	if err != nil {
		t.Fatal(err)
	}
	body, err := a.JSON()
	if a.Encoding != "gzip" || string(a.Body) != zipped(`{"hits":[]}`) || string(body) != `{"hits":[]}` || err != nil {
		t.Errorf("kept %q as %q, opened as %q, %v", a.Body, a.Encoding, body, err)
	}
	stored := Answer{Body: a.Body, Encoding: a.Encoding}
	if again, err := stored.JSON(); string(again) != string(body) || err != nil {
		t.Errorf("from the journal it opens as %q, %v", again, err)
	}
}

// A gzip body that inflates to more than 64 MiB is refused.
func TestExcessiveGzipIsRefused(t *testing.T) {
	testenv.RacesLittle(t)
	a := Answer{Body: []byte(zipped(strings.Repeat(" ", maxOpen+1))), Encoding: "gzip"}
	if body, err := a.JSON(); err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

func TestEachCallHasItsOwnConnection(t *testing.T) {
	var connections atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !r.Close || r.ProtoMajor != 1 {
			t.Errorf("%s, close=%v", r.Proto, r.Close)
		}
		fmt.Fprint(w, `{"items":[]}`)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	transport, err := NewTransport("")
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{URL: s.URL, Transport: transport}
	for _, r := range []*Request{search(t), about(t, OpDetails, 1), about(t, OpDetails, 2), search(t), search(t)} {
		if _, err := c.Do(t.Context(), r, &books{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := connections.Load(); got != 5 {
		t.Errorf("5 calls used %d connections", got)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	target := newRawServer(t, "HTTP/1.1 200 OK\r\n\r\n{}")
	for _, status := range []int{301, 302, 303, 307, 308} {
		location := fmt.Sprintf("http://%s/private?token=t", target.Addr())
		s := newRawServer(t, fmt.Sprintf("HTTP/1.1 %d X\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", status, location))
		b := &books{}
		_, err := (&Client{URL: "http://" + s.Addr().String(), Key: secret(t)}).Do(t.Context(), search(t), b)
		want := fmt.Sprintf("search: HTTP %d: redirected to 127.0.0.1; redirects are not followed, because they could leak the key", status)
		if fmt.Sprint(err) != want || b.outcome != Unknown {
			t.Errorf("settled %s; error is\n%v\nwant\n%s", b.outcome, err, want)
		}
	}
	if got := target.requests(); len(got) != 0 {
		t.Errorf("the target got %q", got)
	}
}

func TestScanIsSentOnceAsJSON(t *testing.T) {
	s := newRawServer(t, "") // it hangs up
	b := &books{}
	_, err := (&Client{URL: "http://" + s.Addr().String(), Key: secret(t)}).Do(t.Context(), scan(t), b)
	if b.outcome != Unknown || kindOf(err) != Lost {
		t.Errorf("settled %s, error %v", b.outcome, err)
	}
	s.stop()
	body := `{"findBy":"query","mode":"standard","query":["a b","ü\u0026"]}`
	want := fmt.Sprintf("POST /scan HTTP/1.1\r\nHost: %s\r\nUser-Agent: outlierd\r\nContent-Length: %d\r\n"+
		"Accept: application/json\r\nAccept-Encoding: gzip\r\nAuthorization: Api-Key sk-canary\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n%s",
		s.Addr(), len(body), body)
	if diff := cmp.Diff([]string{want}, s.requests()); diff != "" {
		t.Errorf("requests (-want +sent):\n%s", diff)
	}
}

// A transport that keeps connections sends a request again if the connection was closed and the body
// can be read a second time.
func TestClosedConnectionDoesNotResendScan(t *testing.T) {
	var answered atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answered.Add(1) > 1 {
			panic(http.ErrAbortHandler) // hangs up on all but the first
		}
		fmt.Fprint(w, `{}`)
	}))
	defer s.Close()
	keeping := &http.Transport{}
	defer keeping.CloseIdleConnections()
	c := &Client{URL: s.URL, Transport: keeping}
	for n, want := range []Outcome{Charged, Unknown, Unknown} {
		b := &books{}
		if _, err := c.Do(t.Context(), scan(t), b); b.outcome != want {
			t.Errorf("scan %d: settled %s (%v), want %s", n, b.outcome, err, want)
		}
	}
	if got := answered.Load(); got != 3 {
		t.Errorf("3 scans came as %d requests", got)
	}
}

// A GET is sent again by itself on a second connection if the first, kept one turns out
// to be closed. That would be a second purchase within one attempt.
func TestClosedConnectionDoesNotResendSearch(t *testing.T) {
	var came atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if came.Add(1) > 1 {
			panic(http.ErrAbortHandler) // hangs up on all but the first
		}
		fmt.Fprint(w, `{"hits":[]}`)
	}))
	defer s.Close()
	keeping := &http.Transport{}
	defer keeping.CloseIdleConnections()
	c := &Client{URL: s.URL, Transport: keeping}
	for n, want := range []struct {
		outcome Outcome
		lines   []string
	}{
		{Charged, []string{"reserve 2", "sending", "settle charged"}},
		{Unknown, []string{"reserve 2", "sending", "settle unknown"}}, // marked once, sent once
	} {
		b := &books{}
		_, err := c.Do(t.Context(), search(t), b)
		if diff := cmp.Diff(want.lines, b.lines); diff != "" || b.outcome != want.outcome {
			t.Errorf("search %d: %v (-want +got):\n%s", n, err, diff)
		}
	}
	if got := came.Load(); got != 2 {
		t.Errorf("2 searches came as %d requests", got)
	}
}

func TestNothingIsWrittenIfMarkingFails(t *testing.T) {
	s := newRawServer(t, "HTTP/1.1 200 OK\r\n\r\n{}")
	c := &Client{URL: "http://" + s.Addr().String(), Key: secret(t)}
	for range 50 {
		b := &books{veto: errors.New("disk full")}
		_, err := c.Do(t.Context(), search(t), b)
		if kindOf(err) != Unsent || b.outcome != Refunded || !errors.Is(err, b.veto) {
			t.Fatalf("settled %s, error %v", b.outcome, err)
		}
	}
	// An allowed call: when it is answered, the server has accepted all earlier ones.
	if _, err := c.Do(t.Context(), search(t), &books{}); err != nil {
		t.Fatal(err)
	}
	s.stop()
	got := slices.DeleteFunc(s.requests(), func(head string) bool { return head == "" })
	if len(got) != 1 {
		t.Errorf("of 51 calls only the last was allowed; the server got %d: %q", len(got), got)
	}
}

func TestCallThatCannotConnectIsRefunded(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	private := httptest.NewUnstartedServer(http.NotFoundHandler())
	private.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs each refused handshake
	private.StartTLS()
	defer private.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for name, address := range map[string]string{
		"nobody listens":        "http://" + closed.Addr().String(),
		"unknown certificate":   private.URL,
		"no such scheme":        "gopher://localhost",
		"TLS to a plain server": strings.Replace(plain.URL, "http", "https", 1),
	} {
		b := &books{}
		a, err := (&Client{URL: address}).Do(t.Context(), search(t), b)
		if kindOf(err) != Unsent || b.outcome != Refunded || !a.SentAt.IsZero() {
			t.Errorf("%s: settled %s, error %v", name, b.outcome, err)
		}
	}
}

func TestPrivateCertificatesAreTrustedOnRequest(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) }))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	transport, err := NewTransport(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (&Client{URL: s.URL, Transport: transport}).Do(t.Context(), search(t), &books{}); err != nil {
		t.Error(err)
	}
}

// certified is a server with a self-signed certificate for a host.
func certified(t *testing.T, host string) *httptest.Server {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(host)},
	}
	signed, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"hits":[]}`) }))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{signed}, PrivateKey: private}}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs each refused handshake
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// Trusting one more certificate must not mean trusting all of them.
func TestCAFileLeavesOtherCertificatesUntrusted(t *testing.T) {
	trusted, stranger, elsewhere := certified(t, "127.0.0.1"), certified(t, "127.0.0.1"), certified(t, "192.0.2.1")
	for name, tt := range map[string]struct {
		trust, call *httptest.Server
		ok          bool
	}{
		"its own":              {trusted, trusted, true},
		"another's":            {trusted, stranger, false},
		"its own, other place": {elsewhere, elsewhere, false},
	} {
		file := filepath.Join(t.TempDir(), "ca.pem")
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tt.trust.TLS.Certificates[0].Certificate[0]})
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		transport, err := NewTransport(file)
		if err != nil {
			t.Fatal(err)
		}
		b := &books{}
		a, err := (&Client{URL: tt.call.URL, Key: secret(t), Transport: transport}).Do(t.Context(), search(t), b)
		if ok := err == nil; ok != tt.ok || !ok && (kindOf(err) != Unsent || b.outcome != Refunded || !a.SentAt.IsZero()) {
			t.Errorf("%s: settled %s, error %v", name, b.outcome, err)
		}
	}
}

// A CA file without a certificate is refused by name.
func TestEmptyCAFileIsRefused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{empty, empty + ".missing", os.DevNull, t.TempDir()} {
		if _, err := NewTransport(file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestCheckURL(t *testing.T) {
	for _, tt := range []struct {
		text      string
		allowHTTP bool
		want      string // "" if refused
	}{
		{"https://api.test", false, "https://api.test"},
		{"https://api.test/", false, "https://api.test"},
		{"https://api.test/v1//", false, "https://api.test/v1"},
		{"https://api.test/a%2Fb/", false, "https://api.test/a%2Fb"},
		{"https://api.test:8443/v1", false, "https://api.test:8443/v1"},
		{"http://127.0.0.1:9090", false, "http://127.0.0.1:9090"},
		{"http://[::1]:9090/", false, "http://[::1]:9090"},
		{"http://localhost", false, "http://localhost"},
		{"http://api.test", false, ""},
		{"http://api.test", true, "http://api.test"},
		{"http://127.0.0.1.evil.test", false, ""},
		{"http://169.254.169.254", false, ""},
		{"https://user:hunter2@api.test", false, ""},
		{"https://user:hunter2@%zz", false, ""},
		{"user:hunter2@api.test", false, ""},
		{"ftp://api.test?key=hunter2", false, ""},
		{"https://api.test?key=x", false, ""},
		{"https://api.test/?", false, ""},
		{"https://api.test/#top", false, ""},
		{"https://api.test/#", false, ""},
		{"https://", false, ""},
		{"https:api.test", false, ""},
		{"api.test", false, ""},
		{"ftp://api.test", true, ""},
		{"", false, ""},
		{"https://api.test/\n", false, ""},
	} {
		u, err := CheckURL(tt.text, tt.allowHTTP)
		switch {
		case err != nil && tt.want != "":
			t.Errorf("%q is refused: %v", tt.text, err)
		case err == nil && u.String() != tt.want:
			t.Errorf("%q gives %q, want %q", tt.text, u, tt.want)
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%q: the error quotes the password: %v", tt.text, err)
		}
	}
}

// TestUnusableProxyIsRefused: net/http would silently connect without it.
func TestUnusableProxyIsRefused(t *testing.T) {
	for address, usable := range map[string]bool{
		"":                                true,
		"http://proxy.example:3128":       true,
		"proxy.example:3128":              true,
		"socks5://proxy.example:1080":     true,
		"http://[::1":                     false,
		"http://":                         false,
		"http://user:s3cret@proxy:porty/": false,
	} {
		t.Setenv("HTTPS_PROXY", address)
		_, err := NewTransport("")
		if (err == nil) != usable {
			t.Errorf("HTTPS_PROXY=%s gives %v", address, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "HTTPS_PROXY") || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("HTTPS_PROXY=%s gives %v; want the name and not the password", address, err)
		}
	}
}
