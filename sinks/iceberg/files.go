//go:build iceberg

package iceberg

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	parquetfile "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"

	"outlierd/sinks/bucket"
	"outlierd/sinks/parquet"
)

// storage is where the files of tables are: a folder or a bucket.
type storage interface {
	icebergio.WriteFileIO

	// put stores a whole local file, which never changes.
	put(ctx context.Context, from *os.File, name string) error
}

// ownFiles has the files of this writer that a snapshot lists, by address.
type ownFiles struct {
	data    map[string]iceberg.DataFile
	deletes map[string]iceberg.DataFile // by which another program has deleted rows
}

// find lists the files of this writer.
func (l *lakeTable) find(ctx context.Context) (ownFiles, error) {
	found := ownFiles{map[string]iceberg.DataFile{}, map[string]iceberg.DataFile{}}
	snapshot := l.table.CurrentSnapshot()
	if snapshot == nil {
		return found, nil
	}
	manifests, err := snapshot.Manifests(l.files)
	for _, m := range manifests {
		if err = context.Cause(ctx); err == nil {
			err = l.findIn(m, found)
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		return found, fmt.Errorf("find the files of %s in table %s: %w", l.copy.options.Instance, l.name(), lost(err))
	}
	return found, nil
}

// findIn adds the files of this writer in a manifest.
func (l *lakeTable) findIn(m iceberg.ManifestFile, found ownFiles) error {
	field := -1
	if spec := l.table.Metadata().PartitionSpecByID(int(m.PartitionSpecID())); spec != nil {
		for _, f := range spec.Fields() {
			if f.Name == InstanceColumn {
				field = f.FieldID
			}
		}
	}
	if field < 0 {
		return fmt.Errorf("another program has partitioned it without %s: give the sink another `namespace`", InstanceColumn)
	}
	for entry, err := range m.Entries(l.files, true) {
		if err != nil {
			return fmt.Errorf("read %s: %w", m.FilePath(), err)
		}
		f := entry.DataFile()
		switch {
		case f.Partition()[field] != l.copy.options.Instance:
		case f.ContentType() == iceberg.EntryContentData:
			found.data[f.FilePath()] = f
		default:
			found.deletes[f.FilePath()] = f
		}
	}
	return nil
}

// change is how the list of this writer's files becomes another one.
type change struct {
	remove, deletes []iceberg.DataFile
	add             []string // names
	garbage         []string // addresses of files that were brought before, and that no list has
}

// compare compares what the snapshot lists with what it should list, by name. With inspect it looks for each
// listed file, too.
func (l *lakeTable) compare(own ownFiles, want map[string]parquet.File, inspect bool) (c change, missing []string, err error) {
	wanted := map[string]bool{}
	for _, name := range sortedKeys(want) {
		address := l.address(name)
		wanted[address] = true
		if own.data[address] == nil {
			c.add = append(c.add, name)
			continue
		}
		if inspect {
			there, err := l.isThere(address, want[name].Bytes)
			if err != nil {
				return c, nil, err
			}
			if !there {
				missing = append(missing, name)
			}
		}
	}
	for _, address := range sortedKeys(own.data) {
		if !wanted[address] {
			c.remove = append(c.remove, own.data[address])
		}
	}
	c.deletes = slices.Collect(maps.Values(own.deletes))
	for _, address := range l.copy.carried[l.name()] {
		if !wanted[address] && own.data[address] == nil && strings.HasPrefix(address, l.address("data/"+l.copy.options.Instance+"/")) {
			c.garbage = append(c.garbage, address)
		}
	}
	return c, missing, nil
}

// isThere reports whether the location has a file of that size.
func (l *lakeTable) isThere(address string, bytes int64) (bool, error) {
	f, err := l.files.Open(address)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	return err == nil && info.Size() == bytes, err
}

// bring stores staged files at the location, unless an earlier attempt has.
func (l *lakeTable) bring(ctx context.Context, names []string, want map[string]parquet.File) error {
	before, addresses := slices.Clone(l.copy.carried[l.name()]), []string{}
	for _, name := range names {
		addresses = append(addresses, l.address(name))
	}
	if err := l.copy.noteCarried(l, addresses); err != nil {
		return err
	}
	for _, name := range names {
		if address := l.address(name); slices.Contains(before, address) {
			there, err := l.isThere(address, want[name].Bytes)
			if err != nil {
				return err
			}
			if there {
				continue
			}
		}
		if err := l.copy.step("store " + name); err != nil {
			return err
		}
		if err := l.store(ctx, name, want[name]); err != nil {
			return fmt.Errorf("store %s: %w", name, err)
		}
	}
	return nil
}

func (l *lakeTable) store(ctx context.Context, name string, f parquet.File) error {
	from, err := os.Open(l.staged(f))
	if err != nil {
		return err
	}
	defer from.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, from); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%s is damaged: remove it, and it is written again", from.Name())
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return l.files.put(ctx, from, l.address(name))
}

func (l *lakeTable) staged(f parquet.File) string {
	return filepath.Join(l.copy.options.Staging, filepath.FromSlash(f.Name))
}

// address returns the URL of a file from its name below the table's location.
func (l *lakeTable) address(name string) string {
	return strings.TrimSuffix(l.table.Location(), "/") + "/" + name
}

// describe returns the entry of a staged file in a manifest: its partition, and statistics of its columns.
// Numbers and times have bounds. Texts have none: a file has rows of one time, not of one key.
func (l *lakeTable) describe(name string, f parquet.File) (_ iceberg.DataFile, err error) {
	in, err := file.OpenParquetFile(l.staged(f), false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	partition := map[int]any{}
	for _, f := range l.spec.Fields() {
		partition[f.FieldID] = l.copy.options.Instance
	}
	b, err := iceberg.NewDataFileBuilder(l.spec, iceberg.EntryContentData, l.address(name), iceberg.ParquetFile,
		partition, nil, nil, f.Rows, f.Bytes)
	if err != nil {
		return nil, err
	}
	sizes, counts, nulls := map[int]int64{}, map[int]int64{}, map[int]int64{}
	lower, upper := map[int][]byte{}, map[int][]byte{}
	meta := in.MetaData()
	for i := range meta.Schema.NumColumns() {
		leaf := meta.Schema.Column(i)
		if len(leaf.ColumnPath()) != 1 {
			continue // the values of a list or a structure
		}
		id, bounded := int(leaf.SchemaNode().FieldID()), leaf.PhysicalType() == parquetfile.Types.Int64
		var lo, hi [][]byte
		for g := range meta.NumRowGroups() {
			chunk, err := meta.RowGroup(g).ColumnChunk(i)
			if err != nil {
				return nil, err
			}
			sizes[id] += chunk.TotalCompressedSize()
			counts[id] += chunk.NumValues()
			stats, err := chunk.Statistics()
			if err != nil {
				return nil, err
			}
			if stats == nil || !stats.HasNullCount() {
				return nil, fmt.Errorf("column %s of %s has no statistics", leaf.Name(), name)
			}
			nulls[id] += stats.NullCount()
			if bounded && stats.HasMinMax() {
				lo, hi = append(lo, stats.EncodeMin()), append(hi, stats.EncodeMax())
			} else if stats.NullCount() < chunk.NumValues() {
				bounded = false
			}
		}
		if bounded && len(lo) > 0 {
			lower[id], upper[id] = slices.MinFunc(lo, compareNumbers), slices.MaxFunc(hi, compareNumbers)
		}
	}
	b.ColumnSizes(sizes).ValueCounts(counts).NullValueCounts(nulls).LowerBoundValues(lower).UpperBoundValues(upper)
	return b.Build(), nil
}

// compareNumbers compares numbers of 64 bits as Parquet and Iceberg encode them.
func compareNumbers(a, b []byte) int {
	if len(a) != 8 || len(b) != 8 {
		return bytes.Compare(a, b)
	}
	return cmp.Compare(int64(binary.LittleEndian.Uint64(a)), int64(binary.LittleEndian.Uint64(b)))
}

// unreadable adds the remedy to the error of a file that is damaged or gone, as opposed to a bucket that cannot
// be reached.
func unreadable(err error) error {
	if _, ofBucket := errors.AsType[*bucket.ObjectError](err); ofBucket && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%v: bring the file back; %w", err, ErrRebuild)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
