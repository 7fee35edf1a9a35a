//go:build iceberg

package iceberg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/rest"
	icebergsql "github.com/apache/iceberg-go/catalog/sql"
	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
	_ "modernc.org/sqlite"
)

// CatalogName is the name of the catalog within a SQL database. Engines must be configured with it.
const CatalogName = "outlierd"

// place is a catalog and the location of its tables.
type place struct {
	catalog.Catalog
	root  string // URL below which tables are created; "" if the catalog chooses it
	close func() error
	name  string // of the catalog in messages, without the password
}

// openPlace opens the catalog. It sends a request only to a REST catalog; a SQL database is connected
// to when it is first used.
func openPlace(ctx context.Context, o Options) (*place, error) {
	root, err := openWarehouse(o)
	if err != nil {
		return nil, err
	}
	p := &place{root: root, name: shown(o.Catalog)}
	switch kind, _, isAddress := strings.Cut(o.Catalog, "://"); {
	case !isAddress:
		err = p.openSQLite(o.Catalog)
	case kind == "postgres" || kind == "postgresql":
		err = p.openSQL("pgx", o.Catalog, icebergsql.Postgres)
	default:
		err = p.openREST(ctx, o)
	}
	if err != nil {
		return nil, fmt.Errorf("open the catalog %s: %w", p.name, hide(o.Catalog, err))
	}
	return p, nil
}

func (p *place) openSQLite(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	address := url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"}
	return p.openSQL("sqlite", address.String(), icebergsql.SQLite)
}

// openSQL opens a catalog in a SQL database.
func (p *place) openSQL(driver, address string, dialect icebergsql.SupportedDialect) error {
	db, err := sql.Open(driver, address)
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(2)
	c, err := icebergsql.NewCatalog(CatalogName, db, dialect, iceberg.Properties{"warehouse": p.root})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	p.Catalog, p.close = c, db.Close
	return nil
}

func (p *place) openREST(ctx context.Context, o Options) error {
	var with []rest.Option
	if o.Warehouse != "" {
		with = append(with, rest.WithWarehouseLocation(o.Warehouse))
	}
	if token, _ := o.Env("ICEBERG_REST_TOKEN"); token != "" {
		with = append(with, rest.WithOAuthToken(token))
	} else if credential, _ := o.Env("ICEBERG_REST_CREDENTIAL"); credential != "" {
		with = append(with, rest.WithCredential(credential))
	}
	c, err := rest.NewCatalog(ctx, CatalogName, o.Catalog, with...)
	if err != nil {
		return err
	}
	p.Catalog, p.close = c, c.Close
	return nil
}

// shown returns an address without its password.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return address
	}
	u.RawQuery = "" // may contain a password too
	return u.Redacted()
}

// hide removes the address and its password from the text of an error, since drivers quote them.
func hide(address string, err error) error {
	u, unread := url.Parse(address)
	if unread != nil || u.Scheme == "" {
		return err
	}
	secrets := []string{address}
	if password, set := u.User.Password(); set {
		secrets = append(secrets, password, url.QueryEscape(password))
	}
	if password := u.Query().Get("password"); password != "" {
		secrets = append(secrets, password)
	}
	return &hidden{err, secrets}
}

// hidden is an error whose text has secrets replaced.
type hidden struct {
	err     error
	secrets []string
}

func (h *hidden) Error() string {
	text := h.err.Error()
	for _, s := range h.secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "xxxxx")
		}
	}
	return text
}

func (h *hidden) Unwrap() error { return h.err }
