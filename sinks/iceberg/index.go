//go:build iceberg

package iceberg

import (
	"context"
	"fmt"
	"hash/maphash"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/sinks"
)

// index knows where the live rows of each identity are, by the identity's hash.
type index struct {
	seed  maphash.Seed
	files []string
	rows  map[uint64]span
	more  map[uint64][]span // of identities whose rows do not stand together
}

// span is rows of a file that follow one another.
type span struct{ file, from, count uint32 }

func newIndex() *index {
	return &index{seed: maphash.MakeSeed(), rows: map[uint64]span{}, more: map[uint64][]span{}}
}

func (x *index) hash(key []byte) uint64 { return maphash.Bytes(x.seed, key) }

// add takes in rows of a file that begin at a position in it, but for those that are dead.
func (x *index) add(name string, keys *sinks.Keys, rows int, from int64, dead func(int64) bool) {
	if len(x.files) == 0 || x.files[len(x.files)-1] != name {
		x.files = append(x.files, name)
	}
	number := uint32(len(x.files) - 1)
	hash := uint64(0)
	for i := range rows {
		if !keys.Again(i) {
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

// find gives the rows of an identity.
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

// identity names the columns by which rows replace one another.
func (l *lakeTable) identity() []string {
	if l.isOps() {
		return []string{l.of.Schema().Field(0).Name} // their number
	}
	return l.of.Identity()
}

// learn reads where the rows of this writer are, if that is not known.
func (l *lakeTable) learn(ctx context.Context) error {
	if err := l.look(ctx); err != nil || l.index != nil {
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
