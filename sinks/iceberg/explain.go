//go:build iceberg

package iceberg

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
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
	_, ofBucket := errors.AsType[*bucket.FileError](err)
	_, ofPath := errors.AsType[*fs.PathError](err)
	_, ofLink := errors.AsType[*os.LinkError](err)
	if err == nil || ofBucket || ofPath || ofLink {
		return err
	}
	if known, ok := errors.AsType[*explained](err); ok {
		return known // without the library's words around it
	}
	said, refused := errors.AsType[*pgconn.PgError](err)
	connect, unconnected := errors.AsType[*pgconn.ConnectError](err)
	switch {
	case refused:
		return &explained{err, fmt.Sprintf("the database answered %q (SQLSTATE %s): %s", excerpt.Runes(said.Message, maxText), said.Code, remedy(said.Code))}
	case unconnected:
		return unreachable("database", connect.Unwrap())
	case p.postgres && cause(err) != "":
		return unreachable("database", err)
	case errors.Is(err, rest.ErrRESTError):
		return answered(err.Error(), "see that `catalog` and `warehouse` are right")
	}
	return err
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

func unreachable(what string, err error) error {
	return &explained{err, fmt.Sprintf("the %s cannot be reached: %s: see that it runs and that this machine can reach the address in `catalog`; %s",
		what, cmp.Or(cause(err), excerpt.Runes(err.Error(), maxText)), again)}
}

// cause returns what the system said about a connection; "" for other errors.
func cause(err error) string {
	failed, ofNetwork := errors.AsType[net.Error](err)
	number, ofSystem := errors.AsType[syscall.Errno](err)
	switch {
	case ofNetwork && failed.Timeout(), pgconn.Timeout(err):
		return "it does not answer"
	case ofSystem:
		return number.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, pgconn.ErrConnClosed):
		return "the server closed it"
	case ofNetwork:
		return excerpt.Runes(failed.Error(), maxText)
	}
	return ""
}

// secrets are texts that no message may have.
type secrets struct{ texts sync.Map }

// add adds a text, as it is and as addresses and forms have it.
func (s *secrets) add(text string) {
	for _, form := range []string{text, url.QueryEscape(text), url.PathEscape(text)} {
		if form != "" {
			s.texts.Store(form, nil)
		}
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
		s.add(address) // as it was written
		s.add(found)
	}
}

// hide replaces the secrets in a text.
func (s *secrets) hide(text string) string {
	for secret := range s.texts.Range {
		text = strings.ReplaceAll(text, secret.(string), "xxxxx")
	}
	return text
}

// guarded is the transport to a REST catalog. It keeps tokens, which may have been fetched, out of
// messages, and explains errors of which the library hides some.
type guarded struct {
	http.RoundTripper
	place *place
}

// RoundTrip implements [http.RoundTripper]. It follows no redirection: the library would send the token to any
// address.
func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, token, found := strings.Cut(r.Header.Get("Authorization"), " "); found {
		g.place.secrets.add(token)
	}
	answer, err := g.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, unreachable("catalog", err)
	}
	if answer.StatusCode < http.StatusMultipleChoices {
		return answer, nil
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return nil, unreachable("catalog", err)
	}
	answer.Body = io.NopCloser(bytes.NewReader(text))
	var refusal struct {
		Error       struct{ Message, Type string }
		Description string `json:"error_description"` // if no token is issued
	}
	_ = json.Unmarshal(text, &refusal) // other servers answer with a page
	remedy := "see that `catalog` and `warehouse` are right"
	switch status := answer.StatusCode; {
	case status < http.StatusBadRequest:
		return nil, &explained{nil, fmt.Sprintf("the catalog redirects to %q: write the address that answers in `catalog`",
			answer.Header.Get("Location"))}
	case (status == http.StatusNotFound || status == http.StatusConflict) && (r.Method == http.MethodHead || refusal.Error.Type != ""):
		return answer, nil // the library knows what is meant
	case status == http.StatusUnauthorized, status == 419, refusal.Description != "":
		remedy = g.place.renew + " and restart outlierd"
	case status == http.StatusForbidden:
		remedy = "let this client create, read and change tables in the namespace"
	case status >= http.StatusInternalServerError:
		remedy = "it is busy or has a fault; " + again
	}
	said := cmp.Or(refusal.Error.Message, refusal.Description, string(text))
	return nil, answered(fmt.Sprintf("HTTP %d, %q", answer.StatusCode, excerpt.Runes(said, maxText)), remedy)
}

// answered is an error that a REST catalog has answered.
func answered(what, remedy string) error {
	return &explained{nil, fmt.Sprintf("the catalog answered %s: %s", what, remedy)}
}
