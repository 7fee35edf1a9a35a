package schema

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-faster/jx"

	"outlierd/outlier"
)

// anyElements is the place of rows in answers of any shape, see [Decoder.elementsOf].
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

// elementsOf reads an answer of any shape. Putting the elements back into the only array of the
// frame restores the answer.
func (d *Decoder) elementsOf(plan *record) error {
	raw, err := d.in.Raw()
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	whole, err := appendJSON(nil, raw)
	if err != nil {
		return err
	}
	if err := d.in.Skip(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	elements, frame, err := unframe(whole)
	if err != nil {
		return err
	}
	if len(elements) == 0 {
		elements = []jx.Raw{nil}
	}
	if len(frame)*len(elements) > maxFill {
		return fmt.Errorf("%d bytes around each of %d elements", len(frame), len(elements))
	}
	if d.mended {
		d.drift.note(d.src.Op, plan.path, "", notUTF8, nil)
	}
	plan.frame = frame
	for plan.index, plan.element = range elements {
		plan.rows.n++
		for _, c := range plan.computed {
			c.do(c.to, c.of, plan)
		}
	}
	return nil
}

// unframe splits a value into elements and frame. The elements are those of the array that the
// value is, or of the only array among the members of the object that it is. Any other value is
// its own single element, without a frame.
func unframe(whole jx.Raw) (elements []jx.Raw, frame []byte, err error) {
	switch d := jx.DecodeBytes(whole); d.Next() {
	case jx.Array:
		elements, err = split(whole)
		return elements, []byte("[]"), err
	case jx.Object:
		arrays, w := 0, jx.Writer{}
		w.ObjStart()
		sep := ""
		err := d.ObjBytes(func(d *jx.Decoder, key []byte) error {
			w.RawStr(sep)
			sep = ","
			w.ByteStr(key)
			w.RawStr(":")
			raw, err := d.Raw()
			if err == nil && raw[0] == '[' {
				arrays++
				elements, err = split(raw)
				raw = jx.Raw("[]")
			}
			w.Raw(raw)
			return err
		})
		w.ObjEnd()
		if err != nil || arrays == 1 {
			return elements, w.Buf, err
		}
	}
	return []jx.Raw{whole}, nil, nil
}

// split returns the elements of an array.
func split(array jx.Raw) (elements []jx.Raw, err error) {
	err = jx.DecodeBytes(array).Arr(func(d *jx.Decoder) error {
		element, err := d.Raw()
		elements = append(elements, element)
		return err
	})
	return elements, err
}

// computeElement appends the current element, or null if there are none. A JSON null is kept as
// the text null.
func computeElement(v *vector, _ []*vector, r *record) { v.texts(boundJSON(r.element), 1) }

// computeFrame appends the JSON around the elements, the same for each of them.
func computeFrame(v *vector, _ []*vector, r *record) { v.texts(boundJSON(r.frame), 1) }
