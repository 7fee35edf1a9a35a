package schema

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"reflect"
	"slices"
	"strings"

	"github.com/go-faster/jx"

	"outlierd/outlier"
)

// row is the current row of a place in an answer.
type row struct {
	*record
	outer *row // around it; nil for the answer
	index int  // in its array, counting malformed elements

	values  []any
	missing []string // columns whose field is absent
	extras  extras
	other   *node  // an id that is not the requested one
	element string // index of the current element of a LIST: "[2]"
	inside  []*row // the places inside
	added   int    // rows inside
	earlier int    // comments of the answer with the same author and text

	json, frame []byte // of a place that was not read; the current element in an answer of any shape, and what is around it
}

func (r *record) isList() bool { return strings.HasSuffix(r.path, "[]") }

// readRows reads the rows in a place.
func (a *answer) readRows(r *row) {
	in := jx.DecodeBytes(r.json)
	if !r.isList() {
		a.readRow(r, in)
		return
	}
	_ = in.Arr(func(in *jx.Decoder) error {
		a.readRow(r, in)
		r.index++
		return nil
	})
	if gone := r.rows.gone; gone != nil && r.index == 0 {
		r.values = slices.Clone(r.blank)
		r.fill()
		a.addRow(gone, r) // its first column is the parent's id, too
	}
}

// readRow reads an object as the next row of r, and then the rows inside it. All are dropped if the
// row is invalid or a repetition.
func (a *answer) readRow(r *row, in *jx.Decoder) {
	if in.Next() != jx.Object {
		if raw, _ := in.Raw(); string(raw) != outlier.Forgotten { // a text in place of a forgotten element is not drift
			a.loseRow(r, "", notObject, raw)
		}
		return
	}
	*r = row{record: r.record, outer: r.outer, index: r.index, values: slices.Clone(r.blank)}
	a.readMembers(r.top, in, r, r.values)
	r.fill()
	for _, n := range r.required {
		if text(r.values[n.at]) == "" {
			a.loseRow(r, n.path, missing, nil)
			return
		}
	}
	switch {
	case a.err != nil:
		return
	case r.other != nil:
		a.loseRow(r, r.other.path, otherEntity, nil)
		return
	case a.isRepeated(r):
		a.noteDrift(r, "", twice, nil)
		return
	}
	if r.main != nil && len(r.inside) == 0 {
		a.noteDrift(r, r.main.path, missing, nil)
	}
	for _, inner := range r.inside {
		if !a.appending && r.outer != nil && r.hasContent() {
			break // nothing inside the rows of the main array makes the answer unreadable
		}
		before := inner.rows.added
		a.readRows(inner)
		r.added += inner.rows.added - before
	}
	if r.rows.table != nil && (a.src.Entity == "" || r.added > 0 || r.hasContent()) {
		a.addRow(r.rows, r)
	}
}

// hasContent reports whether a row says something about its entity: a transcript may be empty.
func (r *row) hasContent() bool {
	return r.rows.table != Transcripts || strings.TrimSpace(text(r.values[r.rows.index["transcript"]])) != ""
}

// fill sets the values that are not in the row's object: NULL if the field is absent, or that of a
// row around it.
func (r *row) fill() {
	for i, v := range r.values {
		switch v := v.(type) {
		case absent:
			r.values[i], r.missing = nil, append(r.missing, r.rows.columns[i].Name)
		case copied:
			outer := r
			for range v.up {
				outer = outer.outer
			}
			r.values[i] = outer.values[v.column]
		}
	}
}

// loseRow records drift of an element that becomes no row, and its index if it is in the main array.
func (a *answer) loseRow(r *row, path, problem string, raw jx.Raw) {
	a.noteDrift(r, path, problem, raw)
	if r.outer != nil && r.outer.outer == nil {
		a.lost = append(a.lost, r.index)
	}
}

// valuesOf returns the values of columns.
func (r *row) valuesOf(names []string) []any {
	values := make([]any, len(names))
	for i, name := range names {
		values[i] = r.values[r.rows.index[name]]
	}
	return values
}

// The service may list the same item twice in one answer. Only the first becomes a row, so that each
// key has one row per answer; the journal keeps all.

// identity returns the columns whose values identify a row within an answer: those of its key, or
// those from which the key is computed. It is nil if the key has the row's place or the source.
func (r *rows) identity() (columns []int) {
	for _, name := range r.table.Key {
		c := r.columns[r.index[name]]
		if c.Path != "" {
			columns = append(columns, r.index[name])
		} else if c.of == nil {
			return nil
		}
		for _, name := range c.of {
			columns = append(columns, r.index[name])
		}
	}
	return columns
}

// isRepeated reports whether an earlier row of this answer is the same item, and records the row.
// Comments have no id: an author may write the same text twice, but then the times or the likes
// differ, so they are compared in everything that the service says.
func (a *answer) isRepeated(r *row) bool {
	if r.identity == nil {
		return false
	}
	id, content := r.rows.table.Name, []any(nil)
	for _, i := range r.identity {
		id += "\x00" + text(r.values[i])
	}
	if r.required == nil {
		content = append(r.values, r.extras.json.String())
	}
	same := a.listed[id]
	if slices.ContainsFunc(same, func(earlier []any) bool { return reflect.DeepEqual(earlier, content) }) {
		return true
	}
	r.earlier, a.listed[id] = len(same), append(same, content)
	return false
}

// The functions here return values derived from a row's other columns or its place.

// computeRank returns the place of a hit in the whole result, from 1.
func computeRank(s *Source, r *row, _ []any) any { return int64(s.RankBase + r.index + 1) }

// computePosition returns the place in the array, from 0.
func computePosition(_ *Source, r *row, _ []any) any { return int64(r.index) }

// computeTime returns a text parsed as a time, or NULL if it is not one.
func computeTime(_ *Source, _ *row, of []any) any {
	if at, ok := parseTime([]byte(text(of[0]))); ok {
		return at
	}
	return nil
}

// computeExtra returns the values that have no column, as a JSON object; NULL if there are none.
func computeExtra(_ *Source, r *row, _ []any) any {
	if r.extras.names == nil {
		return nil
	}
	r.extras.json.ObjEnd()
	return r.extras.json.String()
}

// computeFieldsMissing returns the list, perhaps empty, of the columns whose field the row lacks.
func computeFieldsMissing(_ *Source, r *row, _ []any) any { return r.missing }

// computeChildren returns the number of rows inside the row; NULL if the answer lacks their place.
func computeChildren(_ *Source, r *row, _ []any) any {
	if len(r.inside) == 0 {
		return nil
	}
	return int64(r.added)
}

// computeLargest returns the URL of the image with the most pixels. Among equals, or without sizes,
// it is the last one, because images with names are in ascending order.
func computeLargest(_ *Source, _ *row, of []any) (largest any) {
	images, _ := of[0].([]any)
	most := int64(0)
	for _, image := range images {
		fields, ok := image.([]any)
		if !ok {
			continue
		}
		fields = fields[len(fields)-3:] // url, width, height
		width, _ := fields[1].(int64)
		height, _ := fields[2].(int64)
		if url := text(fields[0]); url != "" && width*height >= most {
			largest, most = url, width*height
		}
	}
	return largest
}

// computeCommentKey returns a hash of author and text. For a repetition in the same answer the hash
// includes the number of earlier occurrences.
func computeCommentKey(_ *Source, r *row, of []any) any {
	var said []byte
	for _, part := range of {
		said = binary.AppendUvarint(said, uint64(len(text(part))))
		said = append(said, text(part)...)
	}
	sum := sha256.Sum256(said)
	if r.earlier > 0 {
		sum = sha256.Sum256(binary.AppendUvarint(sum[:16:16], uint64(r.earlier)))
	}
	return hex.EncodeToString(sum[:16])
}
