package schema

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
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

// Decoder converts answers to rows. It is the only code that reads whole answers. It parses each
// body once, guided by the tables ([compile]), and appends every value directly to its column. It
// must be used by one goroutine at a time.
//
// It is strict about the form of a body, which must be one JSON object (any value,
// where the interface shows no shape; a byte order mark is tolerated) with nothing after
// it, and tolerant of its contents: what is absent or null is NULL; a value of another
// type is converted if that loses nothing, else NULL with the original in the row's extra;
// unknown fields go to extra; of a field that comes twice the first counts. NUL characters
// in texts are kept; bytes that are not UTF-8 and halves of surrogate pairs become U+FFFD.
// Values of more than [MaxValue] bytes are cut.
type Decoder struct {
	mem    memory.Allocator
	plans  map[outlier.Operation]*record // the top of each operation's answers
	rows   []*rows                       // in the order of Tables, without projections
	of     map[*Table]*rows
	gone   map[*Table]*rows // the identities whose rows are deleted, by table; see [Part]
	all    []*rows          // both
	in     jx.Decoder
	src    *Source
	drift  drifts
	mended bool                  // bytes of the current answer that are not UTF-8 were replaced
	keys   map[listed]bool       // of the rows of the current answer
	same   map[commentHash][]int // the comments of the answer by author and text
	lost   []int                 // indexes in the current answer's main array without a row; 0 for its item
}

// rows collects the rows of one table.
type rows struct {
	table   *Table // nil for the envelope
	schema  *arrow.Schema
	columns []Column
	vectors []*vector // one per column, lineage included
	n       int
	kept    int // rows of the answers before the current one
	came    int // rows of the last answer

	sized, bytes int // the number of rows when size last added up, and its result
}

func newRows(t *Table, columns []Column) *rows {
	r := &rows{table: t, schema: schemaOf(columns), columns: columns}
	for _, c := range columns {
		r.vectors = append(r.vectors, newVector(c.Type))
	}
	return r
}

// cut removes all rows from row n on. It gives up the memory of many rows, so that a decoder that keeps none does not
// hold that of its largest answer.
func (r *rows) cut(n int) {
	large := n == 0 && r.size() > mostRoom
	r.n, r.sized = n, -1
	for _, v := range r.vectors {
		if v.cut(n); large {
			v.handOver()
		}
	}
}

// size returns approximately how many bytes the rows need in Arrow.
func (r *rows) size() int {
	if r.sized != r.n {
		r.sized, r.bytes = r.n, 0
		for _, v := range r.vectors {
			r.bytes += v.size()
		}
	}
	return r.bytes
}

// reserve allocates space for a batch like the last one, once its first row is added.
func (r *rows) reserve() {
	for _, v := range r.vectors {
		v.reserve()
	}
}

// appendSource appends the columns that are set from the source to the new rows.
func (r *rows) appendSource(src *Source) {
	for i, c := range r.columns {
		if c.fromSource != nil {
			c.fromSource(r.vectors[i], src, r.n-r.vectors[i].rows)
		}
	}
}

// NewDecoder returns a decoder. Memory of records, except its own slices, is allocated from mem.
func NewDecoder(mem memory.Allocator) *Decoder {
	d := &Decoder{mem: mem, drift: drifts{}, keys: map[listed]bool{}, same: map[commentHash][]int{}}
	d.compile()
	return d
}

// Decode appends the rows of one answer, whose body has no content encoding. After an error no rows
// are appended, and the answer belongs in quarantine. An answer that is about another entity than
// the requested one, or contains nothing about it, is an error too.
func (d *Decoder) Decode(src Source, body []byte) error {
	err := d.read(&src, body)
	if err != nil {
		err = fmt.Errorf("decode %s answer %d: %w", src.Op, src.Response, err)
	} else if !src.Missing && src.about() {
		d.gone[Missing].n++ // the entity exists
	}
	for _, r := range d.all {
		if err != nil {
			r.cut(r.kept)
		}
		r.appendSource(&src)
		r.came = r.n - r.kept
	}
	return err
}

// Undo removes the rows of the last [Decoder.Decode], and the drift since the last call of
// [Decoder.Drift].
func (d *Decoder) Undo() {
	for _, r := range d.all {
		r.cut(r.kept)
		r.came = 0
	}
	clear(d.drift)
}

// Check parses an answer like [Decoder.Decode], without keeping its rows. It returns which of its
// hits or items have no row, by index from 0, and the error of Decode.
func (d *Decoder) Check(src Source, body []byte) (lost []int, err error) {
	err = d.read(&src, body)
	for _, r := range d.all {
		r.came = r.n - r.kept
		r.cut(r.kept)
	}
	clear(d.drift)
	return d.lost, err
}

// read appends the rows of one answer.
func (d *Decoder) read(src *Source, body []byte) error {
	d.src, d.lost = src, nil
	for _, r := range d.all {
		r.kept = r.n
	}
	err := d.answer(body)
	if err == nil && !src.Missing && src.about() && !d.hasRows() {
		err = fmt.Errorf("asked about %q, answered without anything about it", src.Entity)
	}
	return err
}

// hasRows reports whether the current answer has a row with content. A transcript without text has
// none.
func (d *Decoder) hasRows() bool {
	if d.src.Op != outlier.OpTranscript {
		return slices.ContainsFunc(d.rows, func(r *rows) bool { return r.n > r.kept })
	}
	events, whole := d.of[TranscriptEvents], d.of[Transcripts]
	texts := whole.vectors[slices.IndexFunc(whole.columns, func(c Column) bool { return c.Name == "transcript" })]
	for i := whole.kept; i < whole.n; i++ {
		if len(bytes.TrimSpace(texts.at(i))) > 0 {
			return true
		}
	}
	return events.n > events.kept
}

// answer parses a whole answer.
func (d *Decoder) answer(body []byte) error {
	if d.src.Missing {
		d.of[Missing].n++
		return nil
	}
	plan := d.plans[d.src.Op]
	if plan == nil {
		return errors.New("no table holds answers of this operation")
	}
	if d.mended = !utf8.Valid(body); d.mended {
		body = bytes.ToValidUTF8(body, []byte("\ufffd"))
	}
	if d.Bytes() > math.MaxInt32/2-len(body) {
		return errors.New("too many rows collected already")
	}
	d.in.ResetBytes(bytes.TrimPrefix(body, []byte("\ufeff")))
	clear(d.keys)
	clear(d.same)
	if plan.path == anyElements {
		return d.elementsOf(plan)
	}
	if err := d.envelope(plan); err != nil {
		return err
	}
	return d.echo(plan)
}

// envelope parses the top object of an answer, and fails if anything follows it.
func (d *Decoder) envelope(plan *record) error {
	if plan.rows.table == nil {
		plan.rows.cut(0)
	}
	if d.in.Next() != jx.Object {
		return errors.New("the body is not a JSON object")
	}
	if err := d.row(plan); err != nil {
		return err
	}
	for _, kid := range plan.kids {
		if !kid.given {
			d.drift.note(d.src.Op, kid.path, "", missing, nil)
		}
	}
	if err := d.in.Skip(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object")
	}
	return nil
}

// echo compares the ids in an answer with the requested id.
func (d *Decoder) echo(plan *record) error {
	if d.src.Entity == "" {
		return nil
	}
	for _, e := range plan.echoes {
		for i := e.rows.kept; i < e.ids.rows; i++ {
			if id := e.ids.at(i); len(id) > 0 && !d.src.asked(string(id)) {
				return fmt.Errorf("asked about %q, answered about %q", d.src.Entity, id)
			}
		}
	}
	return nil
}

// about reports whether the request was about one entity.
func (s *Source) about() bool { return s.Entity != "" && s.Op != outlier.OpScan }

// asked reports whether an id is the requested one. A scan's id is a UUID, which is not
// case-sensitive.
func (s *Source) asked(id string) bool {
	return id == s.Entity || s.Op == outlier.OpScan && strings.EqualFold(id, s.Entity)
}

// Counted returns how many rows the last [Decoder.Decode] appended, or [Decoder.Check] found, by
// table name; tables without rows are omitted. A current table has as many as its history.
func (d *Decoder) Counted() map[string]int64 {
	counted := map[string]int64{}
	for _, t := range Tables() {
		if came := d.of[cmp.Or(t.History, t.Of, t)].came; came > 0 {
			counted[t.Name] = int64(came)
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
func (d *Decoder) Bytes() int {
	n := 0
	for _, r := range d.all {
		n += r.size()
	}
	return n
}

// Take returns the collected rows, at most one Part per table in the order of [Tables], and resets
// the decoder. A current table shares its history's arrays, and a table shares those of its
// [Table.Of].
func (d *Decoder) Take() []Part {
	made := map[*Table]arrow.RecordBatch{}
	for _, r := range d.rows {
		if gone := d.gone[r.table]; r.n > 0 || gone != nil && gone.n > 0 {
			made[r.table] = r.batch(d.mem)
		}
	}
	var parts []Part
	for _, t := range Tables() {
		if batch := made[t]; batch != nil {
			parts = append(parts, Part{Table: t, Rows: batch, Gone: d.takeGone(t)})
		} else if batch := made[cmp.Or(t.History, t.Of)]; batch != nil && batch.NumRows() > 0 {
			parts = append(parts, Part{Table: t, Rows: project(batch, t)})
		}
	}
	return parts
}

// takeGone returns the deleted identities, or nil.
func (d *Decoder) takeGone(t *Table) arrow.RecordBatch {
	gone := d.gone[t]
	if gone == nil || gone.n == 0 {
		return nil
	}
	return gone.batch(d.mem)
}

// batch converts the rows to a record.
func (r *rows) batch(mem memory.Allocator) arrow.RecordBatch {
	var columns []arrow.Array
	for i, v := range r.vectors {
		columns = append(columns, v.arrow(mem, r.columns[i].Type))
		v.handOver()
	}
	batch := array.NewRecordBatch(r.schema, columns, int64(r.n))
	for _, c := range columns {
		c.Release()
	}
	r.n, r.sized = 0, -1
	return batch
}

// project selects the columns of t from rows of another table.
func project(rows arrow.RecordBatch, t *Table) arrow.RecordBatch {
	var columns []arrow.Array
	for _, f := range t.schema().Fields() {
		columns = append(columns, rows.Column(rows.Schema().FieldIndices(f.Name)[0]))
	}
	return array.NewRecordBatch(t.schema(), columns, rows.NumRows())
}
