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
	"strconv"
	"strings"
	"sync"

	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/jackc/pgx/v5/pgconn"

	"outlierd/excerpt"
	"outlierd/sinks/bucket"
)

const (
	mostOfText = 200 // characters of a server's or another program's text that are quoted

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

const (
	seePostgres = ": see that PostgreSQL runs and that this machine can reach the address in `catalog`; " + again
	seeREST     = ": see that it runs and that this machine can reach the address in `catalog`; " + again
)

// plain words an error that the catalog has returned. An error of a file is returned as it is.
func (p *place) plain(err error) error {
	if _, ofBucket := errors.AsType[*bucket.ObjectError](err); err == nil || ofBucket {
		return err
	}
	text := ""
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		text = p.wordPostgres(said)
	} else if failed, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		text = "the database cannot be reached: " + cause(failed) + seePostgres
	} else if p.postgres && broken(err) {
		text = "the connection to the database broke: " + cause(err) + "; " + again
	} else if p.server != nil {
		text = p.wordREST(err)
	}
	if text == "" {
		return err
	}
	return &explained{err, text}
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

// wordREST words an error of a REST catalog. It returns "" for other errors.
func (p *place) wordREST(err error) string {
	status, failed := p.server.last()
	_, asked := errors.AsType[*url.Error](err)
	switch {
	case asked && failed != nil: // also when it asked for a token, where the library hides the cause
		if to, ok := errors.AsType[*redirectError](failed); ok {
			return to.Error()
		}
		return "the catalog cannot be reached: " + cause(failed) + seeREST
	case !errors.Is(err, rest.ErrRESTError):
		return ""
	}
	said := "the catalog answered "
	if status > 0 {
		said += fmt.Sprintf("HTTP %d, ", status)
	}
	said += strconv.Quote(excerpt.Runes(answerOf(err).Error(), mostOfText))
	switch {
	case errors.Is(err, rest.ErrOAuthError), errors.Is(err, rest.ErrUnauthorized),
		errors.Is(err, rest.ErrAuthorizationExpired):
		return said + ": " + p.renew + " and restart outlierd"
	case errors.Is(err, rest.ErrForbidden):
		return said + ": let this client create, read and change tables in the namespace"
	case errors.Is(err, rest.ErrServiceUnavailable), errors.Is(err, rest.ErrServerError),
		errors.Is(err, rest.ErrCommitStateUnknown):
		return said + ": it is busy or has a fault; " + again
	case errors.Is(err, rest.ErrCommitFailed):
		return said
	}
	return said + ": see that `catalog` and `warehouse` are right"
}

// answerOf returns the part of an error that has the text of a REST catalog: the innermost that is more than
// a kind of errors.
func answerOf(err error) error {
	kinds := []error{rest.ErrRESTError, rest.ErrBadRequest, rest.ErrForbidden, rest.ErrUnauthorized,
		rest.ErrAuthorizationExpired, rest.ErrServiceUnavailable, rest.ErrServerError, rest.ErrCommitFailed,
		rest.ErrCommitStateUnknown, rest.ErrOAuthError}
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
// messages, and knows what became of the last request.
type guarded struct {
	http.RoundTripper
	secrets *secrets

	mu     sync.Mutex
	status int // of HTTP
	failed error
}

// last returns the HTTP status of the last request if it is that of an error, or why there was no answer.
func (g *guarded) last() (status int, failed error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.status, g.failed
}

// redirectError is the error of a request that was redirected. The library would send the token to any
// address.
type redirectError struct{ to string }

func (e *redirectError) Error() string {
	return fmt.Sprintf("the catalog redirects to %q: write the address that answers in `catalog`", e.to)
}

// RoundTrip implements [http.RoundTripper].
func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, token, found := strings.Cut(r.Header.Get("Authorization"), " "); found {
		g.secrets.add(token)
	}
	answer, err := g.RoundTripper.RoundTrip(r)
	status := 0
	if err == nil && answer.StatusCode >= http.StatusMultipleChoices {
		status = answer.StatusCode
	}
	if err == nil && status > 0 && status < http.StatusBadRequest {
		err = &redirectError{answer.Header.Get("Location")}
		if closed := answer.Body.Close(); closed != nil {
			err = errors.Join(err, closed)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.status, g.failed = status, err; err != nil {
		return nil, err
	}
	return answer, nil
}
