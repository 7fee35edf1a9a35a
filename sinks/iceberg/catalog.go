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

// CatalogName is the name of a SQL catalog, by which engines find the tables in the database.
const CatalogName = "outlierd"

// place is a catalog and where its tables lie.
type place struct {
	catalog.Catalog
	root  string // the address below which tables are created; "" leaves it to the catalog
	close func() error
	name  string // of the catalog in messages, without a password
}

// openPlace opens the catalog. Only a REST catalog is asked something.
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

// openSQL opens a database, which is one process's own as long as it is used.
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

// shown is an address without its password.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return address
	}
	u.RawQuery = "" // may have a password too
	return u.Redacted()
}

// hide takes the address out of an error, which may quote it.
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

// hidden is an error whose text leaves out secrets.
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
