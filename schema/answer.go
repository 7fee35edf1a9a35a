package schema

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/go-faster/jx"

	"outlierd/outlier"
)

// answer is an answer that is being read.
type answer struct {
	into      *Decoder
	src       *Source
	given     map[string]any // the values of src
	appending bool           // its rows are wanted

	sanitized bool               // bytes that are not UTF-8 were replaced
	err       error              // why its rows cannot be read
	present   bool               // it has content about the entity
	otherID   string             // an id that is not the requested one
	listed    map[string][][]any // its rows, see [answer.isRepeated]
	lost      []int              // indexes in the main array without a row; 0 for its item
}

// read reads the rows of the answer. Reading it again has the same result.
func (a *answer) read(body []byte) error {
	a.given, a.listed = a.src.values(), map[string][][]any{}
	for _, r := range a.into.rows {
		r.added = 0
	}
	if a.src.Missing {
		a.addRow(a.into.of[Missing], nil)
		return nil
	}
	err := a.readBody(body)
	switch {
	case err != nil:
		return err
	case !a.present && a.otherID != "":
		return fmt.Errorf("asked about %q, answered about %q", a.src.Entity, a.otherID)
	case a.src.Entity == "" || a.src.Op == outlier.OpScan: // not about one entity
		return nil
	case !a.present:
		return fmt.Errorf("asked about %q, answered without anything about it", a.src.Entity)
	}
	a.addRow(a.into.of[Missing].gone, nil) // the entity exists
	return nil
}

// readBody checks the syntax of all of the body before it reads any rows.
func (a *answer) readBody(body []byte) error {
	plan := a.into.plans[a.src.Op]
	if plan == nil {
		return errors.New("no table holds answers of this operation")
	}
	if a.sanitized = !utf8.Valid(body); a.sanitized {
		body = bytes.ToValidUTF8(body, []byte("\ufffd"))
	}
	if a.into.bytes > math.MaxInt32/2-len(body) {
		return errors.New("too many rows collected already")
	}
	in := jx.DecodeBytes(bytes.TrimPrefix(body, []byte("\ufeff")))
	in.Next() // skips white space
	raw, err := in.Raw()
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	if err := in.Skip(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	top := &row{record: plan, json: raw}
	switch {
	case plan.path == anyElements:
		a.readElements(top)
	case raw.Type() == jx.Object:
		a.readRows(top)
	default:
		return errors.New("the body is not a JSON object")
	}
	return a.err
}

// isRequested compares an id in an answer with the requested one. A scan's id is a UUID, which is not
// case-sensitive.
func (a *answer) isRequested(id string) bool {
	asked := a.src.Entity
	return asked == "" || id == asked || a.src.Op == outlier.OpScan && strings.EqualFold(id, asked)
}

// addRow counts a row, and completes and appends it if it is wanted. r is nil if all values are those of the source.
func (a *answer) addRow(to *rows, r *row) {
	to.added++
	a.present = true
	if !a.appending {
		return
	}
	for i, c := range to.columns {
		var value any
		switch {
		case c.computed != nil:
			value = c.computed(a.src, r, r.valuesOf(c.of))
		case c.Path == "":
			value = a.given[c.Name]
		default:
			value = r.values[i]
		}
		a.into.bytes += 8 + textSize(value)
		if err := appendValue(to.builder.Field(i), value); err != nil {
			panic(fmt.Sprintf("schema: %s.%s: %v", to.table.Name, c.Name, err)) // its declaration is wrong
		}
	}
}
