//go:build iceberg

package iceberg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/jackc/pgx/v5/pgconn"

	"outlierd/excerpt"
	"outlierd/sinks/bucket"
)

const (
	mostOfText = 200 // characters of a server's or another program's text that are quoted

	again = "it is tried again"
)

// explained is an error of a lake: its text says why something failed and what to do, on one line and
// without secrets. The libraries' own texts repeat addresses, take several lines and have no remedy.
type explained struct {
	err  error
	text string
}

func (e *explained) Error() string { return e.text }

func (e *explained) Unwrap() error { return e.err }

// explain returns an error that begins with what was done with which catalog.
func (p *place) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if worded, raw := p.word(err); raw != nil {
		text = strings.Replace(text, raw.Error(), worded, 1)
	}
	text = strings.Join(strings.Fields(what+" "+p.name+": "+text), " ")
	return &explained{err, p.secrets.hide(text)}
}

// word finds the error of a library in err, and words it. It returns nil if there is none.
func (p *place) word(err error) (worded string, raw error) {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		worded, raw = p.wordPostgres(e), e
	} else if e, ok := errors.AsType[*url.Error](err); ok && p.server != nil && !errors.Is(err, rest.ErrRESTError) {
		return "the catalog cannot be reached: " + cause(e) +
			": see that it runs and that this machine can reach the address in `catalog`; " + again, e
	} else if errors.Is(err, rest.ErrRESTError) {
		return p.wordREST(err)
	}
	if e, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		if raw == nil {
			worded = "the database cannot be reached: " + cause(e) +
				": see that PostgreSQL runs and that this machine can reach the address in `catalog`; " + again
		}
		raw = e
	}
	if _, ofBucket := errors.AsType[*bucket.ObjectError](err); raw == nil && p.postgres && !ofBucket && broken(err) {
		return "the connection to the database broke: " + cause(err) + "; " + again, err
	}
	return worded, raw
}

// wordPostgres words an error of PostgreSQL.
func (p *place) wordPostgres(e *pgconn.PgError) string {
	said := fmt.Sprintf("the database answered %q (SQLSTATE %s)", excerpt.Runes(e.Message, mostOfText), e.Code)
	switch e.Code {
	case "28000":
		return said + ": allow this user and this machine in pg_hba.conf, or correct `catalog` and restart outlierd"
	case "28P01":
		return said + ": correct the user and the password in `catalog` and restart outlierd" +
			"; a file that PGPASSFILE names is read again without that"
	case "3D000":
		return said + ": create it, or correct `catalog` and restart outlierd"
	case "42501":
		return said + ": let the user connect to the database, and use its schema and create tables there"
	case "25006":
		return said + ": `catalog` must name the primary server"
	case "53100":
		return said + ": the disk of the database is full; " + again
	}
	switch e.Code[:min(2, len(e.Code))] {
	case "08", "53", "57":
		return said + "; " + again
	}
	return said + ": see the log of PostgreSQL; " + again
}

// wordREST finds and words the error of a REST catalog.
func (p *place) wordREST(err error) (worded string, raw error) {
	raw = answerOf(err)
	said := fmt.Sprintf("the catalog answered HTTP %d, %q", p.server.refused.Load(), excerpt.Runes(raw.Error(), mostOfText))
	switch {
	case errors.Is(err, rest.ErrOAuthError), errors.Is(err, rest.ErrUnauthorized), errors.Is(err, rest.ErrAuthorizationExpired):
		return said + ": " + p.renew + " and restart outlierd", raw
	case errors.Is(err, rest.ErrForbidden):
		return said + ": let this client create, read and change tables in the namespace", raw
	case errors.Is(err, rest.ErrServiceUnavailable), errors.Is(err, rest.ErrServerError),
		errors.Is(err, rest.ErrCommitStateUnknown):
		return said + ": it is busy or has a fault; " + again, raw
	}
	return said + ": see that `catalog` and `warehouse` are right", raw
}

// answerOf returns the part of an error that has the text of a REST catalog: the innermost that is more than
// a kind of errors.
func answerOf(err error) error {
	kinds := []error{rest.ErrRESTError, rest.ErrBadRequest, rest.ErrForbidden, rest.ErrUnauthorized,
		rest.ErrAuthorizationExpired, rest.ErrServiceUnavailable, rest.ErrServerError, rest.ErrCommitFailed, rest.ErrCommitStateUnknown, rest.ErrOAuthError}
	for {
		var inner error
		for _, e := range unwrapped(err) {
			if errors.Is(e, rest.ErrRESTError) && !slices.Contains(kinds, e) {
				inner = e
				break
			}
		}
		if inner == nil {
			return err
		}
		err = inner
	}
}

// unwrapped returns the errors that err wraps.
func unwrapped(err error) []error {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	}
	return nil
}

// broken reports whether an error is that of a connection.
func broken(err error) bool {
	_, ofNetwork := errors.AsType[net.Error](err)
	return ofNetwork || pgconn.Timeout(err) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, pgconn.ErrConnClosed)
}

// cause returns the text of the innermost error, which is that of the system.
func cause(err error) string {
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return "it does not answer"
	}
	for {
		inner := unwrapped(err)
		switch {
		case len(inner) > 0 && inner[0] != nil:
			err = inner[0]
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return "the server closed it"
		default:
			return err.Error()
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
	if text == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.texts, text) {
		s.texts = append(s.texts, text, url.QueryEscape(text), url.PathEscape(text))
	}
}

// addAddress adds what is secret in the address of a catalog.
func (s *secrets) addAddress(address string) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return
	}
	if password, set := u.User.Password(); set {
		s.add(address)
		s.add(password)
	}
	for name, values := range u.Query() {
		if strings.Contains(name, "password") {
			s.add(address)
			s.add(values[0])
		}
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
// messages.
type guarded struct {
	http.RoundTripper
	secrets *secrets
	refused atomic.Int64 // HTTP status of the last answer that is an error
}

// RoundTrip implements [http.RoundTripper]. Redirects are errors: the library would send the token to any
// address.
func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, token, found := strings.Cut(r.Header.Get("Authorization"), " "); found {
		g.secrets.add(token)
	}
	answer, err := g.RoundTripper.RoundTrip(r)
	if err != nil || answer.StatusCode < http.StatusMultipleChoices {
		return answer, err
	}
	if answer.StatusCode < http.StatusBadRequest {
		err := fmt.Errorf("it redirects to %q: write the address that answers in `catalog`", answer.Header.Get("Location"))
		return nil, errors.Join(err, answer.Body.Close())
	}
	g.refused.Store(int64(answer.StatusCode))
	return answer, nil
}
