package sinks

import (
	"hash/maphash"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"outlierd/schema"
)

// Changes remembers the last kept row of every key of a table of kind Changes. A
// sink teaches it its stored rows when it first needs it, and forgets it after an
// error, because it may then be ahead of what was committed.
type Changes struct {
	key, compared []string
	seed          maphash.Seed
	last          map[uint64]uint64 // hash of the key → hash of the compared columns, of which the key is one
	answers       map[uint64]int64  // hash of the key → the answer of that row, until rows are learned
}

// NewChanges remembers nothing.
func NewChanges(t *schema.Table) *Changes {
	c := &Changes{key: t.Key, seed: maphash.MakeSeed(), last: map[uint64]uint64{}, answers: map[uint64]int64{}}
	for _, column := range t.Columns {
		c.compared = append(c.compared, column.Name)
	}
	return c
}

// Recall takes in stored rows in the order of files, of which one may begin before another has ended in the
// journal: of each key, the row with the highest _response_id stands.
func (c *Changes) Recall(rows arrow.RecordBatch) {
	keys, values, answers := KeysOf(rows, c.key), KeysOf(rows, c.compared), column(rows, ResponseID).(*array.Int64)
	for i := range int(rows.NumRows()) {
		key := maphash.Bytes(c.seed, keys.At(i))
		if answer, known := c.answers[key]; known && answer > answers.Value(i) {
			continue
		}
		c.last[key], c.answers[key] = maphash.Bytes(c.seed, values.At(i)), answers.Value(i)
	}
}

// Learn takes in rows in the order of the journal and tells which of them differ
// from their key's row before.
func (c *Changes) Learn(rows arrow.RecordBatch) []int {
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

// Parents remembers which identities have rows in a table (of children and the like:
// which parents), so that appending the first answer about one, which is nearly every
// one, need not look for rows to replace: that look costs in proportion to the table. It
// holds hashes; two identities that share one cost a needless look and nothing else.
type Parents struct {
	identity []string
	seed     maphash.Seed
	known    map[uint64]struct{}
}

// NewParents remembers nothing.
func NewParents(t *schema.Table) *Parents {
	return &Parents{identity: t.Identity(), seed: maphash.MakeSeed(), known: map[uint64]struct{}{}}
}

// Learn takes in the identities of rows and returns, for each that may have been
// known, the index of its first row.
func (p *Parents) Learn(rows arrow.RecordBatch) []int {
	again := p.Known(rows)
	parents := KeysOf(rows, p.identity)
	for i := range int(rows.NumRows()) {
		if !parents.Again(i) {
			p.known[maphash.Bytes(p.seed, parents.At(i))] = struct{}{}
		}
	}
	return again
}

// Known returns, for each identity of rows that may be known, the index of its first row.
func (p *Parents) Known(rows arrow.RecordBatch) []int {
	parents := KeysOf(rows, p.identity)
	met := map[string]struct{}{}
	var known []int
	for i := range int(rows.NumRows()) {
		if parents.Again(i) {
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
