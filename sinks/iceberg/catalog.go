//go:build iceberg

package iceberg

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"io/fs"
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

	path   string      // of a SQLite file; "" for other catalogs
	opened os.FileInfo // the file at path when it was opened

	secrets  secrets  // which no message has
	postgres bool     // the catalog is a PostgreSQL database
	server   *guarded // of a REST catalog; nil for others
	renew    string   // what to do when a REST catalog refuses the credentials
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
	if err := p.openSQL(db, icebergsql.SQLite); err != nil {
		return err
	}
	if p.opened, err = os.Stat(path); err != nil {
		return errors.Join(err, p.close())
	}
	p.path = path
	return nil
}

// inPlace returns an error if the SQLite file has been removed or replaced since it was opened. SQLite would
// go on with the file that was opened, which readers do not see. To it, files that other writers have added
// since would be orphans.
func (p *place) inPlace() error {
	if p.path == "" {
		return nil
	}
	now, err := os.Stat(p.path)
	if err == nil && os.SameFile(now, p.opened) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.New("the file of the catalog was removed or replaced while it was open: it is opened again")
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
	p.server = &guarded{RoundTripper: bucket.Network(o.patience()), secrets: &p.secrets}
	with := []rest.Option{rest.WithCustomTransport(p.server)}
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
		p.secrets.add(credential)
		p.secrets.add(secret)
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
