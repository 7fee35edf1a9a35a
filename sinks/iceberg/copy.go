//go:build iceberg

package iceberg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/parquet"
	"outlierd/sinks/warehouse"
)

var _ sinks.Copy = (*Copy)(nil)

// Copy is the tables of one writer.
type Copy struct {
	options Options
	place   *place // nil while it is closed
	staged  *parquet.Copy
	tables  []*lakeTable

	// Tests replace these.
	step func(what string) error // called before each upload and each commit
	now  func() time.Time        // the clock
	keep time.Duration           // see kept
}

// note says what a writer has published. It is a property of the last table, which is committed at the end.
type note struct {
	sinks.Marks

	Files     map[string]string // by table: digest of the list of the writer's files
	Inspected string            // UTC date on which the files were last looked for
}

// kept is how long snapshots are kept, for queries that have begun. They expire in batches, so it may be twice
// as long.
const kept = 24 * time.Hour

// New returns the copy of rows in a lake. It opens the catalog when it is used, and again after an error, because the
// cause may be gone: credentials were renewed, or a table was dropped.
func New(rows *warehouse.Warehouse, o Options) *Copy {
	c := &Copy{options: o, step: func(string) error { return nil }, now: time.Now, keep: kept}
	c.staged = parquet.New(rows, parquet.Options{
		Dir: o.Staging, Constant: parquet.Constant{Name: InstanceColumn, Value: o.Instance},
		FieldIDs: func(t *schema.Table) string {
			return c.tables[slices.IndexFunc(c.tables, func(l *lakeTable) bool { return l.of == t })].ids
		},
	})
	return c
}

// openPlace opens the catalog.
func (c *Copy) openPlace(ctx context.Context) (err error) {
	c.tables = nil
	for _, t := range c.options.Tables {
		c.tables = append(c.tables, &lakeTable{copy: c, of: t})
	}
	c.place, err = openPlace(ctx, c.options)
	return err
}

// withTables opens the catalog, unless it is open, creates missing tables and columns, and calls do. It closes the
// catalog after an error.
func (c *Copy) withTables(ctx context.Context, do func() error) (err error) {
	if c.place == nil {
		if err := c.openPlace(ctx); err != nil {
			return err
		}
		if err = c.explain(c.createTables(ctx)); err == nil && c.options.Opened != nil {
			err = c.options.Opened()
		}
	}
	if err == nil {
		err = do()
	}
	if err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

func (c *Copy) createTables(ctx context.Context) error {
	namespace := catalog.ToIdentifier(c.options.Namespace)
	err := c.place.CreateNamespace(ctx, namespace, nil)
	if err != nil && !errors.Is(err, catalog.ErrNamespaceAlreadyExists) {
		return fmt.Errorf("create namespace %s: %w", c.options.Namespace, c.place.plain(err))
	}
	for _, l := range c.tables {
		if err := l.prepare(ctx); err != nil {
			return err
		}
	}
	return nil
}

// explain words an error of the lake, see [place.explain].
func (c *Copy) explain(err error) error { return c.place.explain("lake", err) }

// Name implements [sinks.Copy].
func (c *Copy) Name() string { return "iceberg" }

// Close implements [sinks.Copy]. The copy can be used again.
func (c *Copy) Close() error {
	if c.place == nil {
		return nil
	}
	err := errors.Join(c.staged.Close(), c.place.close())
	c.place = nil
	return err
}

// Shows implements [sinks.Copy].
func (c *Copy) Shows(ctx context.Context) (marks sinks.Marks, err error) {
	err = c.withTables(ctx, func() error {
		shown, err := c.shown(ctx)
		marks = shown.Marks
		return c.explain(err)
	})
	return marks, err
}

// last is the table whose properties have what each writer has published.
func (c *Copy) last() *lakeTable { return c.tables[len(c.tables)-1] }

// property is the name of the property with this writer's note.
func (c *Copy) property() string { return "outlierd." + c.options.Instance }

// shown returns what this writer has published.
func (c *Copy) shown(ctx context.Context) (n note, err error) {
	if err := c.last().load(ctx); err != nil {
		return n, err
	}
	if text, set := c.last().table.Properties()[c.property()]; set {
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			return n, fmt.Errorf("property %s of table %s was altered by another program (%w): remove it",
				c.property(), c.last().name(), err)
		}
	}
	return n, nil
}

// Publish implements [sinks.Copy].
func (c *Copy) Publish(ctx context.Context) error {
	return c.withTables(ctx, func() error {
		if err := c.staged.Publish(ctx); err != nil {
			return err
		}
		return c.explain(c.publish(ctx))
	})
}

// publish makes each table list the files of the staging folder, and then notes what is published.
func (c *Copy) publish(ctx context.Context) error {
	made, err := parquet.ReadPublished(c.options.Staging)
	if err != nil {
		return err
	}
	shown, err := c.shown(ctx)
	if err != nil {
		return err
	}
	next := note{made.Marks(), map[string]string{}, c.now().UTC().Format(time.DateOnly)}
	for _, l := range c.tables {
		p := publication{files: map[string]parquet.File{}, restore: next.Inspected != shown.Inspected, keep: c.keep}
		if shown.Warehouse != made.Warehouse {
			p.keep = 0 // it was rebuilt, and something may have been erased
		}
		for _, f := range made.Tables[l.name()] {
			if f.Rows > 0 { // a file without rows has no value of _instance, so later publications would not find it
				p.files[l.nameOf(f)] = f
			}
		}
		next.Files[l.name()] = digest(sortedKeys(p.files))
		carried, err := l.carried().read()
		if err != nil {
			return err
		}
		dropped := l.table.CurrentSnapshot() == nil && len(p.files) > 0 // by another program, and created again
		if !p.restore && !dropped && len(carried) == 0 && next.Files[l.name()] == shown.Files[l.name()] {
			continue
		}
		if err := l.publish(ctx, p); err != nil {
			return fmt.Errorf("table %s: %w", l.name(), err)
		}
	}
	if reflect.DeepEqual(next, shown) {
		return nil
	}
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	return c.last().commit(ctx, func(_ context.Context, tx *table.Transaction) (bool, error) {
		if c.last().table.Properties()[c.property()] == string(text) {
			return false, nil
		}
		return true, tx.SetProperties(iceberg.Properties{c.property(): string(text)})
	})
}

// nameOf returns the name of a file below the location of the table. It has no "=", from which some engines
// would make a column.
func (l *lakeTable) nameOf(f parquet.File) string {
	base := strings.ReplaceAll(strings.TrimSuffix(f.Name, ".parquet"), "date=", "")
	return l.folder() + base + "-" + f.SHA256[:sumLetters] + ".parquet"
}

// sumLetters is how much of the checksum is in the name of a file.
const sumLetters = 16

// digest returns a digest of texts.
func digest(texts []string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\n")))
	return hex.EncodeToString(sum[:8])
}
