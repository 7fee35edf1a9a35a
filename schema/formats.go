package schema

import (
	"fmt"

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
			Comment: "the answer with its array emptied, `[]` if the array is the whole answer; " +
				"NULL if value is the whole answer"},
	},
}, lineage)

// maxFill is the maximum size in bytes of a repeated text in all rows of an answer. Without it a
// small answer could grow large: a megabyte around each of a thousand elements.
const maxFill = 64 << 20

// readElements reads an answer of any shape. Putting the elements back into the only array of the
// frame restores the answer.
func (d *Decoder) readElements(r *row, in *jx.Decoder) error {
	in.Next() // skips white space
	raw, err := in.Raw()
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	whole, err := cleanJSON(raw)
	if err != nil {
		return err
	}
	elements, frame, err := splitFrame(whole)
	if err != nil {
		return err
	}
	if len(elements) == 0 {
		elements = []jx.Raw{nil}
	}
	if len(frame)*len(elements) > maxFill {
		return fmt.Errorf("%d bytes around each of %d elements", len(frame), len(elements))
	}
	if d.sanitized {
		d.noteDrift(r, "", notUTF8, nil)
	}
	r.frame = frame
	for r.index, r.json = range elements {
		d.addRow(r.rows, r)
	}
	return nil
}

// splitFrame splits a value into elements and frame. The elements are those of the array that the
// value is, or of the only array among the members of the object that it is. Any other value is
// its own single element, without a frame.
func splitFrame(whole jx.Raw) (elements []jx.Raw, frame []byte, err error) {
	arrays, to := 0, jx.Encoder{}
	switch whole.Type() {
	case jx.Array:
		elements, err = splitArray(whole)
		return elements, []byte("[]"), err
	case jx.Object:
		to.ObjStart()
		err = jx.DecodeBytes(whole).Obj(func(d *jx.Decoder, name string) error {
			to.FieldStart(name)
			raw, err := d.Raw()
			if err == nil && raw.Type() == jx.Array {
				arrays++
				elements, err = splitArray(raw)
				raw = jx.Raw("[]")
			}
			to.Raw(raw)
			return err
		})
		to.ObjEnd()
	}
	if arrays == 1 {
		return elements, to.Bytes(), err
	}
	return []jx.Raw{whole}, nil, err
}

// splitArray returns the elements of an array.
func splitArray(array jx.Raw) (elements []jx.Raw, err error) {
	err = jx.DecodeBytes(array).Arr(func(d *jx.Decoder) error {
		element, err := d.Raw()
		elements = append(elements, element)
		return err
	})
	return elements, err
}

// computeElement returns the current element, or NULL if there are none. A JSON null is kept as
// the text null.
func computeElement(_ *Source, r *row, _ []any) any {
	return orNull(string(boundJSON(r.json, MaxValue)))
}

// computeFrame returns the JSON around the elements, the same for each of them.
func computeFrame(_ *Source, r *row, _ []any) any {
	return orNull(string(boundJSON(r.frame, MaxValue)))
}
