//go:build iceberg

package iceberg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
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

// Copy is the tables of one writer. After an error it must be opened again.
type Copy struct {
	options Options
	place   *place
	staged  *parquet.Copy
	writers *lakeTable
	tables  []*lakeTable
	carried carried

	// Tests replace these.
	step func(what string) error // called before each upload and each commit
	now  func() time.Time        // the clock
}

// writersTable is a table without rows. Its properties have what each writer publishes.
const writersTable = "outlierd_writers"

// The names of properties; those of a writer have its name, see [Copy.property].
const (
	prefix = "outlierd."

	showsName  = "shows"  // of outlierd_writers: a [note], as JSON
	filesName  = "files"  // digest of the list of the writer's files in a table
	commitName = "commit" // unique token of the last commit of the writer
)

// note says what a writer has published.
type note struct {
	Warehouse string `json:"warehouse"` // see [sinks.Marks]
	Answers   int64  `json:"answers"`
	Ops       int64  `json:"ops"`
	Files     string `json:"files"`     // digest of the lists of all tables
	Inspected string `json:"inspected"` // UTC date
}

func (n note) marks() sinks.Marks {
	return sinks.Marks{Warehouse: n.Warehouse, Answers: n.Answers, Ops: n.Ops}
}

// Open opens the catalog, and creates missing tables and columns.
func Open(ctx context.Context, rows *warehouse.Warehouse, o Options) (*Copy, error) {
	p, err := openPlace(ctx, o)
	if err != nil {
		return nil, err
	}
	c := newCopy(o, p)
	if err = c.createTables(ctx); err == nil {
		c.carried, err = readCarried(o.Staging)
	}
	if err != nil {
		return nil, errors.Join(c.explain(err), p.close())
	}
	ids := map[*schema.Table]string{}
	for _, l := range c.tables {
		ids[l.of] = l.ids
	}
	c.staged = parquet.New(rows, parquet.Options{
		Dir: o.Staging, Tables: o.Tables, Ops: o.Ops, Constant: parquet.Constant{Name: InstanceColumn, Value: o.Instance},
		FieldIDs: func(t *schema.Table) string { return ids[t] },
	})
	return c, nil
}

func newCopy(o Options, p *place) *Copy {
	c := &Copy{options: o, place: p, step: func(string) error { return nil }, now: time.Now}
	c.writers = &lakeTable{copy: c}
	for _, t := range slices.Concat(o.Tables, o.Ops) {
		c.tables = append(c.tables, &lakeTable{copy: c, of: t})
	}
	return c
}

func (c *Copy) createTables(ctx context.Context) error {
	namespace := catalog.ToIdentifier(c.options.Namespace)
	err := c.place.CreateNamespace(ctx, namespace, nil)
	if err != nil && !errors.Is(err, catalog.ErrNamespaceAlreadyExists) {
		return fmt.Errorf("create namespace %s: %w", c.options.Namespace, c.place.plain(err))
	}
	existing := map[string]bool{}
	for id, err := range c.place.ListTables(ctx, namespace) {
		if err != nil {
			return fmt.Errorf("list the tables of namespace %s: %w", c.options.Namespace, c.place.plain(err))
		}
		existing[catalog.TableNameFromIdent(id)] = true
	}
	for _, l := range append(slices.Clone(c.tables), c.writers) {
		if !existing[l.name()] {
			if err := l.createTable(ctx); err != nil {
				return err
			}
		}
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

// Close implements [sinks.Copy].
func (c *Copy) Close() error { return errors.Join(c.staged.Close(), c.place.close()) }

// Shows implements [sinks.Copy].
func (c *Copy) Shows(ctx context.Context) (sinks.Marks, error) {
	shown, err := c.shown(ctx)
	return shown.marks(), c.explain(err)
}

// shown returns what this writer has published.
func (c *Copy) shown(ctx context.Context) (n note, err error) {
	if err := c.writers.reload(ctx); err != nil {
		return n, err
	}
	if text, set := c.writers.table.Properties()[c.property(showsName)]; set {
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			return n, fmt.Errorf("property %s of table %s was altered by another program (%w): remove it",
				c.property(showsName), writersTable, err)
		}
	}
	return n, nil
}

// property returns the full name of a property of this writer.
func (c *Copy) property(name string) string { return prefix + c.options.Instance + "." + name }

// Publish implements [sinks.Copy].
func (c *Copy) Publish(ctx context.Context) error {
	if err := c.place.inPlace(); err != nil {
		return c.explain(err)
	}
	if err := c.staged.Publish(ctx); err != nil {
		return err
	}
	return c.explain(c.publish(ctx))
}

func (c *Copy) publish(ctx context.Context) error {
	made, err := parquet.ReadPublished(c.options.Staging)
	if err != nil {
		return err
	}
	shown, err := c.shown(ctx)
	if err != nil {
		return err
	}
	next := note{Warehouse: made.Warehouse, Answers: made.Answers, Ops: made.Ops, Inspected: c.now().UTC().Format(time.DateOnly)}
	lists := map[*lakeTable]map[string]parquet.File{}
	var digests []string
	for _, l := range c.tables {
		lists[l] = map[string]parquet.File{}
		for _, f := range made.Tables[l.of.FileName()] {
			lists[l][c.nameOf(f)] = f
		}
		digests = append(digests, digest(sortedKeys(lists[l])))
	}
	next.Files = digest(digests)
	if next == shown && len(c.carried) == 0 {
		return nil
	}
	inspect := next.Inspected != shown.Inspected
	for _, l := range c.tables {
		if err := l.publish(ctx, lists[l], inspect); err != nil {
			return fmt.Errorf("table %s: %w", l.name(), err)
		}
	}
	if err := c.forgetCarried(); err != nil {
		return err
	}
	if err := c.expire(ctx, inspect, shown.Warehouse != "" && shown.Warehouse != made.Warehouse); err != nil {
		return err
	}
	return c.writers.commit(ctx, func(*table.Transaction) (iceberg.Properties, error) {
		text, err := json.Marshal(next)
		return iceberg.Properties{c.property(showsName): string(text)}, err
	})
}

// expire removes old snapshots: once a day, and all of them when a rebuilt warehouse has replaced the rows,
// because something may have been erased.
func (c *Copy) expire(ctx context.Context, daily, all bool) error {
	age := kept
	if all {
		age = 0
	}
	for _, l := range c.tables {
		if !daily && !all {
			return nil
		}
		if err := l.expire(ctx, age); err != nil {
			return fmt.Errorf("table %s: expire snapshots: %w", l.name(), err)
		}
	}
	return nil
}

// kept is how long snapshots are kept, for readers that look back.
const kept = 7 * 24 * time.Hour

// nameOf returns the name of a file below the location of its table. It has no "=", from which some engines
// would make a column.
func (c *Copy) nameOf(f parquet.File) string {
	base := strings.ReplaceAll(strings.TrimSuffix(f.Name, ".parquet"), "date=", "")
	return "data/" + c.options.Instance + "/" + base + "-" + f.SHA256[:sumLetters] + ".parquet"
}

// sumLetters is how much of the checksum is in the name of a file.
const sumLetters = 16

// digest returns a digest of texts.
func digest(texts []string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\n")))
	return hex.EncodeToString(sum[:8])
}

// mostTries is the maximum number of retries of a commit that conflicts with those of other writers.
const mostTries = 60

// pause waits before a commit is retried: exponential backoff with jitter, up to 625 ms.
func pause(ctx context.Context, try int) error {
	most := min(time.Duration(1<<min(try, 6))*10*time.Millisecond, 500*time.Millisecond)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(most/4 + rand.N(most)):
		return nil
	}
}
