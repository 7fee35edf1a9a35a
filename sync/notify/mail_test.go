package notify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"outlierd/sync/store"
)

// mailbox is an SMTP server on loopback that keeps what it receives.
type mailbox struct {
	mu        sync.Mutex
	encrypted bool // the connection of the newest session
	login     string
	from      string
	to        []string
	got       []*mail.Message
	body      string

	refused string              // a recipient that is refused
	arrived map[string][]string // the ids of messages, by recipient
}

func (m *mailbox) NewSession(c *smtp.Conn) (smtp.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, m.encrypted = c.TLSConnectionState()
	return &session{mailbox: m}, nil
}

// session is one of several at a time.
type session struct {
	*mailbox
	to []string
}

func (m *session) AuthMechanisms() []string { return []string{sasl.Plain} }
func (m *session) Reset()                   {}
func (m *session) Logout() error            { return nil }

func (m *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if password != secret {
			sent := "\x00" + user + "\x00" + password
			return errors.New("wrong password " + password + " in " + base64.StdEncoding.EncodeToString([]byte(sent)))
		}
		m.login = user
		return nil
	}), nil
}

func (m *session) Mail(from string, _ *smtp.MailOptions) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.from, m.to = from, nil
	return nil
}

func (m *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if to == m.refused {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
	}
	m.to = append(m.to, to)
	return nil
}

func (m *session) Data(r io.Reader) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	message, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(message.Body)
	m.got, m.body, m.mailbox.to = append(m.got, message), string(body), m.to
	for _, to := range m.to {
		if m.arrived == nil {
			m.arrived = map[string][]string{}
		}
		m.arrived[to] = append(m.arrived[to], message.Header.Get("Message-ID"))
	}
	return err
}

// certified has a certificate for 127.0.0.1, which the tests of this package trust.
var certified = httptest.NewTLSServer(http.NotFoundHandler())

// trust makes a server's certificate the only system certificate of this process. System certificates
// are read once, so it must be called first.
func trust(server *httptest.Server) error {
	dir, err := os.MkdirTemp("", "roots")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "roots.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	err = errors.Join(os.WriteFile(file, text, 0o600), os.Setenv("SSL_CERT_FILE", file), os.Setenv("SSL_CERT_DIR", dir))
	if err == nil {
		_, err = x509.SystemCertPool()
	}
	return errors.Join(err, os.RemoveAll(dir), os.Unsetenv("SSL_CERT_FILE"), os.Unsetenv("SSL_CERT_DIR"))
}

// serve starts the server and returns its address. With a certificate it offers STARTTLS.
func (m *mailbox) serve(t *testing.T, certificates ...tls.Certificate) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := smtp.NewServer(m)
	server.Domain, server.AllowInsecureAuth = "localhost", len(certificates) == 0
	if len(certificates) > 0 {
		server.TLSConfig = &tls.Config{Certificates: certificates}
	}
	done := make(chan error)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = listener.Close() // the server may not have begun to listen
		if err := errors.Join(server.Close(), <-done); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func TestMailArrivesAtAServer(t *testing.T) {
	var m mailbox
	address := m.serve(t)
	target := targetOf(t, `{mail: {server: "`+address+`", tls: none, user: me, password: "${SECRET}", from: "Outlierd <o@example.org>", to: [a@example.org, b@example.org]}}`)
	if err := sender().Send(t.Context(), target, breakout()); err != nil {
		t.Fatal(err)
	}
	if m.login != "me" || m.from != "o@example.org" || strings.Join(m.to, " ") != "a@example.org b@example.org" || len(m.got) != 1 {
		t.Fatalf("got %+v", &m)
	}
	h := m.got[0].Header
	subject, err := new(mime.WordDecoder).DecodeHeader(h.Get("Subject"))
	if err != nil || !strings.HasPrefix(subject, "[outlierd] Breakout\"}") || h.Get("Bcc") != "" || h.Get("Message-ID") != "<event-1@outlierd.invalid>" {
		t.Errorf("subject %q (%v), headers %v", subject, err, h)
	}
	if !strings.Contains(m.body, "score 5.5") || strings.Contains(m.body, "KEY-0815") {
		t.Errorf("body %s", m.body)
	}
}

// By STARTTLS, which is the default.
func TestMailArrivesEncrypted(t *testing.T) {
	var m mailbox
	address := m.serve(t, certified.TLS.Certificates...)
	target := targetOf(t, `{mail: {server: "`+address+`", user: me, password: "${SECRET}", from: o@example.org, to: a@example.org}}`)
	if err := sender().Send(t.Context(), target, breakout()); err != nil {
		t.Fatal(err)
	}
	if !m.encrypted || m.login != "me" || len(m.got) != 1 || !strings.Contains(m.body, "score 5.5") {
		t.Errorf("got %+v", &m)
	}
}

// A server whose certificate has another name gets neither password nor mail.
func TestUntrustedServerGetsNoMail(t *testing.T) {
	var m mailbox
	address := m.serve(t, certified.TLS.Certificates...)
	address = strings.Replace(address, "127.0.0.1", "localhost", 1) // which the certificate does not name
	err := sender().Send(t.Context(), targetOf(t, `{mail: {server: "`+address+`", user: me, password: "${SECRET}", from: o@example.org, to: a@example.org}}`), breakout())
	if err == nil || !strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), secret) || m.login != "" || len(m.got) > 0 {
		t.Errorf("got %v, %+v", err, &m)
	}
}

func TestMailNeedsRequiredEncryption(t *testing.T) {
	var m mailbox
	address := m.serve(t)
	err := sender().Send(t.Context(), targetOf(t, `{mail: {server: "`+address+`", user: me, password: "${SECRET}", from: o@example.org, to: a@example.org}}`), breakout())
	if err == nil || !strings.Contains(err.Error(), "STARTTLS") || len(m.got) > 0 || m.login != "" {
		t.Errorf("got %v, %+v", err, &m)
	}
}

func TestMailErrorsShowNoPassword(t *testing.T) {
	var m mailbox
	address := m.serve(t)
	target := targetOf(t, `{mail: {server: "`+address+`", tls: none, user: me, password: "${WRONG}", from: o@example.org, to: a@example.org}}`)
	err := sender().Send(t.Context(), target, breakout())
	if err == nil || !strings.Contains(err.Error(), "wrong password ******** in ********") || len(m.got) > 0 {
		t.Errorf("got %v", err)
	}
}

// What answers at the address may be no mail server, and never end its first line.
func TestEndlessMailLineIsGivenUp(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan int)
	go func() {
		n, line := 0, make([]byte, 64<<10)
		defer func() { sent <- n }()
		c, err := listener.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		for err == nil && n < 100<<20 {
			var some int
			some, err = c.Write(line)
			n += some
		}
	}()
	target := targetOf(t, `{mail: {server: "`+listener.Addr().String()+`", from: o@example.org, to: a@example.org}}`)
	err = sender().Send(t.Context(), target, breakout())
	if err == nil || !strings.Contains(err.Error(), "more than 1 MiB") {
		t.Errorf("got %v", err)
	}
	if n := <-sent; n >= 100<<20 {
		t.Errorf("%d MiB were read", n>>20)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
}

// TestContextEndsSilentMailConnection, which would delay the end of a run.
func TestContextEndsSilentMailConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		if c, err := listener.Accept(); err == nil {
			defer c.Close()
			cancel()
			<-t.Context().Done()
		}
	}()
	target := targetOf(t, `{mail: {server: "`+listener.Addr().String()+`", tls: none, from: o@example.org, to: a@example.org}}`)
	began := time.Now()
	if err := sender().Send(ctx, target, breakout()); err == nil || time.Since(began) >= timeout {
		t.Errorf("error %v after %s", err, time.Since(began))
	}
}

// The mail was accepted, and would be sent once more after any error.
func TestMailSurvivesEarlyHangup(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	served := make(chan error, 1)
	go func() { served <- hangUpAfterMail(listener) }()
	target := targetOf(t, `{mail: {server: "`+listener.Addr().String()+`", tls: none, from: o@example.org, to: a@example.org}}`)
	if err := sender().Send(t.Context(), target, breakout()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// hangUpAfterMail accepts one mail and closes the connection.
func hangUpAfterMail(listener net.Listener) error {
	c, err := listener.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	text := textproto.NewConn(c)
	err = text.PrintfLine("220 localhost")
	for err == nil {
		var line string
		if line, err = text.ReadLine(); err != nil {
			break
		}
		if line != "DATA" {
			err = text.PrintfLine("250 localhost")
			continue
		}
		if err = text.PrintfLine("354 go on"); err == nil {
			_, err = text.ReadDotBytes()
		}
		return errors.Join(err, text.PrintfLine("250 accepted"))
	}
	return err
}

// The others get each event once. The refused one gets it when the server accepts it, also after a restart.
func TestRefusedRecipientDelaysNoOther(t *testing.T) {
	m := mailbox{refused: "b@example.org"}
	w := newWorld(t, "")
	w.config.Targets = append(w.config.Targets, *targetOf(t,
		`{mail: {server: "`+m.serve(t)+`", tls: none, from: o@example.org, to: [a@example.org, b@example.org, c@example.org, a@example.org]}}`))
	flush := func() {
		t.Helper()
		w.update(func(tx *store.Tx) error {
			return tx.Exec("UPDATE notify_outbox SET next_try = 1")
		})
		w.deliverer(func(http.ResponseWriter, *http.Request) {}).Flush(t.Context())
		w.close()
		w.open()
	}
	w.update(func(tx *store.Tx) error {
		return w.watcher.putEvents(tx, []string{"t"}, Event{ID: "one", Kind: Failed, Title: "one"},
			Event{ID: "two", Kind: Failed, Title: "two"})
	})
	flush()
	flush()
	want := map[string][]string{
		"a@example.org": {"<one@outlierd.invalid>", "<two@outlierd.invalid>"},
		"c@example.org": {"<one@outlierd.invalid>", "<two@outlierd.invalid>"},
	}
	if !maps.EqualFunc(m.arrived, want, slices.Equal) {
		t.Errorf("arrived %v, want %v", m.arrived, want)
	}
	if text := w.log.String(); !strings.Contains(text, `target="t <b@example.org>"`) || !strings.Contains(text, "no such user") {
		t.Errorf("log %s", text)
	}
	m.refused = ""
	flush()
	want["b@example.org"] = want["a@example.org"]
	if !maps.EqualFunc(m.arrived, want, slices.Equal) {
		t.Errorf("arrived %v, want %v", m.arrived, want)
	}
	flush()
	if !maps.EqualFunc(m.arrived, want, slices.Equal) {
		t.Errorf("arrived %v, want %v", m.arrived, want)
	}
	w.close()
}
