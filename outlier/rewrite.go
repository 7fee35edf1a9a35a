package outlier

import (
	"fmt"

	"github.com/go-faster/jx"
)

// maxNesting limits the depth of a value that is rewritten, since each level is copied. No answer needs as much.
const maxNesting = 100

// A rewriter copies JSON. It asks replace about each member of an object and each element of an array, whose name is
// nil, and writes what it returns in its place, unless that is nil. White space between values is not kept.
type rewriter struct {
	jx.Writer
	replace func(name []byte, value jx.Raw) []byte
	depth   int
}

func (w *rewriter) writeValue(value jx.Raw) error {
	if w.depth++; w.depth > maxNesting {
		return fmt.Errorf("nested more than %d levels deep", maxNesting)
	}
	defer func() { w.depth-- }()
	d, first := jx.DecodeBytes(value), true
	writePart := func(d *jx.Decoder, name []byte) error {
		if !first {
			w.Comma()
		}
		first = false
		if name != nil {
			w.FieldStart(string(name))
		}
		part, err := d.Raw()
		if err != nil {
			return err
		}
		if other := w.replace(name, part); other != nil {
			w.Raw(other)
			return nil
		}
		return w.writeValue(part)
	}
	switch value.Type() {
	case jx.Object:
		w.ObjStart()
		err := d.ObjBytes(writePart)
		w.ObjEnd()
		return err
	case jx.Array:
		w.ArrStart()
		err := d.Arr(func(d *jx.Decoder) error { return writePart(d, nil) })
		w.ArrEnd()
		return err
	}
	w.Raw(value)
	return nil
}
