//go:build iceberg

package iceberg

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/jackc/pgx/v5/pgconn"

	"outlierd/internal/excerpt"
	"outlierd/sinks/bucket"
)

const (
	maxText = 200 // characters of a server's text that are quoted

	again = "it is tried again"
)

// explained is an error with a text that says why something failed and what to do. The libraries' own texts
// repeat addresses, take several lines and have no remedy.
type explained struct {
	err  error
	text string
}

func (e *explained) Error() string { return e.text }

func (e *explained) Unwrap() error { return e.err }

// explain returns an error that begins with what was done with which catalog. Its text is one line without
// secrets.
func (p *place) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	text := strings.ReplaceAll(fmt.Sprintf("%s %s: %v", what, p.name, err), "\n", "; ")
	return &explained{err, p.secrets.hide(strings.Join(strings.Fields(text), " "))}
}

// plain words an error that the catalog has returned. An error of a file is returned as it is.
func (p *place) plain(err error) error {
	if _, ofBucket := errors.AsType[*bucket.FileError](err); err == nil || ofBucket {
		return err
	}
	said, refused := errors.AsType[*pgconn.PgError](err)
	_, unconnected := errors.AsType[*pgconn.ConnectError](err)
	_, asked := errors.AsType[*url.Error](err)
	text := ""
	switch {
	case refused:
		text = fmt.Sprintf("the database answered %q (SQLSTATE %s): %s", excerpt.Runes(said.Message, maxText), said.Code, remedy(said.Code))
	case unconnected || p.postgres && broken(err):
		text = unreachable("database", err)
	case p.server != nil && (asked || errors.Is(err, rest.ErrRESTError)):
		text = p.server.explain(err, p.renew)
	default:
		return err
	}
	return &explained{err, text}
}

// remedy returns what to do about a SQLSTATE.
func remedy(code string) string {
	switch code[:min(2, len(code))] {
	case "28":
		return "allow this user and this machine in pg_hba.conf, or correct the user and the password in `catalog` and restart outlierd; " +
			"a file that PGPASSFILE names is read again without that"
	case "3D":
		return "create it, or correct `catalog` and restart outlierd"
	case "42":
		return "let the user connect to the database, and use its schema and create tables there"
	case "25":
		return "`catalog` must name the primary server"
	}
	return again
}

func unreachable(what string, err error) string {
	return fmt.Sprintf("the %s cannot be reached: %s: see that it runs and that this machine can reach the address in `catalog`; %s",
		what, cause(err), again)
}

// broken reports whether an error is that of a connection.
func broken(err error) bool {
	_, ofNetwork := errors.AsType[net.Error](err)
	return ofNetwork || pgconn.Timeout(err) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, pgconn.ErrConnClosed)
}

// cause returns what the system said about a connection.
func cause(err error) string {
	slow, ofNetwork := errors.AsType[net.Error](err)
	number, ofSystem := errors.AsType[syscall.Errno](err)
	switch {
	case ofNetwork && slow.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "it does not answer"
	case ofSystem:
		return number.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the server closed it"
	}
	for {
		switch e := err.(type) {
		case interface{ Unwrap() []error }:
			err = e.Unwrap()[0]
		case interface{ Unwrap() error }:
			if e.Unwrap() == nil {
				return excerpt.Runes(err.Error(), maxText)
			}
			err = e.Unwrap()
		default:
			return excerpt.Runes(err.Error(), maxText)
		}
	}
}

// secrets are texts that no message may have.
type secrets struct {
	mu    sync.Mutex
	texts []string
}

// add adds a text, as it is and as addresses and forms have it.
func (s *secrets) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text != "" && !slices.Contains(s.texts, text) {
		s.texts = append(s.texts, text, url.QueryEscape(text), url.PathEscape(text))
	}
}

// addAddress adds what is secret in the address of a catalog.
func (s *secrets) addAddress(address string) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return
	}
	found, _ := u.User.Password()
	for name, values := range u.Query() {
		if strings.Contains(name, "password") {
			found = values[0]
		}
	}
	if found != "" {
		s.add(address)
		s.add(found)
	}
}

// hide replaces the secrets in a text.
func (s *secrets) hide(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range s.texts {
		text = strings.ReplaceAll(text, secret, "xxxxx")
	}
	return text
}

// guarded is the transport to a REST catalog. It keeps tokens, which may have been fetched, out of
// messages, and knows what became of the last request: the library hides some of it.
type guarded struct {
	http.RoundTripper
	secrets *secrets

	mu     sync.Mutex
	status int    // of the last answer
	said   string // in the last answer, if it was an error
	failed error  // why there was no answer
}

// RoundTrip implements [http.RoundTripper]. It follows no redirection: the library would send the token to any
// address.
func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, token, found := strings.Cut(r.Header.Get("Authorization"), " "); found {
		g.secrets.add(token)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status, g.said = 0, ""
	answer, err := g.RoundTripper.RoundTrip(r)
	if g.failed = err; err != nil {
		return nil, err
	}
	if g.status = answer.StatusCode; g.status < http.StatusMultipleChoices {
		return answer, nil
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err = errors.Join(err, answer.Body.Close()); err == nil && g.status < http.StatusBadRequest {
		err = fmt.Errorf("the catalog redirects to %q: write the address that answers in `catalog`", answer.Header.Get("Location"))
	}
	if g.failed = err; err != nil {
		return nil, err
	}
	g.said = string(text)
	answer.Body = io.NopCloser(bytes.NewReader(text))
	return answer, nil
}

// explain words an error of the last request. renew is what to do if the credentials are refused.
func (g *guarded) explain(err error, renew string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.failed != nil && g.status > 0:
		return g.failed.Error()
	case g.failed != nil:
		return unreachable("catalog", g.failed)
	}
	var answer struct {
		Error       struct{ Message string }
		Description string `json:"error_description"` // if no token is issued
	}
	_ = json.Unmarshal([]byte(g.said), &answer) // other servers answer with a page
	said := cmp.Or(answer.Error.Message, answer.Description, g.said, err.Error())
	remedy := "see that `catalog` and `warehouse` are right"
	switch {
	case g.status == http.StatusUnauthorized, g.status == 419, errors.Is(err, rest.ErrOAuthError):
		remedy = renew + " and restart outlierd"
	case g.status == http.StatusForbidden:
		remedy = "let this client create, read and change tables in the namespace"
	case g.status >= http.StatusInternalServerError:
		remedy = "it is busy or has a fault; " + again
	case g.status == http.StatusConflict:
		remedy = again
	}
	return fmt.Sprintf("the catalog answered HTTP %d, %q: %s", g.status, excerpt.Runes(said, maxText), remedy)
}
