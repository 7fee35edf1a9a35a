package schema

import (
	"github.com/go-faster/jx"

	"outlierd/outlier"
)

// anyElements is the place of rows in answers of any shape, see [Decoder.readElements].
const anyElements = "*[]"

// TrendingFormats holds the unmodified answers to trending formats, because their shape is not
// documented (interface, Other endpoints named only in the pricing table).
var TrendingFormats = define(Table{
	Name: "trending_formats", Kind: Log, Key: []string{"_job", "position", "observed_at"},
	Comment: "Trending formats as the service returned them: one row per element if the answer is an array, " +
		"or an object with exactly one array; otherwise one row. An empty array makes a row without a value.",
	Rows: []Place{{outlier.OpTrendingFormats, anyElements}},
	Columns: []Column{
		{Name: "position", Type: bigint, Comment: "place in the answer, from 0", computed: computePosition},
		{Name: "value", Type: varchar, JSON: true, Comment: "the element", computed: computeElement},
		{Name: "extra", Type: varchar, JSON: true, computed: computeFrame,
			Comment: "in the first row, the answer with its array emptied, `[]` if the array is the whole answer; " +
				"NULL if value is the whole answer"},
	},
}, lineage)

// readElements reads an answer of any shape. Putting the elements back into the only array of the
// frame restores the answer.
func (a *answer) readElements(r *row) {
	var elements []jx.Raw
	if elements, r.frame = splitFrame(r.json); len(elements) == 0 {
		elements = []jx.Raw{nil}
	}
	if a.sanitized {
		a.noteDrift(r, "", notUTF8, nil)
	}
	for r.index, r.json = range elements {
		a.addRow(r.rows, r)
		r.frame = nil
	}
}

// splitFrame splits a value into elements and frame. The elements are those of the array that the
// value is, or of the only array among the members of the object that it is. Any other value is
// its own single element, without a frame.
func splitFrame(whole jx.Raw) (elements []jx.Raw, frame []byte) {
	arrays, to := 0, jx.Encoder{}
	switch whole.Type() {
	case jx.Array:
		return splitArray(whole), []byte("[]")
	case jx.Object:
		to.ObjStart()
		_ = jx.DecodeBytes(whole).Obj(func(in *jx.Decoder, name string) error {
			to.FieldStart(name)
			raw, _ := in.Raw()
			if raw.Type() == jx.Array {
				arrays++
				elements, raw = splitArray(raw), jx.Raw("[]")
			}
			to.Raw(cleanJSON(raw))
			return nil
		})
		to.ObjEnd()
	}
	if arrays == 1 {
		return elements, to.Bytes()
	}
	return []jx.Raw{cleanJSON(whole)}, nil
}

// splitArray returns the elements of an array.
func splitArray(array jx.Raw) (elements []jx.Raw) {
	_ = jx.DecodeBytes(array).Arr(func(in *jx.Decoder) error {
		element, _ := in.Raw()
		elements = append(elements, cleanJSON(element))
		return nil
	})
	return elements
}

// computeElement returns the current element, or NULL if there are none. A JSON null is kept as
// the text null.
func computeElement(_ *Source, r *row, _ []any) any {
	return orNull(string(boundJSON(r.json, MaxValue)))
}

// computeFrame returns the JSON around the elements, for the first of them.
func computeFrame(_ *Source, r *row, _ []any) any {
	return orNull(string(boundJSON(r.frame, MaxValue)))
}
