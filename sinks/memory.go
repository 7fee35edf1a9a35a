package sinks

import (
	"hash/maphash"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"outlierd/schema"
)

// Changes has hashes of the last row of every key of a table of kind Changes. A sink adds its stored
// rows by AddStored before the first use. It must discard Changes after an error, because they may then be
// ahead of what was committed.
type Changes struct {
	key, compared []string
	seed          maphash.Seed
	last          map[uint64]uint64 // hash of the key → hash of the compared columns, including the key
	answers       map[uint64]int64  // hash of the key → the answer of that row; nil after the first Add
}

// NewChanges returns empty Changes of a table.
func NewChanges(t *schema.Table) *Changes {
	c := &Changes{key: t.Key, seed: maphash.MakeSeed(), last: map[uint64]uint64{}, answers: map[uint64]int64{}}
	for _, column := range t.Columns {
		c.compared = append(c.compared, column.Name)
	}
	return c
}

// AddStored adds stored rows, in any order of answers: for each key it keeps the row with the highest
// _response_id. It must not be called after Add.
func (c *Changes) AddStored(rows arrow.RecordBatch) {
	keys, values, answers := KeysOf(rows, c.key), KeysOf(rows, c.compared), column(rows, ResponseID).(*array.Int64)
	for i := range int(rows.NumRows()) {
		key := maphash.Bytes(c.seed, keys.At(i))
		if answer, known := c.answers[key]; known && answer > answers.Value(i) {
			continue
		}
		c.last[key], c.answers[key] = maphash.Bytes(c.seed, values.At(i)), answers.Value(i)
	}
}

// Add adds rows in the order of the journal, and returns the indices of those that differ from the
// previous row of their key.
func (c *Changes) Add(rows arrow.RecordBatch) []int {
	c.answers = nil
	var changed []int
	keys, values := KeysOf(rows, c.key), KeysOf(rows, c.compared)
	for i := range int(rows.NumRows()) {
		hash := maphash.Bytes(c.seed, values.At(i))
		key := maphash.Bytes(c.seed, keys.At(i))
		if last, ok := c.last[key]; ok && last == hash {
			continue
		}
		c.last[key] = hash
		changed = append(changed, i)
	}
	return changed
}

// Parents has the identities that have rows in a table: in a Children table, the parents. A sink uses
// it to skip the search for rows to replace when the first answer about an identity is written, which
// is the most common case. That search takes time proportional to the size of the table. Parents stores
// hashes. Two identities with the same hash only cause an unnecessary search.
type Parents struct {
	identity []string
	seed     maphash.Seed
	known    map[uint64]struct{}
}

// NewParents returns empty Parents of a table.
func NewParents(t *schema.Table) *Parents {
	return &Parents{identity: t.Identity(), seed: maphash.MakeSeed(), known: map[uint64]struct{}{}}
}

// Add adds the identities of rows. It returns the index of the first row of each identity that may
// have been known before.
func (p *Parents) Add(rows arrow.RecordBatch) []int {
	again := p.Known(rows)
	parents := KeysOf(rows, p.identity)
	for i := range int(rows.NumRows()) {
		if !parents.SameAsPrevious(i) {
			p.known[maphash.Bytes(p.seed, parents.At(i))] = struct{}{}
		}
	}
	return again
}

// Known returns the index of the first row of each identity that may be known.
func (p *Parents) Known(rows arrow.RecordBatch) []int {
	parents := KeysOf(rows, p.identity)
	met := map[string]struct{}{}
	var known []int
	for i := range int(rows.NumRows()) {
		if parents.SameAsPrevious(i) {
			continue
		}
		parent := parents.At(i)
		if _, ok := met[string(parent)]; ok {
			continue
		}
		met[string(parent)] = struct{}{}
		if _, ok := p.known[maphash.Bytes(p.seed, parent)]; ok {
			known = append(known, i)
		}
	}
	return known
}
