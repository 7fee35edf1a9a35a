package schema

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/outlier"
)

// Decoder converts answers to rows. It is the only code that reads whole answers. It walks a body
// guided by the tables ([compilePlans]) and appends its rows. An answer has all of its rows or none: all
// that makes it unreadable shows before its first row is appended. It must be used by one goroutine at a time.
//
// It is strict about the form of a body, which must be one JSON object (any value,
// where the interface shows no shape; a byte order mark is tolerated) with nothing after
// it, and tolerant of its contents: what is absent or null is NULL; a value of another
// type is converted if that loses nothing, else NULL with the original in the row's extra;
// unknown fields go to extra; of a field that comes twice the first counts. NUL characters
// in texts are kept; bytes that are not UTF-8 and halves of surrogate pairs become U+FFFD.
// Values of more than [MaxValue] bytes are cut.
type Decoder struct {
	plans map[outlier.Operation]*record // the top of each operation's answers
	rows  []*rows                       // in the order of Tables, without projections
	of    map[*Table]*rows
	bytes int // see Bytes
	drift map[string]*Drift
}

// rows collects the rows of one table.
type rows struct {
	table   *Table // nil for the envelope
	columns []Column
	index   map[string]int // of the columns, by name
	builder *array.RecordBuilder
	added   int   // by the last answer
	gone    *rows // the identities whose rows are deleted, see [Part]; nil if answers delete none
}

func newRows(mem memory.Allocator, t *Table, columns []Column) *rows {
	r := &rows{table: t, columns: columns, index: map[string]int{}, builder: array.NewRecordBuilder(mem, schemaOf(columns))}
	for i, c := range columns {
		r.index[c.Name] = i
	}
	return r
}

// NewDecoder returns a decoder whose records are allocated from mem.
func NewDecoder(mem memory.Allocator) *Decoder {
	d := &Decoder{of: map[*Table]*rows{}, drift: map[string]*Drift{}}
	for _, t := range Tables() {
		if t.History != nil || t.Of != nil {
			continue
		}
		r := newRows(mem, t, slices.Concat(t.Columns, t.lineage))
		if t.Kind == Children || t == Missing {
			r.gone = newRows(mem, t, append(some(t.Columns, t.Identity()...), response))
		}
		d.rows, d.of[t] = append(d.rows, r), r
	}
	d.plans = compilePlans(d.rows)
	return d
}

// Decode appends the rows of one answer, whose body has no content encoding. After an error no rows
// are appended, and the answer belongs in quarantine. An answer without anything about the requested
// entity is an error too; rows about others are left out.
func (d *Decoder) Decode(src Source, body []byte) error {
	a := answer{into: d, src: &src, appending: true}
	if err := a.read(body); err != nil {
		return fmt.Errorf("decode %s answer %d: %w", src.Op, src.Response, err)
	}
	return nil
}

// Check reads as much of an answer as tells whether [Decoder.Decode] would succeed, without keeping its rows. It
// returns which of its hits or items have no row, by index from 0, and the error of Decode.
func (d *Decoder) Check(src Source, body []byte) (lost []int, err error) {
	a := answer{into: d, src: &src}
	err = a.read(body)
	clear(d.drift)
	return a.lost, err
}

// Counted returns how many rows the last [Decoder.Decode] appended, by table name; tables without rows are omitted. A
// current table has as many as its history.
func (d *Decoder) Counted() map[string]int64 {
	counted := map[string]int64{}
	for _, t := range Tables() {
		if added := d.of[cmp.Or(t.History, t.Of, t)].added; added > 0 {
			counted[t.Name] = int64(added)
		}
	}
	return counted
}

// Rows returns the number of rows collected. Rows of a projection are not counted again.
func (d *Decoder) Rows() int {
	n := 0
	for _, r := range d.rows {
		n += r.count()
	}
	return n
}

// Bytes returns approximately how much memory the collected rows need in Arrow.
func (d *Decoder) Bytes() int { return d.bytes }

// Take returns the collected rows, at most one Part per table in the order of [Tables], and resets the decoder. A
// current table shares the rows of its history, and a table those of its [Table.Of].
func (d *Decoder) Take() []Part {
	batches := map[*Table]arrow.RecordBatch{}
	for _, r := range d.rows {
		if r.count()+r.gone.count() > 0 {
			batches[r.table] = r.builder.NewRecordBatch()
		}
	}
	var parts []Part
	for _, t := range Tables() {
		part := Part{Table: t, From: cmp.Or(t.History, t.Of, t)}
		part.Rows = batches[part.From]
		switch {
		case part.Rows == nil, part.From != t && part.Rows.NumRows() == 0:
			continue
		case part.From != t:
			part.Rows.Retain()
		case d.of[t].gone.count() > 0:
			part.Gone = d.of[t].gone.builder.NewRecordBatch()
		}
		parts = append(parts, part)
	}
	d.bytes = 0
	return parts
}

// count returns how many rows are collected.
func (r *rows) count() int {
	if r == nil {
		return 0
	}
	return r.builder.Field(0).Len()
}
