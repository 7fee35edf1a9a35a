//go:build iceberg

package iceberg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/parquet"
)

// InstanceColumn is the column with the writer of a row. Every table has it, and is partitioned by it.
const InstanceColumn = "_instance"

// lakeTable is a table of the lake.
type lakeTable struct {
	copy *Copy
	of   *schema.Table

	table *table.Table // as of the last load
	files files
	spec  iceberg.PartitionSpec
	ids   string // the field ids of the declared columns, in the syntax of DuckDB's COPY; "" before prepare
}

func (l *lakeTable) name() string { return l.of.FileName() }

func (l *lakeTable) id() table.Identifier {
	return append(catalog.ToIdentifier(l.copy.options.Namespace), l.name())
}

// declared returns the columns that this version of the program writes.
func (l *lakeTable) declared() (*iceberg.Schema, error) {
	writer := arrow.Field{Name: InstanceColumn, Type: arrow.BinaryTypes.String, Nullable: true,
		Metadata: arrow.NewMetadata([]string{schema.CommentKey}, []string{"writer of the row: the daemon that owns it"})}
	columns := append(slices.Clone(l.of.Stored().Fields()), writer)
	declared, err := table.ArrowSchemaToIcebergWithFreshIDs(arrow.NewSchema(columns, nil), false)
	if err != nil {
		return nil, fmt.Errorf("columns of table %s: %w", l.name(), err)
	}
	return declared, nil
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
	columns, err := l.declared()
	if err != nil {
		return err
	}
	spec, err := partitioning(columns)
	if err != nil {
		return err
	}
	with := []catalog.CreateTableOpt{catalog.WithProperties(settings), catalog.WithPartitionSpec(&spec)}
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

// prepare loads the table, and creates it if it is missing. It adds columns that this version of the program is the
// first to write.
func (l *lakeTable) prepare(ctx context.Context) error {
	err := l.load(ctx)
	if errors.Is(err, catalog.ErrNoSuchTable) {
		if err = l.createTable(ctx); err == nil {
			err = l.load(ctx)
		}
	}
	if err != nil {
		return err
	}
	if err := l.addColumns(ctx); err != nil {
		return fmt.Errorf("add columns to table %s: %w", l.name(), l.copy.place.plain(err))
	}
	ids, err := l.fieldIDs()
	l.ids = ids
	return err
}

// load reads the table from the catalog.
func (l *lakeTable) load(ctx context.Context) error {
	t, err := l.copy.place.LoadTable(ctx, l.id())
	if errors.Is(err, catalog.ErrNoSuchTable) {
		return fmt.Errorf("table %s is gone from namespace %s (%w): the next publication creates it again; %w",
			l.name(), l.copy.options.Namespace, catalog.ErrNoSuchTable, ErrRebuild)
	}
	if err != nil {
		return fmt.Errorf("load table %s: %w", l.name(), lost(l.copy.place.plain(err)))
	}
	found, err := t.FS(ctx)
	if err != nil {
		return fmt.Errorf("open the files of table %s: %w", l.name(), err)
	}
	var ours bool
	if l.files, ours = found.(files); !ours {
		return fmt.Errorf("the files of table %s in %s cannot be written", l.name(), t.Location())
	}
	l.table = t
	if l.spec, err = l.findSpec(); err != nil || l.ids == "" {
		return err
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
		"bring back the file or the newest catalog; or give the sink another `namespace`, which is filled again", err)
}

// findSpec returns how the table is partitioned by the writer. Another program may have changed how it writes.
func (l *lakeTable) findSpec() (iceberg.PartitionSpec, error) {
	want, err := partitioning(l.table.Schema())
	if err != nil {
		return want, fmt.Errorf("partitions of table %s: %w", l.name(), err)
	}
	for _, spec := range l.table.Metadata().PartitionSpecs() {
		if spec.CompatibleWith(&want) {
			return spec, nil
		}
	}
	return want, fmt.Errorf("table %s was not created by this program: it is not partitioned by %s alone; "+
		"give the sink another `namespace`", l.name(), InstanceColumn)
}

// addColumns adds the columns that the table lacks. It returns an error if another program has altered one.
func (l *lakeTable) addColumns(ctx context.Context) error {
	declared, err := l.declared()
	if err != nil {
		return err
	}
	columns := slices.Clone(declared.Fields())
	for i, f := range columns {
		if _, exists := l.table.Schema().FindFieldByName(f.Name); exists {
			columns[i].Doc = "" // versions of the program that differ here would change it in turns
		}
	}
	tx := l.table.NewTransaction()
	if err := tx.UpdateSchema(true, false).UnionByNameWith(iceberg.NewSchema(0, columns...)).Commit(); err != nil {
		return fmt.Errorf("it was altered by another program: %w; give the sink another `namespace`", err)
	}
	l.table, err = tx.Commit(l.carried().note(ctx)) // asks the catalog only if a column is missing
	return err
}

// fieldIDs returns the field ids of the declared columns, also of what is in them, in the syntax of DuckDB's COPY.
func (l *lakeTable) fieldIDs() (string, error) {
	declared, err := l.declared()
	if err != nil {
		return "", err
	}
	var fields []iceberg.NestedField
	for _, f := range declared.Fields() {
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
		id, inner := strconv.Itoa(f.ID), []iceberg.NestedField(nil)
		switch t := f.Type.(type) {
		case *iceberg.StructType:
			inner = t.FieldList
		case *iceberg.ListType:
			inner = []iceberg.NestedField{t.ElementField()}
		case *iceberg.MapType:
			inner = []iceberg.NestedField{t.KeyField(), t.ValueField()}
		}
		if inner != nil {
			id = "{__duckdb_field_id: " + id + ", " + idsOf(inner) + "}"
		}
		all = append(all, database.Name(f.Name)+": "+id)
	}
	return strings.Join(all, ", ")
}

// address returns the URL of a file from its name below the table's location.
func (l *lakeTable) address(name string) string {
	return strings.TrimSuffix(l.table.Location(), "/") + "/" + name
}

// folder is the name of the folder of this writer's files.
func (l *lakeTable) folder() string { return "data/" + l.copy.options.Instance + "/" }

// find returns the files of this writer that the table lists, by address. Those by which another program has
// deleted rows are among them.
func (l *lakeTable) find(ctx context.Context) (own map[string]iceberg.DataFile, err error) {
	own = map[string]iceberg.DataFile{}
	snapshot := l.table.CurrentSnapshot()
	if snapshot == nil {
		return own, nil
	}
	writer := l.spec.Field(0).FieldID
	for f, err := range l.eachFile(ctx, *snapshot, map[string]bool{}) {
		if err != nil {
			return nil, err
		}
		if f.Partition()[writer] == l.copy.options.Instance {
			own[f.FilePath()] = f
		}
	}
	return own, nil
}

// eachFile iterates over the files that a snapshot lists in manifests that were not read yet, and notes these.
func (l *lakeTable) eachFile(ctx context.Context, of table.Snapshot, read map[string]bool) iter.Seq2[iceberg.DataFile, error] {
	return func(yield func(iceberg.DataFile, error) bool) {
		failed := func(what string, err error) {
			yield(nil, fmt.Errorf("read %s of table %s: %w", what, l.name(), lost(err)))
		}
		manifests, err := of.Manifests(l.files)
		if err != nil {
			failed(of.ManifestList, err)
			return
		}
		for _, m := range manifests {
			if read[m.FilePath()] {
				continue
			}
			read[m.FilePath()] = true
			for entry, err := range m.Entries(l.files, true) {
				if err = cmp.Or(context.Cause(ctx), err); err != nil {
					failed(m.FilePath(), err)
					return
				}
				if !yield(entry.DataFile(), nil) {
					return
				}
			}
		}
	}
}

// publication is what a publication wants of a table.
type publication struct {
	files   map[string]parquet.File // the files of this writer, by name
	restore bool                    // whether listed files that are gone are stored again
	keep    time.Duration           // age of the oldest snapshot that is kept
}

// publish makes the table list the files of p, and no others of this writer.
func (l *lakeTable) publish(ctx context.Context, p publication) error {
	return l.commit(ctx, func(ctx context.Context, tx *table.Transaction) (bool, error) {
		own, err := l.find(ctx)
		if err != nil {
			return false, err
		}
		add, err := l.compare(ctx, own, p)
		if err != nil {
			return false, err
		}
		if len(add)+len(own) == 0 {
			return false, nil
		}
		if p.keep == 0 { // what goes must go, also if the expiry is interrupted
			if err := l.carried().add(sortedKeys(own)...); err != nil {
				return false, err
			}
		}
		return true, l.replace(ctx, tx, own, add, p)
	})
}

// compare returns the names of files that the table does not list yet, and leaves in own those that it lists
// and should not.
func (l *lakeTable) compare(ctx context.Context, own map[string]iceberg.DataFile, p publication) (add []string, err error) {
	sizes := map[string]int64{}
	if p.restore {
		if sizes, err = l.files.sizes(ctx, l.address(l.folder())); err != nil {
			return nil, err
		}
	}
	for _, name := range sortedKeys(p.files) {
		address := l.address(name)
		if own[address] == nil {
			add = append(add, name)
			continue
		}
		delete(own, address)
		if p.restore && sizes[l.files.nameOf(address)] != p.files[name].Bytes {
			if err := l.store(ctx, name, p.files[name]); err != nil {
				return nil, fmt.Errorf("store %s again: %w", name, err)
			}
		}
	}
	return add, nil
}

// replace stores new files, and adds to a transaction that they are listed in place of old ones.
func (l *lakeTable) replace(ctx context.Context, tx *table.Transaction, old map[string]iceberg.DataFile, add []string,
	p publication) error {
	var added, removed, deletes []iceberg.DataFile
	for _, name := range add {
		if err := l.store(ctx, name, p.files[name]); err != nil {
			return fmt.Errorf("store %s: %w", name, err)
		}
		f, err := table.FileToDataFile(ctx, local(l.staged(p.files[name])), l.address(name), l.table.Schema(), l.spec, 0,
			l.table.Properties())
		if err != nil {
			return fmt.Errorf("describe %s: %w", name, err)
		}
		added = append(added, f)
	}
	for _, address := range sortedKeys(old) {
		if f := old[address]; f.ContentType() == iceberg.EntryContentData {
			removed = append(removed, f)
		} else {
			deletes = append(deletes, f)
		}
	}
	err := tx.ReplaceFiles(ctx, removed, added, deletes, nil, table.WithoutDuplicateCheck(), table.WithoutAutoNameMapping())
	if all := l.table.Metadata().Snapshots(); err == nil && len(all) > 0 && time.Since(time.UnixMilli(all[0].TimestampMs)) > 2*p.keep {
		err = tx.ExpireSnapshots(table.WithOlderThan(p.keep), table.WithRetainLast(1))
	}
	return err
}

// local is a local file, as a file system that has it at every address.
type local string

// Open implements [icebergio.IO].
func (l local) Open(string) (icebergio.File, error) { return os.Open(string(l)) }

// Remove implements [icebergio.IO].
func (local) Remove(string) error { return errors.ErrUnsupported }

// store brings a staged file to the location.
func (l *lakeTable) store(ctx context.Context, name string, f parquet.File) error {
	if err := l.copy.step("store " + name); err != nil {
		return err
	}
	staged := l.staged(f)
	if err := parquet.VerifyFile(staged, staged, f.SHA256); err != nil {
		return err
	}
	return l.files.put(ctx, staged, l.address(name))
}

func (l *lakeTable) staged(f parquet.File) string {
	return filepath.Join(l.copy.options.Staging, filepath.FromSlash(f.Name))
}

func (l *lakeTable) carried() carried {
	return carried(filepath.Join(l.copy.options.Staging, "_carried", l.name()))
}

// maxTries is the maximum number of retries of a commit that conflicts with those of other writers, and maxPause the
// longest time between two of them.
const (
	maxTries = 60
	maxPause = 500 * time.Millisecond
)

// commit changes the table. stage adds changes to a transaction, and reports whether there are any. If another
// writer has committed meanwhile, or the answer to a commit was lost, stage is called again for what then is
// left to do.
func (l *lakeTable) commit(ctx context.Context, stage func(ctx context.Context, tx *table.Transaction) (bool, error)) error {
	ctx = l.carried().note(ctx)
	if err := l.load(ctx); err != nil {
		return err
	}
	for try := 0; ; try++ {
		base := l.table.MetadataLocation()
		done, err := l.tryCommit(ctx, stage)
		if done {
			return err
		}
		if again := l.load(context.WithoutCancel(ctx)); again != nil {
			return errors.Join(err, again)
		}
		if l.table.MetadataLocation() == base || try == maxTries {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(rand.N(maxPause)):
		}
	}
}

// tryCommit tries to commit once. It reports whether the commit has succeeded, or nothing is left to do.
func (l *lakeTable) tryCommit(ctx context.Context, stage func(ctx context.Context, tx *table.Transaction) (bool, error)) (done bool, err error) {
	if err := l.checkClock(); err != nil {
		return true, err
	}
	carried, err := l.carried().read()
	if err != nil {
		return true, err
	}
	tx := l.table.NewTransaction()
	if err := tx.AssertRefSnapshotID(table.MainBranch); err != nil {
		return true, err
	}
	changed, err := stage(ctx, tx)
	if err != nil { // perhaps the snapshot has expired since, and its files with it
		return false, err
	}
	if changed {
		if err := l.copy.step("commit " + l.name()); err != nil {
			return true, err
		}
		made, err := tx.Commit(ctx)
		if err != nil { // also if expired files could not be removed
			return made != nil, fmt.Errorf("commit to table %s: %w", l.name(), l.copy.place.plain(err))
		}
		l.table = made
	}
	if len(carried) > 0 {
		err = l.removeUnlisted(ctx, carried)
	}
	return true, cmp.Or(err, database.Remove(string(l.carried())))
}

// removeUnlisted removes those of the carried files that the table does not need. The last commit has succeeded, so an
// earlier one whose answer was lost cannot take effect any more. Files elsewhere may be those of another namespace.
func (l *lakeTable) removeUnlisted(ctx context.Context, carried []string) error {
	needed := map[string]bool{l.table.MetadataLocation(): true}
	for entry := range l.table.Metadata().PreviousFiles() {
		needed[entry.MetadataFile] = true
	}
	for _, snapshot := range l.table.Metadata().Snapshots() {
		needed[snapshot.ManifestList] = true
		for f, err := range l.eachFile(ctx, snapshot, needed) {
			if err != nil {
				return err
			}
			needed[f.FilePath()] = true
		}
	}
	for _, address := range carried {
		if needed[address] || !strings.HasPrefix(address, l.address("")) {
			continue
		}
		if err := l.files.Remove(address); err != nil {
			return fmt.Errorf("remove %s, which no list has: %w", address, err)
		}
	}
	return nil
}

// checkClock returns an error if Iceberg would refuse a commit, because it is more than a minute older than the
// last one. Libraries and catalogs give no reason.
func (l *lakeTable) checkClock() error {
	behind := time.UnixMilli(l.table.Metadata().LastUpdatedMillis()).Sub(l.copy.now())
	if behind <= time.Minute {
		return nil
	}
	return fmt.Errorf("table %s was changed by a machine whose clock is %v ahead of this one's, and Iceberg allows a minute: "+
		"set the clocks of both, by NTP for example; until then the rows wait in the warehouse; if a clock was wrong once and "+
		"is right again, give the sink another `namespace`, which is filled again", l.name(), behind.Round(time.Second))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
