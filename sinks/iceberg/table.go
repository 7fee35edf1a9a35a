//go:build iceberg

package iceberg

import (
	"context"
	"errors"
	"fmt"
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

	"outlierd/schema"
	"outlierd/sinks"
)

// InstanceColumn names the writer of a row, in every table.
const InstanceColumn = "_instance"

// lakeTable is a table of the lake, and what this process remembers of it.
type lakeTable struct {
	sink *Sink
	of   *schema.Table // nil for outlierd_writers

	table  *table.Table // as it was loaded or committed last; nil if it must be loaded
	files  icebergio.WriteFileIO
	uuid   string        // known since the table was created or seen first
	fields *arrow.Schema // the columns of the table, with their ids
	spec   iceberg.PartitionSpec
	own    *holding       // the files of this writer; nil if they must be looked at
	index  *index         // where the rows of each identity are; nil if they must be read
	kept   *sinks.Changes // of a table of kind Changes; nil if it must be read
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

// declared are the columns that this version of the program writes.
func (l *lakeTable) declared() []arrow.Field {
	var fields []arrow.Field
	if l.of != nil {
		fields = l.of.Stored().Fields()
	}
	return append(slices.Clone(fields), arrow.Field{
		Name: InstanceColumn, Type: arrow.BinaryTypes.String, Nullable: true,
		Metadata: arrow.NewMetadata([]string{schema.CommentKey}, []string{"writer of the row: the daemon that owns it"}),
	})
}

// settings are the properties of every table: see the traps in the package comment of package table.
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
	"history.expire.max-snapshot-age-ms":         strconv.FormatInt(snapshotsKept.Milliseconds(), 10),
}

// createTable creates the table, unless another writer has done so meanwhile.
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
		return fmt.Errorf("create table %s: %w", l.name(), err)
	}
	return nil
}

const (
	instancePartition = InstanceColumn
	dayPartition      = sinks.ObservedAt + "_day"
)

// partitioning is by writer, and by day where the table has one.
func (l *lakeTable) partitioning(columns *iceberg.Schema) (iceberg.PartitionSpec, error) {
	with := []iceberg.PartitionOption{
		iceberg.AddPartitionFieldByName(InstanceColumn, instancePartition, iceberg.IdentityTransform{}, columns, nil),
	}
	if l.byDay() {
		with = append(with, iceberg.AddPartitionFieldByName(sinks.ObservedAt, dayPartition, iceberg.DayTransform{}, columns, nil))
	}
	return iceberg.NewPartitionSpecOpts(with...)
}

// load reads the table from the catalog, if need be, and adds the columns that it lacks.
func (l *lakeTable) load(ctx context.Context) error {
	if l.table != nil {
		return nil
	}
	return l.reload(ctx)
}

func (l *lakeTable) reload(ctx context.Context) error {
	l.table = nil
	t, err := l.sink.place.LoadTable(ctx, l.id())
	if errors.Is(err, catalog.ErrNoSuchTable) {
		return fmt.Errorf("table %s is gone from namespace %s: bring it back; %s", l.name(), l.sink.options.Namespace, rebuild)
	}
	if err != nil {
		return fmt.Errorf("load table %s: %w", l.name(), err)
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
		return fmt.Errorf("table %s was dropped and created anew by somebody else, without the rows of this writer: %s", l.name(), rebuild)
	}
	return l.take(ctx, t)
}

// take makes t the table as it is known, once it has all columns.
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

// columnsName is the property with the columns that the program has created: one of them that is missing
// was dropped by somebody else.
const columnsName = prefix + "columns"

// missing finds the columns that the table gets.
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
			return nil, fmt.Errorf("table %s was altered by somebody else: column %s has type %v instead of %v: %s",
				l.name(), f.Name, has.Field(at[0]).Type, f.Type, rebuild)
		case slices.Contains(created, f.Name) && !l.sink.anew:
			return nil, fmt.Errorf("table %s was altered by somebody else: column %s is gone: bring it back by going back to a snapshot; %s",
				l.name(), f.Name, rebuild)
		default:
			added = append(added, f)
		}
	}
	return added, nil
}

// alike reports whether two types differ at most in notes and in the names of list elements.
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

// addColumns adds what a later version of the program has added to a table.
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
		return fmt.Errorf("add columns to table %s: %w", l.name(), err)
	}
	return l.reload(ctx)
}

// findSpec finds the partitioning that this version writes, also where somebody has changed the table's.
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

// mark reads a mark of this writer, or returns 0 if it has not been set.
func (l *lakeTable) mark(name string) int64 {
	mark, _ := strconv.ParseInt(l.table.Properties()[l.sink.property(name)], 10, 64)
	return mark
}

// commit lets stage add changes and properties to a transaction, and commits it. stage is called again when
// another writer came first, with the table as it is then; without any properties there is nothing to commit.
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

// mostBehind is how far the clock may be behind that of the writer that came last: Iceberg's own limit.
const mostBehind = time.Minute

// checkClock refuses a commit that would be older than what the table has: libraries and catalogs refuse it
// too, and do not say why.
func (l *lakeTable) checkClock() error {
	behind := time.UnixMilli(l.table.Metadata().LastUpdatedMillis()).Sub(l.sink.now())
	if behind <= mostBehind {
		return nil
	}
	return fmt.Errorf("table %s was changed by a machine whose clock is %v ahead of this one's, and Iceberg allows %v: "+
		"set the clocks of both, by NTP for example; until then the rows wait in the journal",
		l.name(), behind.Round(time.Second), mostBehind)
}

// tryCommit tries it once. An error with done set is not one that another try would mend.
func (l *lakeTable) tryCommit(ctx context.Context, stage func(tx *table.Transaction) (iceberg.Properties, error)) (done bool, err error) {
	tx := l.table.NewTransaction()
	if l.of != nil {
		if err := tx.AssertRefSnapshotID(table.MainBranch); err != nil {
			return true, err
		}
	}
	properties, err := stage(tx)
	if err != nil || properties == nil {
		return true, err
	}
	token := uuid.NewString()
	properties[l.sink.property(commitName)] = token
	properties[columnsName] = l.columns()
	if err := tx.SetProperties(properties); err != nil {
		return true, err
	}
	committed, err := tx.Commit(ctx)
	if err == nil {
		return true, l.take(ctx, committed)
	}
	if again := l.reload(context.WithoutCancel(ctx)); again != nil {
		return true, errors.Join(fmt.Errorf("commit to table %s: %w", l.name(), err), again)
	}
	if l.table.Properties()[l.sink.property(commitName)] == token {
		return true, nil // the answer was lost
	}
	return false, err
}

// columns are the names of the table's columns, those of a later version of the program too.
func (l *lakeTable) columns() string {
	var names []string
	for _, f := range l.table.Schema().Fields() {
		names = append(names, f.Name)
	}
	return strings.Join(names, " ")
}
