package schema

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/go-faster/jx"

	"outlierd/outlier"
)

// Decoder converts answers to rows. It is the only code that reads whole answers. It walks a body
// guided by the tables ([compilePlans]) and appends its rows, which are dropped again if the answer turns out to
// be unreadable, so that it has all of its rows or none. It must be used by one goroutine at a time.
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

	// Of the current answer:
	src       *Source
	given     map[string]any       // the values of src
	appending bool                 // its rows are wanted
	sanitized bool                 // bytes that are not UTF-8 were replaced
	present   bool                 // it has content about the entity
	wrongID   string               // an id that is not the requested one
	listed    map[identity][][]any // its rows, see [Decoder.isRepeated]
	lost      []int                // indexes in the main array without a row; 0 for its item
}

// rows collects the rows of one table.
type rows struct {
	table   *Table // nil for the envelope
	columns []Column
	index   map[string]int // of the columns, by name
	mem     memory.Allocator
	builder *array.RecordBuilder
	earlier arrow.RecordBatch // before an unreadable answer; nil if there was none
	n       int               // collected
	added   int               // by the current answer
	gone    *rows             // the identities whose rows are deleted, see [Part]; nil if answers delete none
}

func newRows(mem memory.Allocator, t *Table, columns []Column) *rows {
	r := &rows{table: t, columns: columns, index: map[string]int{}, mem: mem, builder: array.NewRecordBuilder(mem, schemaOf(columns))}
	for i, c := range columns {
		r.index[c.Name] = i
	}
	return r
}

// NewDecoder returns a decoder whose records are allocated from mem.
func NewDecoder(mem memory.Allocator) *Decoder {
	d := &Decoder{of: map[*Table]*rows{}, drift: map[string]*Drift{}, listed: map[identity][][]any{}}
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
// are appended, and the answer belongs in quarantine. An answer that is about another entity than
// the requested one, or contains nothing about it, is an error too.
func (d *Decoder) Decode(src Source, body []byte) error {
	d.appending = true
	before := d.bytes
	if err := d.readAnswer(&src, body); err != nil {
		d.bytes = before
		return fmt.Errorf("decode %s answer %d: %w", src.Op, src.Response, err)
	}
	return nil
}

// Check reads as much of an answer as tells whether [Decoder.Decode] would succeed, without keeping its rows. It
// returns which of its hits or items have no row, by index from 0, and the error of Decode.
func (d *Decoder) Check(src Source, body []byte) (lost []int, err error) {
	d.appending = false
	err = d.readAnswer(&src, body)
	clear(d.drift)
	return d.lost, err
}

// readAnswer walks one answer. Reading it again has the same result.
func (d *Decoder) readAnswer(src *Source, body []byte) error {
	d.src, d.given, d.present, d.wrongID, d.lost = src, src.values(), false, "", nil
	clear(d.listed)
	for r := range d.collections() {
		r.added = 0
	}
	err := d.readBody(body)
	switch {
	case err != nil:
	case d.wrongID != "":
		err = fmt.Errorf("asked about %q, answered about %q", src.Entity, d.wrongID)
	case src.Missing || src.Entity == "" || src.Op == outlier.OpScan: // not about one entity
	case !d.present:
		err = fmt.Errorf("asked about %q, answered without anything about it", src.Entity)
	default: // the entity exists
		d.addRow(d.of[Missing].gone, nil)
	}
	if err != nil {
		for r := range d.collections() {
			if d.appending && r.added > 0 {
				r.dropRows(r.added)
			}
			r.added = 0
		}
	}
	return err
}

// readBody reads the rows of an answer.
func (d *Decoder) readBody(body []byte) error {
	if d.src.Missing {
		d.addRow(d.of[Missing], nil)
		return nil
	}
	plan := d.plans[d.src.Op]
	if plan == nil {
		return errors.New("no table holds answers of this operation")
	}
	if d.sanitized = !utf8.Valid(body); d.sanitized {
		body = bytes.ToValidUTF8(body, []byte("\ufffd"))
	}
	if d.Bytes() > math.MaxInt32/2-len(body) {
		return errors.New("too many rows collected already")
	}
	in, read := jx.DecodeBytes(bytes.TrimPrefix(body, []byte("\ufeff"))), d.readRow
	if plan.path == anyElements {
		read = d.readElements
	} else if in.Next() != jx.Object {
		return errors.New("the body is not a JSON object")
	}
	if err := read(&row{record: plan}, in); err != nil {
		return err
	}
	if err := in.Skip(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}

// isRequested compares an id in an answer with the requested one. A scan's id is a UUID, which is not
// case-sensitive.
func (d *Decoder) isRequested(id string) bool {
	asked := d.src.Entity
	return id == "" || asked == "" || id == asked || d.src.Op == outlier.OpScan && strings.EqualFold(id, asked)
}

// addRow counts a row, and completes and appends it if it is wanted. r is nil if all values are those of the source.
func (d *Decoder) addRow(to *rows, r *row) {
	to.added++
	d.present = d.present || r.hasContent()
	if !d.appending {
		return
	}
	to.n++
	for i, c := range to.columns {
		var value any
		switch {
		case c.computed != nil:
			value = c.computed(d.src, r, r.valuesOf(c.of))
		case c.Path == "":
			value = d.given[c.Name]
		default:
			value = r.values[i]
		}
		d.bytes += 8 + textSize(value)
		if err := appendValue(to.builder.Field(i), value); err != nil {
			panic(fmt.Sprintf("schema: %s.%s: %v", to.table.Name, c.Name, err)) // its declaration is wrong
		}
	}
}

// collections yields the rows of each table, and those that answers delete from it.
func (d *Decoder) collections() iter.Seq[*rows] {
	return func(yield func(*rows) bool) {
		for _, r := range d.rows {
			if !yield(r) || r.gone != nil && !yield(r.gone) {
				return
			}
		}
	}
}

// Counted returns how many rows the last [Decoder.Decode] appended, by table name; tables without rows are omitted. A current table has as many as its history.
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
		n += r.n
	}
	return n
}

// Bytes returns approximately how much memory the collected rows need in Arrow.
func (d *Decoder) Bytes() int { return d.bytes }

// Take returns the collected rows, at most one Part per table in the order of [Tables], and resets
// the decoder. A current table shares its history's arrays, and a table shares those of its
// [Table.Of].
func (d *Decoder) Take() []Part {
	batches := map[*Table]arrow.RecordBatch{}
	for _, r := range d.rows {
		if r.n > 0 || r.gone != nil && r.gone.n > 0 {
			batches[r.table] = r.takeBatch()
		}
	}
	var parts []Part
	for _, t := range Tables() {
		if batch := batches[t]; batch != nil {
			part := Part{Table: t, Rows: batch}
			if gone := d.of[t].gone; gone != nil && gone.n > 0 {
				part.Gone = gone.takeBatch()
			}
			parts = append(parts, part)
		} else if batch := batches[cmp.Or(t.History, t.Of)]; batch != nil && batch.NumRows() > 0 {
			parts = append(parts, Part{Table: t, Rows: project(batch, t)})
		}
	}
	d.bytes = 0
	return parts
}

// takeBatch returns the collected rows.
func (r *rows) takeBatch() arrow.RecordBatch {
	batch := r.builder.NewRecordBatch()
	if r.earlier != nil {
		batch = joinBatches(r.mem, r.earlier, batch)
	}
	r.n, r.earlier = 0, nil
	return batch
}

// dropRows removes the last rows. Builders only grow, so that the others become a batch.
func (r *rows) dropRows(n int) {
	left := r.n - n
	batch := r.takeBatch()
	defer batch.Release()
	if left > 0 {
		r.n, r.earlier = left, batch.NewSlice(0, int64(left))
	}
}

// joinBatches returns the rows of two batches, which it releases.
func joinBatches(mem memory.Allocator, a, b arrow.RecordBatch) arrow.RecordBatch {
	defer a.Release()
	defer b.Release()
	columns := make([]arrow.Array, a.NumCols())
	for i := range columns {
		joined, err := array.Concatenate([]arrow.Array{a.Column(i), b.Column(i)}, mem)
		if err != nil {
			panic(fmt.Sprintf("schema: join rows of %s: %v", a.Schema().Field(i).Name, err)) // [Decoder.Bytes] is bounded
		}
		defer joined.Release()
		columns[i] = joined
	}
	return array.NewRecordBatch(a.Schema(), columns, a.NumRows()+b.NumRows())
}

// project selects the columns of t from rows of another table.
func project(rows arrow.RecordBatch, t *Table) arrow.RecordBatch {
	var columns []arrow.Array
	for _, f := range t.schema().Fields() {
		columns = append(columns, rows.Column(rows.Schema().FieldIndices(f.Name)[0]))
	}
	return array.NewRecordBatch(t.schema(), columns, rows.NumRows())
}
