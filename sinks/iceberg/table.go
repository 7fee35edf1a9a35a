//go:build iceberg

package iceberg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/parquet"
)

// InstanceColumn is the column with the writer of a row. Every table has it, and is partitioned by it.
const InstanceColumn = "_instance"

// lakeTable is a table of the lake.
type lakeTable struct {
	copy *Copy
	of   *schema.Table // nil for outlierd_writers

	table *table.Table // as of the last load; nil: not loaded
	files storage
	spec  iceberg.PartitionSpec
	ids   string // the field ids of the declared columns, in the syntax of DuckDB's COPY; "" before prepare
}

func (l *lakeTable) name() string {
	if l.of == nil {
		return writersTable
	}
	return l.of.FileName()
}

func (l *lakeTable) id() table.Identifier {
	return append(catalog.ToIdentifier(l.copy.options.Namespace), l.name())
}

// declared returns the columns that this version of the program writes.
func (l *lakeTable) declared() (fields []arrow.Field) {
	if l.of != nil {
		fields = append(fields, l.of.Stored().Fields()...)
	}
	return append(fields, arrow.Field{
		Name: InstanceColumn, Type: arrow.BinaryTypes.String, Nullable: true,
		Metadata: arrow.NewMetadata([]string{schema.CommentKey},
			[]string{"writer of the row: the daemon that owns it"}),
	})
}

// settings are the properties of every new table.
var settings = iceberg.Properties{
	"format-version":                             "2",
	"write.format.default":                       "parquet",
	"write.parquet.compression-codec":            "zstd",
	"commit.manifest-merge.enabled":              "true",
	"commit.manifest.min-count-to-merge":         "20",
	"write.metadata.delete-after-commit.enabled": "true",
	"write.metadata.previous-versions-max":       "20",
	"history.expire.max-snapshot-age-ms":         strconv.FormatInt(kept.Milliseconds(), 10),
}

// createTable creates the table. It is not an error if another writer has created it in the meantime.
func (l *lakeTable) createTable(ctx context.Context) error {
	columns, err := table.ArrowSchemaToIcebergWithFreshIDs(arrow.NewSchema(l.declared(), nil), false)
	if err != nil {
		return fmt.Errorf("columns of table %s: %w", l.name(), err)
	}
	with := []catalog.CreateTableOpt{catalog.WithProperties(settings)}
	if l.of != nil {
		spec, err := partitioning(columns)
		if err != nil {
			return err
		}
		with = append(with, catalog.WithPartitionSpec(&spec))
	}
	if root := l.copy.place.root; root != "" {
		with = append(with, catalog.WithLocation(strings.Join([]string{root, l.copy.options.Namespace, l.name()}, "/")))
	}
	_, err = l.copy.place.CreateTable(ctx, l.id(), columns, with...)
	if err != nil && !errors.Is(err, catalog.ErrTableAlreadyExists) {
		return fmt.Errorf("create table %s: %w", l.name(), l.copy.place.plain(err))
	}
	return nil
}

func partitioning(columns *iceberg.Schema) (iceberg.PartitionSpec, error) {
	return iceberg.NewPartitionSpecOpts(
		iceberg.AddPartitionFieldByName(InstanceColumn, InstanceColumn, iceberg.IdentityTransform{}, columns, nil))
}

// prepare loads the table, and adds columns that this version of the program is the first to write.
func (l *lakeTable) prepare(ctx context.Context) error {
	if err := l.reload(ctx); err != nil || l.of == nil {
		return err
	}
	added, err := l.missing()
	if err == nil && len(added) > 0 {
		err = l.addColumns(ctx, added)
	}
	if err == nil {
		l.ids, err = l.fieldIDs()
	}
	if err != nil {
		return err
	}
	want, err := partitioning(l.table.Schema())
	if err != nil {
		return fmt.Errorf("partitions of table %s: %w", l.name(), err)
	}
	for _, spec := range l.table.Metadata().PartitionSpecs() { // another program may have changed the current one
		if spec.CompatibleWith(&want) {
			l.spec = spec
			return nil
		}
	}
	return fmt.Errorf("table %s was not created by this program: it is not partitioned by %s alone; "+
		"give the sink another `namespace`", l.name(), InstanceColumn)
}

func (l *lakeTable) load(ctx context.Context) error {
	if l.table != nil {
		return nil
	}
	return l.reload(ctx)
}

func (l *lakeTable) reload(ctx context.Context) error {
	l.table = nil
	if err := l.copy.place.inPlace(); err != nil {
		return err
	}
	t, err := l.copy.place.LoadTable(ctx, l.id())
	if errors.Is(err, catalog.ErrNoSuchTable) {
		return fmt.Errorf("table %s is gone from namespace %s: the next publication creates it again; %w",
			l.name(), l.copy.options.Namespace, ErrRebuild)
	}
	if err != nil {
		return fmt.Errorf("load table %s: %w", l.name(), lost(l.copy.place.plain(err)))
	}
	files, err := t.FS(ctx)
	if err != nil {
		return fmt.Errorf("open the files of table %s: %w", l.name(), err)
	}
	writable, ok := files.(storage)
	if !ok {
		return fmt.Errorf("the files of table %s in %s cannot be written", l.name(), t.Location())
	}
	l.table, l.files = t, writable
	if l.ids == "" {
		return nil
	}
	if ids, err := l.fieldIDs(); err != nil || ids != l.ids {
		return errors.Join(err, fmt.Errorf("the columns of table %s were changed by another program: it is opened again", l.name()))
	}
	return nil
}

// lost adds the remedy to the error of a metadata file or a manifest that is gone. Only the catalog and
// these files lead to the rows of all writers, so no program can do without them.
// The error is not [fs.ErrNotExist], which means that the lake was never written to.
func lost(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%v: the file is gone from the warehouse, or the catalog is an older copy: "+
		"bring back the file or the newest catalog; or give the sink another `namespace`, "+
		"which is filled again", err)
}

// missing returns the declared columns that the table lacks. It returns an error if another program has altered
// a column.
func (l *lakeTable) missing() (added []arrow.Field, err error) {
	has, err := table.SchemaToArrowSchema(l.table.Schema(), nil, false, false)
	if err != nil {
		return nil, fmt.Errorf("columns of table %s: %w", l.name(), err)
	}
	for _, f := range l.declared() {
		at := has.FieldIndices(f.Name)
		switch {
		case len(at) == 0:
			added = append(added, f)
		case !alike(has.Field(at[0]).Type, f.Type):
			return nil, fmt.Errorf("table %s was altered by another program: column %s has type %v instead of %v; "+
				"give the sink another `namespace`", l.name(), f.Name, has.Field(at[0]).Type, f.Type)
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
func (l *lakeTable) addColumns(ctx context.Context, added []arrow.Field) error {
	columns, err := table.ArrowSchemaToIcebergWithFreshIDs(arrow.NewSchema(added, nil), false)
	if err != nil {
		return fmt.Errorf("columns of table %s: %w", l.name(), err)
	}
	tx := l.table.NewTransaction()
	update := tx.UpdateSchema(true, false)
	for _, f := range columns.Fields() {
		update = update.AddColumn([]string{f.Name}, f.Type, f.Doc, false, nil)
	}
	if err := update.Commit(); err != nil {
		return fmt.Errorf("add columns to table %s: %w", l.name(), err)
	}
	if _, err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("add columns to table %s: %w", l.name(), l.copy.place.plain(err))
	}
	return l.reload(ctx)
}

// fieldIDs returns the field ids of the declared columns, also of what is in them, in the syntax of DuckDB's COPY.
func (l *lakeTable) fieldIDs() (string, error) {
	var fields []iceberg.NestedField
	for _, f := range l.declared() {
		found, ok := l.table.Schema().FindFieldByName(f.Name)
		if !ok {
			return "", fmt.Errorf("table %s has no column %s", l.name(), f.Name)
		}
		fields = append(fields, found)
	}
	return "{" + idsOf(fields) + "}", nil
}

func idsOf(fields []iceberg.NestedField) string {
	var all []string
	for _, f := range fields {
		id := strconv.Itoa(f.ID)
		switch t := f.Type.(type) {
		case *iceberg.StructType:
			id = "{__duckdb_field_id: " + id + ", " + idsOf(t.FieldList) + "}"
		case *iceberg.ListType:
			id = "{__duckdb_field_id: " + id + ", " + idsOf([]iceberg.NestedField{{ID: t.ElementID, Name: "element", Type: t.Element}}) + "}"
		case *iceberg.MapType:
			id = "{__duckdb_field_id: " + id + ", " + idsOf([]iceberg.NestedField{
				{ID: t.KeyID, Name: "key", Type: t.KeyType}, {ID: t.ValueID, Name: "value", Type: t.ValueType}}) + "}"
		}
		all = append(all, database.Name(f.Name)+": "+id)
	}
	return strings.Join(all, ", ")
}

// publish makes the table list the files of want, which has them by name, and no others of this writer.
func (l *lakeTable) publish(ctx context.Context, want map[string]parquet.File, inspect bool) error {
	defer func() { l.table = nil }()
	if err := l.load(ctx); err != nil {
		return err
	}
	list, listed := digest(sortedKeys(want)), l.copy.property(filesName)
	if !inspect && l.table.Properties()[listed] == list && len(l.copy.carried[l.name()]) == 0 {
		return nil
	}
	var garbage []string
	err := l.commit(ctx, func(tx *table.Transaction) (iceberg.Properties, error) {
		own, err := l.find(ctx)
		if err != nil {
			return nil, err
		}
		change, missing, err := l.compare(own, want, inspect)
		if err != nil {
			return nil, err
		}
		garbage = change.garbage
		for _, name := range missing {
			if err := l.store(ctx, name, want[name]); err != nil {
				return nil, fmt.Errorf("store %s again: %w", name, err)
			}
		}
		if len(change.add)+len(change.remove)+len(change.deletes) == 0 && l.table.Properties()[listed] == list {
			return nil, nil
		}
		return iceberg.Properties{listed: list}, l.replace(ctx, tx, change, want)
	})
	if err != nil {
		return err
	}
	for _, address := range garbage {
		if err := l.files.Remove(address); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s, which no list has: %w", address, err)
		}
	}
	return nil
}

// replace brings the new files of a change to the location, and adds the change to a transaction.
func (l *lakeTable) replace(ctx context.Context, tx *table.Transaction, c change, want map[string]parquet.File) error {
	if err := l.bring(ctx, c.add, want); err != nil {
		return err
	}
	var added []iceberg.DataFile
	for _, name := range c.add {
		f, err := l.describe(name, want[name])
		if err != nil {
			return fmt.Errorf("describe %s: %w", name, err)
		}
		added = append(added, f)
	}
	if len(c.remove)+len(c.deletes) == 0 {
		return tx.AddDataFiles(ctx, added, nil, table.WithoutDuplicateCheck(), table.WithoutAutoNameMapping())
	}
	return tx.ReplaceFiles(ctx, c.remove, added, c.deletes, nil, table.WithoutAutoNameMapping())
}

// expire removes snapshots that are older than age, except the newest one, and the files that only they list.
func (l *lakeTable) expire(ctx context.Context, age time.Duration) error {
	defer func() { l.table = nil }()
	return l.commit(ctx, func(tx *table.Transaction) (iceberg.Properties, error) {
		all := l.table.Metadata().Snapshots()
		if len(all) < 2 || time.Since(time.UnixMilli(all[0].TimestampMs)) < age {
			return nil, nil
		}
		return iceberg.Properties{}, tx.ExpireSnapshots(table.WithOlderThan(age), table.WithRetainLast(1))
	})
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
		if err := l.copy.step("commit " + l.name()); err != nil {
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
	behind := time.UnixMilli(l.table.Metadata().LastUpdatedMillis()).Sub(l.copy.now())
	if behind <= mostBehind {
		return nil
	}
	remedy := "set the clocks of both, by NTP for example; until then the rows wait in the warehouse"
	if behind > time.Hour {
		remedy += "; if a clock was wrong once and is right again, give the sink another `namespace`, " +
			"which is filled again"
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
	properties[l.copy.property(commitName)] = token
	if err := tx.SetProperties(properties); err != nil {
		return true, err
	}
	_, err = tx.Commit(ctx)
	if err == nil {
		l.table = nil // not what the library returns: it points to all transactions before
		return true, nil
	}
	err = l.copy.place.plain(err)
	if again := l.reload(context.WithoutCancel(ctx)); again != nil {
		return true, errors.Join(fmt.Errorf("commit to table %s: %w", l.name(), err), again)
	}
	if l.table.Properties()[l.copy.property(commitName)] == token {
		return true, nil // committed, but the response was lost
	}
	return false, err
}
