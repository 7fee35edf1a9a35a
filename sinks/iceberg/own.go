//go:build iceberg

package iceberg

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
)

// ownFiles has the files of this writer in a table, as of a snapshot.
type ownFiles struct {
	snapshot  int64                         // 0 for a table without snapshots
	data      map[string]*dataFile          // path → data file
	deletes   map[string]iceberg.DataFile   // path → file of position deletes
	manifests map[string][]iceberg.DataFile // path of a manifest, which never changes → its files of this writer
}

// dataFile is a file with rows of this writer.
type dataFile struct {
	iceberg.DataFile
	dead map[int64]struct{} // positions of deleted rows
}

func (f *dataFile) isDead(row int64) bool { _, dead := f.dead[row]; return dead }

func snapshotOf(l *lakeTable) int64 {
	if s := l.table.CurrentSnapshot(); s != nil {
		return s.SnapshotID
	}
	return 0
}

// refresh updates l.own to the loaded snapshot. If another process has changed the files of this writer,
// it discards everything that is cached about their rows.
func (l *lakeTable) refresh(ctx context.Context) error {
	if l.own != nil && l.own.snapshot == snapshotOf(l) {
		return nil
	}
	var found *ownFiles
	err := l.reading(ctx, func() (err error) {
		found, err = l.find(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("find the files of %s in table %s: %w", l.sink.options.Instance, l.name(), lost(err))
	}
	if l.own != nil && sameKeys(l.own.data, found.data) && sameKeys(l.own.deletes, found.deletes) {
		l.own.snapshot, l.own.manifests = found.snapshot, found.manifests
		return nil
	}
	l.own, l.index, l.kept = nil, nil, nil
	if l.sink.rebuild { // all rows are replaced
		l.own = found
		return nil
	}
	for _, file := range found.deletes {
		if err := l.applyDeletes(ctx, found, file.FilePath()); err != nil {
			return err
		}
	}
	l.own = found
	return nil
}

func sameKeys[A, B any](a map[string]A, b map[string]B) bool {
	if len(a) != len(b) {
		return false
	}
	for key := range a {
		if _, ok := b[key]; !ok {
			return false
		}
	}
	return true
}

// find lists the files of this writer. It reads only manifests that are not cached.
func (l *lakeTable) find(ctx context.Context) (*ownFiles, error) {
	found := &ownFiles{snapshot: snapshotOf(l), data: map[string]*dataFile{}, deletes: map[string]iceberg.DataFile{},
		manifests: map[string][]iceberg.DataFile{}}
	snapshot := l.table.CurrentSnapshot()
	if snapshot == nil {
		return found, nil
	}
	manifests, err := snapshot.Manifests(l.files)
	if err != nil {
		return nil, err
	}
	for _, m := range manifests {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		files, known := []iceberg.DataFile(nil), false
		if l.own != nil {
			files, known = l.own.manifests[m.FilePath()]
		}
		if !known {
			if files, err = l.ofManifest(m); err != nil {
				return nil, err
			}
		}
		found.manifests[m.FilePath()] = files
		for _, f := range files {
			if f.ContentType() == iceberg.EntryContentData {
				found.data[f.FilePath()] = &dataFile{DataFile: f}
			} else {
				found.deletes[f.FilePath()] = f
			}
		}
	}
	return found, nil
}

// ofManifest returns the files of this writer in a manifest.
func (l *lakeTable) ofManifest(m iceberg.ManifestFile) (files []iceberg.DataFile, err error) {
	spec := l.table.Metadata().PartitionSpecByID(int(m.PartitionSpecID()))
	field := -1
	if spec != nil {
		for _, f := range spec.Fields() {
			if f.Name == instancePartition {
				field = f.FieldID
			}
		}
	}
	if field < 0 {
		return nil, fmt.Errorf("another program has partitioned it without %s: %w", instancePartition, ErrRebuild)
	}
	for entry, err := range m.Entries(l.files, true) {
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", m.FilePath(), err)
		}
		if f := entry.DataFile(); f.Partition()[field] == l.sink.options.Instance {
			if f.ContentType() == iceberg.EntryContentEqDeletes {
				return nil, fmt.Errorf("another program has deleted rows by equality, which this program "+
					"does not read: %w", ErrRebuild)
			}
			files = append(files, f)
		}
	}
	return files, nil
}

// applyDeletes marks the rows as deleted that a file of position deletes names.
func (l *lakeTable) applyDeletes(ctx context.Context, h *ownFiles, path string) error {
	return l.decode(ctx, path, nil, nil, func(_ int64, rows arrow.RecordBatch) error {
		at := func(name string) int { return rows.Schema().FieldIndices(name)[0] }
		paths, positions := rows.Column(at("file_path")), rows.Column(at("pos")).(*array.Int64)
		for i := range int(rows.NumRows()) {
			f := h.data[paths.ValueStr(i)]
			if f == nil {
				continue // of a file that has been rewritten since
			}
			if f.dead == nil {
				f.dead = map[int64]struct{}{}
			}
			f.dead[positions.Value(i)] = struct{}{}
		}
		return nil
	})
}

// inOrder returns the data files in the order of the journal: by the lower bound of the column with the
// given id.
func (f *ownFiles) inOrder(column int) []*dataFile {
	return slices.SortedFunc(maps.Values(f.data), func(a, b *dataFile) int {
		if c := cmpBounds(a.LowerBoundValues()[column], b.LowerBoundValues()[column]); c != 0 {
			return c
		}
		return cmpBounds([]byte(a.FilePath()), []byte(b.FilePath()))
	})
}

// files returns the data files, in no particular order.
func (f *ownFiles) files() (all []iceberg.DataFile) {
	for _, file := range f.data {
		all = append(all, file.DataFile)
	}
	return all
}

// deleteFiles returns the files of position deletes, in no particular order.
func (f *ownFiles) deleteFiles() []iceberg.DataFile { return slices.Collect(maps.Values(f.deletes)) }
