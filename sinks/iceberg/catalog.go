//go:build iceberg

package iceberg

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/rest"
	icebergsql "github.com/apache/iceberg-go/catalog/sql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"outlierd/sinks/bucket"
)

// CatalogName is the name of the catalog within a SQL database. Engines must be configured with it.
const CatalogName = "outlierd"

// place is a catalog and the location of its tables.
type place struct {
	catalog.Catalog
	root  string // URL below which tables are created; "" if the catalog chooses it
	close func() error
	name  string // of the catalog in messages, without the password

	secrets  secrets // which no message has
	postgres bool    // the catalog is a PostgreSQL database
	renew    string  // what to do when a REST catalog refuses the credentials
}

// openPlace opens the catalog. It sends a request only to a REST catalog; a SQL database is connected
// to when it is first used.
func openPlace(ctx context.Context, o Options) (*place, error) {
	root, err := openWarehouse(o)
	if err != nil {
		return nil, err
	}
	p := &place{root: root, name: shown(o.Catalog)}
	p.secrets.addAddress(o.Catalog)
	switch kind, _, isAddress := strings.Cut(o.Catalog, "://"); {
	case !isAddress:
		err = p.openSQLite(o.Catalog)
	case kind == "postgres" || kind == "postgresql":
		err = p.openPostgres(o.Catalog, o.patience())
	default:
		err = p.openREST(ctx, o)
	}
	if err != nil {
		return nil, p.explain("open the catalog", p.plain(err))
	}
	return p, nil
}

// isREST reports whether the catalog is a REST catalog.
func (o Options) isREST() bool {
	return strings.HasPrefix(o.Catalog, "http://") || strings.HasPrefix(o.Catalog, "https://")
}

func (o Options) patience() time.Duration { return cmp.Or(o.Patience, bucket.Patience) }

func (p *place) openSQLite(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	address := url.URL{Scheme: "file", Path: path,
		RawQuery: "_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"}
	db, err := sql.Open("sqlite", address.String())
	if err != nil {
		return err
	}
	// No connection stays open, because it would go on with a file that was removed or replaced, which neither
	// readers nor other writers see.
	db.SetMaxIdleConns(-1)
	return p.openSQL(db, icebergsql.SQLite)
}

// openPostgres opens a catalog in a PostgreSQL database. The library asks it with no time limit, so a
// connection has one.
func (p *place) openPostgres(address string, patience time.Duration) error {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return err
	}
	p.postgres = true
	p.secrets.add(config.Password) // also from a file or a variable
	config.DialFunc = bucket.Dial(patience)
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = patience
	}
	return p.openSQL(stdlib.OpenDB(*config), icebergsql.Postgres)
}

// openSQL opens a catalog in a SQL database, and takes that over.
func (p *place) openSQL(db *sql.DB, dialect icebergsql.SupportedDialect) error {
	db.SetMaxOpenConns(2)
	c, err := icebergsql.NewCatalog(CatalogName, db, dialect, iceberg.Properties{"warehouse": p.root})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	p.Catalog, p.close = c, db.Close
	return nil
}

func (p *place) openREST(ctx context.Context, o Options) error {
	with := []rest.Option{rest.WithCustomTransport(guarded{bucket.Network(o.patience()), p})}
	if o.Warehouse != "" {
		with = append(with, rest.WithWarehouseLocation(o.Warehouse))
	}
	if token, _ := o.Env("ICEBERG_REST_TOKEN"); token != "" {
		with = append(with, rest.WithOAuthToken(token))
		p.secrets.add(token)
		p.renew = "renew ICEBERG_REST_TOKEN"
	} else if credential, _ := o.Env("ICEBERG_REST_CREDENTIAL"); credential != "" {
		with = append(with, rest.WithCredential(credential))
		_, secret, _ := strings.Cut(credential, ":")
		p.secrets.add(cmp.Or(secret, credential))
		p.renew = "renew ICEBERG_REST_CREDENTIAL"
	} else {
		p.renew = "set ICEBERG_REST_TOKEN or ICEBERG_REST_CREDENTIAL"
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
