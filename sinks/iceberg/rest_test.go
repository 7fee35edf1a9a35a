//go:build iceberg

package iceberg

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"outlierd/sinks/sinktest"
)

// restCatalog is a REST catalog over the SQLite catalog in a folder.
type restCatalog struct {
	*httptest.Server
	place   *place
	staging string

	mu     sync.Mutex
	token  string                                                   // that is accepted
	issued int                                                      // tokens
	lasts  int                                                      // seconds that an issued token lasts
	fault  func(w http.ResponseWriter, r *http.Request) bool        // answers in place of the catalog if it returns true
	lost   func(w http.ResponseWriter, r *http.Request) (lost bool) // answers a commit that has happened
}

const (
	clientID     = "outlierd-client"
	clientSecret = "of a client/7"
)

func newREST(t *testing.T, dir string) *restCatalog {
	t.Helper()
	p, err := openPlace(t.Context(), options(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	c := &restCatalog{place: p, staging: filepath.Join(dir, "staging"), token: "t0ken-of-an-operator", lasts: 3600}
	routes := http.NewServeMux()
	routes.HandleFunc("POST /v1/oauth/tokens", c.issue)
	routes.HandleFunc("GET /v1/config", c.guard(func(r *http.Request) (any, error) {
		return map[string]any{"defaults": map[string]string{}, "overrides": map[string]string{}}, nil
	}))
	routes.HandleFunc("POST /v1/namespaces", c.guard(c.createNamespace))
	routes.HandleFunc("POST /v1/namespaces/{namespace}/tables", c.guard(c.create))
	routes.HandleFunc("GET /v1/namespaces/{namespace}/tables/{table}", c.guard(c.load))
	routes.HandleFunc("POST /v1/namespaces/{namespace}/tables/{table}", c.guard(c.commit))
	c.Server = httptest.NewServer(routes)
	t.Cleanup(func() {
		c.Close()
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// set changes how the catalog answers.
func (c *restCatalog) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": kind, "code": status}})
}

func (c *restCatalog) issue(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault != nil && c.fault(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.FormValue("client_id") != clientID || r.FormValue("client_secret") != clientSecret {
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_client", "error_description": "no such secret: " + r.FormValue("client_secret")})
		return
	}
	c.issued++
	c.token = fmt.Sprintf("issued-t0ken-%d", c.issued)
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": c.token, "token_type": "bearer", "expires_in": c.lasts})
}

// guard answers requests with the token. Others are refused with what they sent, as some servers do.
func (c *restCatalog) guard(do func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.fault != nil && c.fault(w, r) {
			return
		}
		if sent := r.Header.Get("Authorization"); sent != "Bearer "+c.token {
			refuse(w, http.StatusUnauthorized, "NotAuthorizedException", "not accepted: "+sent)
			return
		}
		answer, err := do(r)
		if c.lost != nil && strings.Count(r.URL.Path, "/") == 5 && r.Method == http.MethodPost && c.lost(w, r) {
			return
		}
		switch {
		case errors.Is(err, catalog.ErrNoSuchTable):
			refuse(w, http.StatusNotFound, "NoSuchTableException", err.Error())
		case errors.Is(err, catalog.ErrNoSuchNamespace):
			refuse(w, http.StatusNotFound, "NoSuchNamespaceException", err.Error())
		case errors.Is(err, catalog.ErrNamespaceAlreadyExists), errors.Is(err, catalog.ErrTableAlreadyExists):
			refuse(w, http.StatusConflict, "AlreadyExistsException", err.Error())
		case err != nil:
			refuse(w, http.StatusConflict, "CommitFailedException", err.Error())
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(answer)
		}
	}
}

func (c *restCatalog) createNamespace(r *http.Request) (any, error) {
	var asked struct{ Namespace []string }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return nil, err
	}
	return asked, c.place.CreateNamespace(r.Context(), asked.Namespace, nil)
}

func idOf(r *http.Request) table.Identifier {
	return table.Identifier{r.PathValue("namespace"), r.PathValue("table")}
}

func loaded(t *table.Table, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return map[string]any{"metadata-location": t.MetadataLocation(), "metadata": t.Metadata(), "config": map[string]string{}}, nil
}

func (c *restCatalog) create(r *http.Request) (any, error) {
	var asked struct {
		Name          string
		Schema        *iceberg.Schema
		PartitionSpec *iceberg.PartitionSpec `json:"partition-spec"`
		Properties    iceberg.Properties
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return nil, err
	}
	with := []catalog.CreateTableOpt{catalog.WithProperties(asked.Properties)}
	if asked.PartitionSpec != nil {
		with = append(with, catalog.WithPartitionSpec(asked.PartitionSpec))
	}
	return loaded(c.place.CreateTable(r.Context(), table.Identifier{r.PathValue("namespace"), asked.Name}, asked.Schema, with...))
}

func (c *restCatalog) load(r *http.Request) (any, error) {
	return loaded(c.place.LoadTable(r.Context(), idOf(r)))
}

func (c *restCatalog) commit(r *http.Request) (any, error) {
	var asked struct {
		Requirements table.Requirements
		Updates      table.Updates
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return nil, err
	}
	metadata, location, err := c.place.CommitTable(r.Context(), idOf(r), asked.Requirements, asked.Updates)
	return map[string]any{"metadata-location": location, "metadata": metadata}, err
}

// options are those of a writer behind the catalog.
func (c *restCatalog) options(env map[string]string) Options {
	return Options{
		Catalog: c.URL, Namespace: "outlierd", Staging: c.staging, Instance: "a", Tables: slices.Concat(sinktest.Tables(), sinktest.Ops()),
		Env: func(name string) (string, bool) { value, ok := env[name]; return value, ok },
	}
}

var (
	byToken      = map[string]string{"ICEBERG_REST_TOKEN": "t0ken-of-an-operator"}
	byCredential = map[string]string{"ICEBERG_REST_CREDENTIAL": clientID + ":" + clientSecret}
)

// TestRESTCatalog: rows get there with a token and with client credentials, whose tokens are fetched again before
// they expire.
func TestRESTCatalog(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]map[string]string{"token": byToken, "credential": byCredential} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, journal := t.TempDir(), sinktest.Sample(6)
			c := newREST(t, dir)
			c.lasts = 10 // which is as good as over when it arrives
			l := openAs(c.options(env)).Line(t, dir)
			l.Write(t, journal, 0, 4)
			l.Publish(t)
			if env["ICEBERG_REST_CREDENTIAL"] != "" && c.issued < 10 {
				t.Errorf("%d tokens were fetched; each lasts for one request", c.issued)
			}
			commits := 0
			c.set(func() {
				c.lost = func(w http.ResponseWriter, r *http.Request) bool {
					commits++
					refuse(w, http.StatusBadGateway, "", "the answer is lost")
					return true
				}
			})
			l.Write(t, journal, 4, 6)
			l.Publish(t)
			if commits == 0 {
				t.Error("no answer to a commit was lost")
			}
			if err := Probe(t.Context(), c.options(env)); err != nil {
				t.Fatal(err)
			}
			l.Check(t, journal, 6)
			checkGarbage(t, func() Options { o := c.options(env); o.Warehouse = filepath.Join(dir, "lake"); return o }())
			l.Close(t)
		})
	}
}

// TestRESTCatalogThatRefuses: each message says on one line why and what to do. None has the token or the
// secret, though the catalog sends back what it got.
func TestRESTCatalogThatRefuses(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was sent to another server, with %d headers", r.Method, r.URL, len(r.Header))
	}))
	defer elsewhere.Close()
	always := func(status int, kind, message string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/tokens") {
				return false
			}
			refuse(w, status, kind, message+": "+r.Header.Get("Authorization"))
			return true
		}
	}
	silent := func(_ http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body) // without which the server does not see that
		<-r.Context().Done()               // the client has given up
		return true
	}
	for name, c := range map[string]struct {
		env   map[string]string
		fault func(w http.ResponseWriter, r *http.Request) bool
		says  []string
	}{
		"another token":  {map[string]string{"ICEBERG_REST_TOKEN": "t0ken-of-yesterday"}, nil, []string{"HTTP 401", "not accepted: Bearer xxxxx", "renew ICEBERG_REST_TOKEN and restart"}},
		"no token":       {nil, nil, []string{"HTTP 401", "set ICEBERG_REST_TOKEN or ICEBERG_REST_CREDENTIAL"}},
		"expired":        {byToken, always(419, "AuthenticationTimeoutException", "expired"), []string{"HTTP 419", "renew ICEBERG_REST_TOKEN"}},
		"another secret": {map[string]string{"ICEBERG_REST_CREDENTIAL": clientID + ":s3cret of old"}, nil, []string{"HTTP 401", "no such secret: xxxxx", "renew ICEBERG_REST_CREDENTIAL"}},
		"revoked":        {byCredential, always(401, "NotAuthorizedException", "revoked"), []string{"HTTP 401", "revoked: Bearer xxxxx", "renew ICEBERG_REST_CREDENTIAL"}},
		"forbidden":      {byToken, always(403, "ForbiddenException", "no"), []string{"HTTP 403", "let this client create, read and change tables"}},
		"busy":           {byToken, always(503, "ServiceUnavailableException", "later"), []string{"HTTP 503", "it is busy or has a fault; it is tried again"}},
		"broken":         {byCredential, always(500, "", "stack"), []string{"HTTP 500", "it is tried again"}},
		"no such":        {byToken, always(404, "NoSuchWarehouseException", "Warehouse x not found"), []string{"the catalog answered", "Warehouse x not found", "see that `catalog` and `warehouse` are right"}},
		"something else": {byToken, func(w http.ResponseWriter, r *http.Request) bool {
			http.Error(w, "<html>nginx\n"+r.Header.Get("Authorization"), 404)
			return true
		}, []string{"HTTP 404", "see that `catalog`"}},
		"a page": {byToken, func(w http.ResponseWriter, r *http.Request) bool {
			_, _ = w.Write([]byte("<html>log in</html>"))
			return true
		}, []string{"the catalog answered", "see that `catalog`"}},
		"redirect": {byToken, func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, elsewhere.URL+"/v1/config", http.StatusTemporaryRedirect)
			return true
		}, []string{"the catalog redirects to", elsewhere.URL, "in `catalog`"}},
		"redirect of token": {byCredential, func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, elsewhere.URL+"/tokens", http.StatusPermanentRedirect)
			return true
		}, []string{"the catalog redirects to", elsewhere.URL}},
		"silent":        {byToken, silent, []string{"the catalog cannot be reached: it does not answer"}},
		"silent issuer": {byCredential, silent, []string{"does not answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newREST(t, t.TempDir())
			server.fault = c.fault
			o := server.options(c.env)
			if strings.HasPrefix(name, "silent") {
				o.Patience = 500 * time.Millisecond
			}
			_, err := New(nil, o).Shows(t.Context())
			checkWords(t, err, c.says)
			checkWords(t, Probe(t.Context(), o), c.says)
		})
	}
}

// checkWords checks that a message has some words, and neither a secret nor several lines.
func checkWords(t *testing.T, err error, says []string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range says {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
	for _, secret := range []string{"t0ken", "of a client", "of+a+client", "s3cret", "\n"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q is in %q", secret, err)
		}
	}
	t.Log(err)
}

// TestRESTCatalogComesBack: what was fetched before a catalog has forgotten its tokens is fetched again.
func TestRESTCatalogComesBack(t *testing.T) {
	t.Parallel()
	dir, journal := t.TempDir(), sinktest.Sample(4)
	c := newREST(t, dir)
	l := openAs(c.options(byCredential)).Line(t, dir)
	l.Write(t, journal, 0, 2)
	l.Publish(t)
	c.set(func() { c.token = "none" })
	l.Write(t, journal, 2, 4)
	checkWords(t, l.Copy.Publish(t.Context()), []string{"load table", "HTTP 401", "renew ICEBERG_REST_CREDENTIAL"})
	if err := l.Copy.Close(); err != nil {
		t.Fatal(err)
	}
	l.Copy = openAs(c.options(byCredential))(t, dir, l.Warehouse) // as package sinks does after an error
	l.Publish(t)
	l.Check(t, journal, 4)
	l.Close(t)
}
