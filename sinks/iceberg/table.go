//go:build iceberg

package iceberg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"outlierd/excerpt"
	"outlierd/schema"
	"outlierd/sinks"
)

// InstanceColumn is the column with the writer of a row. Every table has it.
const InstanceColumn = "_instance"

// lakeTable is a table of the lake, and what is cached of it.
type lakeTable struct {
	sink *Sink
	of   *schema.Table // nil for outlierd_writers

	table  *table.Table // as of the last load or commit; nil: not loaded
	files  icebergio.WriteFileIO
	uuid   string        // of the first load; a different one later is an error
	fields *arrow.Schema // the columns of the table, with their field ids
	spec   iceberg.PartitionSpec
	own    *ownFiles      // the files of this writer; nil: not read
	index  *index         // the positions of the rows of each identity; nil: not read
	kept   *sinks.Changes // of a table of kind Changes; nil: not read
}

func (s *Sink) tableOf(t *schema.Table) *lakeTable { return &lakeTable{sink: s, of: t} }

func (l *lakeTable) name() string {
	if l.of == nil {
		return writersTable
	}
	return l.of.FileName()
}

func (l *lakeTable) id() table.Identifier {
	return append(catalog.ToIdentifier(l.sink.options.Namespace), l.name())
}

func (l *lakeTable) forget() {
	l.table, l.own, l.index, l.kept = nil, nil, nil, nil
}

// byDay reports whether the table is partitioned by day.
func (l *lakeTable) byDay() bool {
	switch {
	case l.of == nil || slices.Contains(l.sink.options.Ops, l.of):
		return false
	case l.of.Kind == schema.Current || l.of.Kind == schema.Children:
		return false
	}
	return l.of.Schema().HasField(sinks.ObservedAt)
}

// declared returns the columns that this version of the program writes.
func (l *lakeTable) declared() []arrow.Field {
	var fields []arrow.Field
	if l.of != nil {
		fields = l.of.Stored().Fields()
	}
	return append(slices.Clone(fields), arrow.Field{
		Name: InstanceColumn, Type: arrow.BinaryTypes.String, Nullable: true,
		Metadata: arrow.NewMetadata([]string{schema.CommentKey},
			[]string{"writer of the row: the daemon that owns it"}),
	})
}

// settings are the properties of every new table. The modes must be merge-on-read: rows are replaced by
// position deletes.
var settings = iceberg.Properties{
	"format-version":                             "2",
	"write.format.default":                       "parquet",
	"write.parquet.compression-codec":            "zstd",
	"write.delete.mode":                          "merge-on-read",
	"write.update.mode":                          "merge-on-read",
	"write.merge.mode":                           "merge-on-read",
	"commit.manifest-merge.enabled":              "true",
	"commit.manifest.min-count-to-merge":         "20",
	"write.metadata.delete-after-commit.enabled": "true",
	"write.metadata.previous-versions-max":       "20",
	"history.expire.max-snapshot-age-ms":         strconv.FormatInt(kept.age.Milliseconds(), 10),
}

// createTable creates the table. It is not an error if another writer has created it in the meantime.
func (l *lakeTable) createTable(ctx context.Context) error {
	columns, err := table.ArrowSchemaToIcebergWithFreshIDs(arrow.NewSchema(l.declared(), nil), false)
	if err != nil {
		return fmt.Errorf("columns of table %s: %w", l.name(), err)
	}
	with := []catalog.CreateTableOpt{catalog.WithProperties(settings)}
	if l.of != nil {
		spec, err := l.partitioning(columns)
		if err != nil {
			return err
		}
		with = append(with, catalog.WithPartitionSpec(&spec))
	}
	if root := l.sink.place.root; root != "" {
		with = append(with, catalog.WithLocation(strings.Join([]string{root, l.sink.options.Namespace, l.name()}, "/")))
	}
	_, err = l.sink.place.CreateTable(ctx, l.id(), columns, with...)
	if err != nil && !errors.Is(err, catalog.ErrTableAlreadyExists) {
		return fmt.Errorf("create table %s: %w", l.name(), l.sink.place.plain(err))
	}
	return nil
}

const (
	instancePartition = InstanceColumn
	dayPartition      = sinks.ObservedAt + "_day"
)

// partitioning returns the partition spec: by writer and, if l.byDay, by day.
func (l *lakeTable) partitioning(columns *iceberg.Schema) (iceberg.PartitionSpec, error) {
	with := []iceberg.PartitionOption{
		iceberg.AddPartitionFieldByName(InstanceColumn, instancePartition, iceberg.IdentityTransform{}, columns, nil),
	}
	if l.byDay() {
		with = append(with, iceberg.AddPartitionFieldByName(sinks.ObservedAt, dayPartition,
			iceberg.DayTransform{}, columns, nil))
	}
	return iceberg.NewPartitionSpecOpts(with...)
}

// load loads the table from the catalog, unless it is loaded, and adds missing columns.
func (l *lakeTable) load(ctx context.Context) error {
	if err := l.sink.place.inPlace(); err != nil {
		return err
	}
	if l.table != nil {
		return nil
	}
	return l.reload(ctx)
}

func (l *lakeTable) reload(ctx context.Context) error {
	l.table = nil
	t, err := l.sink.place.LoadTable(ctx, l.id())
	if errors.Is(err, catalog.ErrNoSuchTable) {
		return fmt.Errorf("table %s is gone from namespace %s: bring it back; %w",
			l.name(), l.sink.options.Namespace, ErrRebuild)
	}
	if err != nil {
		return fmt.Errorf("load table %s: %w", l.name(), lost(l.sink.place.plain(err)))
	}
	files, err := t.FS(ctx)
	if err != nil {
		return fmt.Errorf("open the files of table %s: %w", l.name(), err)
	}
	writable, ok := files.(icebergio.WriteFileIO)
	if !ok {
		return fmt.Errorf("the files of table %s in %s cannot be written", l.name(), t.Location())
	}
	l.files = writable
	if id := t.Metadata().TableUUID(); l.uuid == "" {
		l.uuid = id.String()
	} else if l.uuid != id.String() {
		return fmt.Errorf("table %s was dropped and created again by another program, without the rows of "+
			"this writer: %w", l.name(), ErrRebuild)
	}
	return l.take(ctx, t)
}

// lost adds the remedy to the error of a metadata file or a manifest that is gone. Only the catalog and
// these files lead to the rows of all writers, so a rebuild, which keeps those of others, cannot do without.
// The error is not [fs.ErrNotExist], which means that the lake was never written to.
func lost(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%v: the file is gone from the warehouse, or the catalog is an older copy: "+
		"bring back the file or the newest catalog; or give the sink another `namespace`, "+
		"which is filled from the journal", err)
}

// reading lets read use the files of the table as it is loaded. If read fails and another writer has
// changed the table since it was loaded, it is loaded again and read is repeated: the snapshot may have
// expired, and its files with it.
func (l *lakeTable) reading(ctx context.Context, read func() error) error {
	for try := 0; ; try++ {
		at := l.table.MetadataLocation()
		err := read()
		if err == nil || try == mostReads {
			return err
		}
		if again := l.reload(ctx); again != nil {
			return errors.Join(err, again)
		}
		if l.table.MetadataLocation() == at {
			return err
		}
	}
}

// mostReads bounds how often reading is repeated.
const mostReads = 3

// take caches t as the current state of the table, after it has added missing columns.
func (l *lakeTable) take(ctx context.Context, t *table.Table) error {
	added, err := l.missing(t)
	if err != nil {
		return err
	}
	if len(added) > 0 {
		return l.addColumns(ctx, t, added)
	}
	if l.fields, err = table.SchemaToArrowSchema(t.Schema(), nil, true, false); err != nil {
		return fmt.Errorf("columns of table %s: %w", l.name(), err)
	}
	if l.of != nil {
		if err := l.findSpec(t); err != nil {
			return err
		}
	}
	l.table = t
	return nil
}

// columnsName is the property with the names of the columns that the program has created, separated by
// spaces. One of them that is missing was dropped by another program.
const columnsName = prefix + "columns"

// missing returns the declared columns that t lacks because this version of the program is the first to
// write them. It returns an error if another program has dropped or altered a column.
func (l *lakeTable) missing(t *table.Table) (added []arrow.Field, err error) {
	has, err := table.SchemaToArrowSchema(t.Schema(), nil, false, false)
	if err != nil {
		return nil, fmt.Errorf("columns of table %s: %w", l.name(), err)
	}
	created := strings.Split(t.Properties()[columnsName], " ")
	for _, f := range l.declared() {
		at := has.FieldIndices(f.Name)
		switch {
		case len(at) == 1 && alike(has.Field(at[0]).Type, f.Type):
		case len(at) == 1:
			return nil, fmt.Errorf("table %s was altered by another program: column %s has type %v instead of %v: %w",
				l.name(), f.Name, has.Field(at[0]).Type, f.Type, ErrRebuild)
		case slices.Contains(created, f.Name) && !l.sink.rebuild:
			return nil, fmt.Errorf("table %s was altered by another program: column %s is gone: "+
				"bring it back by going back to a snapshot; %w",
				l.name(), f.Name, ErrRebuild)
		default:
			added = append(added, f)
		}
	}
	return added, nil
}

// alike reports whether two types are equal, apart from metadata and the names of list elements.
func alike(a, b arrow.DataType) bool {
	if a.ID() != b.ID() {
		return false
	}
	nested, ok := b.(arrow.NestedType)
	if !ok {
		return arrow.TypeEqual(a, b)
	}
	from := a.(arrow.NestedType).Fields()
	if len(from) != len(nested.Fields()) {
		return false
	}
	for i, f := range nested.Fields() {
		if b.ID() == arrow.STRUCT && from[i].Name != f.Name || !alike(from[i].Type, f.Type) {
			return false
		}
	}
	return true
}

// addColumns adds columns to a table that an older version of the program has created.
func (l *lakeTable) addColumns(ctx context.Context, t *table.Table, added []arrow.Field) error {
	columns, err := table.ArrowSchemaToIcebergWithFreshIDs(arrow.NewSchema(added, nil), false)
	if err != nil {
		return fmt.Errorf("columns of table %s: %w", l.name(), err)
	}
	tx := t.NewTransaction()
	update := tx.UpdateSchema(true, false)
	for _, f := range columns.Fields() {
		update = update.AddColumn([]string{f.Name}, f.Type, f.Doc, false, nil)
	}
	if err := update.Commit(); err != nil {
		return fmt.Errorf("add columns to table %s: %w", l.name(), err)
	}
	if _, err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("add columns to table %s: %w", l.name(), l.sink.place.plain(err))
	}
	return l.reload(ctx)
}

// findSpec finds the partition spec of the table that this version writes to. It need not be the
// current one, which another program may have changed.
func (l *lakeTable) findSpec(t *table.Table) error {
	want, err := l.partitioning(t.Schema())
	if err != nil {
		return fmt.Errorf("partitions of table %s: %w", l.name(), err)
	}
	for _, spec := range t.Metadata().PartitionSpecs() {
		if spec.CompatibleWith(&want) {
			l.spec = spec
			return nil
		}
	}
	return fmt.Errorf("table %s was not created by this program: it has no partitions by %s", l.name(), InstanceColumn)
}

// mark reads a mark of this writer. It is 0 if it was never set.
func (l *lakeTable) mark(name string) (int64, error) {
	property := l.sink.property(name)
	text, set := l.table.Properties()[property]
	if !set {
		return 0, nil
	}
	mark, err := strconv.ParseInt(text, 10, 64)
	if err != nil || mark < 0 {
		return 0, fmt.Errorf("table %s was altered by another program: property %s must be a number of 0 or "+
			"more, got %q: set it to what it was; %w", l.name(), property, excerpt.Runes(text, mostOfText), ErrRebuild)
	}
	return mark, nil
}

// commit commits a transaction. stage adds changes to it and returns the properties to set; nil means
// that there is nothing to commit. After a conflict with another writer the table is loaded again, and
// stage is called for a new transaction.
func (l *lakeTable) commit(ctx context.Context, stage func(tx *table.Transaction) (iceberg.Properties, error)) error {
	for try := 0; ; try++ {
		if err := l.load(ctx); err != nil {
			return err
		}
		if err := l.checkClock(); err != nil {
			return err
		}
		if err := l.sink.step("commit " + l.name()); err != nil {
			return err
		}
		base := l.table.MetadataLocation()
		done, err := l.tryCommit(ctx, stage)
		if done {
			return err
		}
		if l.table.MetadataLocation() == base || try == mostTries {
			return fmt.Errorf("commit to table %s: %w", l.name(), err)
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

// mostBehind is how far the local clock may be behind that of the last writer: the limit that Iceberg
// sets.
const mostBehind = time.Minute

// checkClock returns an error if a commit would be more than mostBehind older than the last one.
// Libraries and catalogs reject such a commit too, but without a reason.
func (l *lakeTable) checkClock() error {
	behind := time.UnixMilli(l.table.Metadata().LastUpdatedMillis()).Sub(l.sink.now())
	if behind <= mostBehind {
		return nil
	}
	remedy := "set the clocks of both, by NTP for example; until then the rows wait in the journal"
	if behind > time.Hour {
		remedy += "; if a clock was wrong once and is right again, give the sink another `namespace`, " +
			"which is filled from the journal"
	}
	return fmt.Errorf("table %s was changed by a machine whose clock is %v ahead of this one's, and Iceberg "+
		"allows %v: %s", l.name(), behind.Round(time.Second), mostBehind, remedy)
}

// tryCommit tries to commit once. done means that there is nothing to retry: the commit succeeded or
// failed permanently.
func (l *lakeTable) tryCommit(ctx context.Context,
	stage func(tx *table.Transaction) (iceberg.Properties, error)) (done bool, err error) {
	tx := l.table.NewTransaction()
	if l.of != nil {
		if err := tx.AssertRefSnapshotID(table.MainBranch); err != nil {
			return true, err
		}
	}
	properties, err := stage(tx)
	if err != nil { // perhaps the snapshot has expired since, and its files with it
		if again := l.reload(ctx); again != nil {
			return true, errors.Join(err, again)
		}
		return false, err
	}
	if properties == nil {
		return true, nil
	}
	token := uuid.NewString()
	properties[l.sink.property(commitName)] = token
	properties[columnsName] = l.columns()
	if err := tx.SetProperties(properties); err != nil {
		return true, err
	}
	committed, err := tx.Commit(ctx)
	if err == nil {
		if committed, err = l.detached(committed); err != nil {
			return true, err
		}
		return true, l.take(ctx, committed)
	}
	err = l.sink.place.plain(err)
	if again := l.reload(context.WithoutCancel(ctx)); again != nil {
		return true, errors.Join(fmt.Errorf("commit to table %s: %w", l.name(), err), again)
	}
	if l.table.Properties()[l.sink.property(commitName)] == token {
		return true, nil // committed, but the response was lost
	}
	return false, err
}

// detached returns a committed table without its past. The library's metadata of a committed table
// points into the transaction that made its newest snapshot. The transaction has the metadata that it
// was based on, and so on, so the memory of all commits would grow with the square of their number.
func (l *lakeTable) detached(t *table.Table) (*table.Table, error) {
	copied, err := table.MetadataBuilderFromBase(t.Metadata(), t.MetadataLocation())
	if err != nil {
		return nil, fmt.Errorf("copy the metadata of table %s: %w", l.name(), err)
	}
	metadata, err := copied.Build()
	if err != nil {
		return nil, fmt.Errorf("copy the metadata of table %s: %w", l.name(), err)
	}
	files := l.files
	open := func(context.Context) (icebergio.IO, error) { return files, nil }
	return table.New(t.Identifier(), metadata, t.MetadataLocation(), open, l.sink.place), nil
}

// columns returns the value of columnsName: the columns of the table, also those that a newer version
// of the program has created.
func (l *lakeTable) columns() string {
	var names []string
	for _, f := range l.table.Schema().Fields() {
		names = append(names, f.Name)
	}
	return strings.Join(names, " ")
}
