//go:build iceberg

package iceberg

import (
	"context"
	"fmt"
	"hash/maphash"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/sinks"
)

// index has the positions of the rows of each identity that are not deleted, by the hash of the
// identity.
type index struct {
	seed  maphash.Seed
	files []string          // paths, by the number in [span]
	rows  map[uint64]span   // the last span of an identity
	more  map[uint64][]span // the spans before it, of identities whose rows are not adjacent
}

// span is a range of adjacent rows of a file.
type span struct{ file, from, count uint32 }

func newIndex() *index {
	return &index{seed: maphash.MakeSeed(), rows: map[uint64]span{}, more: map[uint64][]span{}}
}

func (x *index) hash(key []byte) uint64 { return maphash.Bytes(x.seed, key) }

// add adds rows of a file, except dead ones. from is the position of the first row in the file.
func (x *index) add(name string, keys *sinks.Keys, rows int, from int64, dead func(int64) bool) {
	if len(x.files) == 0 || x.files[len(x.files)-1] != name {
		x.files = append(x.files, name)
	}
	number := uint32(len(x.files) - 1)
	hash := uint64(0)
	for i := range rows {
		if !keys.SameAsPrevious(i) {
			hash = x.hash(keys.At(i))
		}
		if at := from + int64(i); !dead(at) {
			x.put(hash, number, uint32(at))
		}
	}
}

func (x *index) put(hash uint64, file, row uint32) {
	last, known := x.rows[hash]
	switch {
	case !known:
		x.rows[hash] = span{file, row, 1}
	case last.file == file && last.from+last.count == row:
		last.count++
		x.rows[hash] = last
	default:
		x.more[hash] = append(x.more[hash], last)
		x.rows[hash] = span{file, row, 1}
	}
}

// find calls each with the position of each row of an identity, the newest last.
func (x *index) find(hash uint64, each func(file string, row int64)) {
	last, known := x.rows[hash]
	if !known {
		return
	}
	for _, s := range append(x.more[hash][:len(x.more[hash]):len(x.more[hash])], last) {
		for row := s.from; row < s.from+s.count; row++ {
			each(x.files[s.file], int64(row))
		}
	}
}

func (x *index) remove(hash uint64) {
	delete(x.rows, hash)
	delete(x.more, hash)
}

// identity returns the columns that identify the rows that a new row replaces.
func (l *lakeTable) identity() []string {
	if l.isOps() {
		return []string{l.of.Schema().Field(0).Name} // the id
	}
	return l.of.Identity()
}

// buildIndex builds the index from the files of this writer, unless it is up to date.
func (l *lakeTable) buildIndex(ctx context.Context) error {
	if err := l.refresh(ctx); err != nil || l.index != nil {
		return err
	}
	x := newIndex()
	for _, f := range l.own.data {
		err := l.decode(ctx, f.FilePath(), l.identity(), nil, func(from int64, rows arrow.RecordBatch) error {
			x.add(f.FilePath(), sinks.KeysOf(rows, l.identity()), int(rows.NumRows()), from, f.isDead)
			return nil
		})
		if err != nil {
			return fmt.Errorf("find the rows of table %s: %w", l.name(), err)
		}
	}
	l.index = x
	return nil
}
