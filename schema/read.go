package schema

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-faster/jx"

	"outlierd/internal/excerpt"
	"outlierd/outlier"
)

// The syntax of what these functions read was checked, so that jx returns no errors.

// readMembers reads the members of an object into values, which are those of the row or of a STRUCT.
func (a *answer) readMembers(n *node, in *jx.Decoder, r *row, values []any) {
	seen := make([]*node, 0, 32)
	for members, _ := in.ObjIter(); members.Next(); {
		member, problem := n.members[string(members.Key())], unknown
		switch {
		case member != nil && !slices.Contains(seen, member):
			seen = append(seen, member)
			a.readField(member, in, r, values)
			continue
		case member != nil:
			problem = twice
		}
		path := strings.TrimPrefix(n.path+"."+string(members.Key()), ".")
		raw, _ := in.Raw()
		a.keepExtra(r, path, problem, raw)
	}
}

// readField reads the value of a field.
func (a *answer) readField(n *node, in *jx.Decoder, r *row, values []any) {
	if n.read == nil && in.Next() == jx.Object {
		if n.fields > 0 {
			fields := make([]any, n.fields)
			values[n.at], values = fields, fields
		}
		a.readMembers(n, in, r, values)
		return
	}
	raw, _ := in.Raw()
	if n.read == nil {
		a.readBare(n, raw, r, values)
		return
	}
	value, ok := n.read(a, n, r, raw)
	if !ok {
		a.keepMisfit(n, r, values, raw, wrongType)
		return
	}
	if n.at >= 0 {
		values[n.at] = value
	}
	if n.isID && !a.isRequested(text(value)) {
		r.other, a.otherID = n, text(value)
	}
}

// readBare reads a value in place of an object: a plain number, if one of the object's fields
// accepts it. If it is not known which field is meant, the number goes to extra without being
// reported as drift, because the service is known to answer like this.
func (a *answer) readBare(n *node, raw jx.Raw, r *row, values []any) {
	problem := wrongType
	for _, member := range n.members {
		switch {
		case member.bare == "" || raw.Type() != jx.Number:
		case member.bare == a.src.FindBy:
			a.readField(member, jx.DecodeBytes(raw), r, values)
			return
		default:
			problem = ""
		}
	}
	a.keepMisfit(n, r, values, raw, problem)
}

// keepMisfit keeps a value of the wrong type: the column gets null, and the value goes to extra.
func (a *answer) keepMisfit(n *node, r *row, values []any, raw jx.Raw, problem string) {
	if n.at >= 0 {
		values[n.at] = nil
	}
	if raw.Type() != jx.Null {
		a.keepExtra(r, n.path, problem, raw)
	}
}

// keepExtra puts a value into the extra of its row, if the table has that column. It records drift,
// unless problem is "".
func (a *answer) keepExtra(r *row, path, problem string, raw jx.Raw) {
	if problem != "" {
		a.noteDrift(r, path, problem, raw)
	}
	if a.sanitized && strings.ContainsRune(string(raw), utf8.RuneError) {
		a.noteDrift(r, path, notUTF8, nil)
	}
	if _, ok := r.rows.index[extra.Name]; ok {
		r.extras.add(strings.Replace(path, "[]", cmp.Or(r.element, "[]"), 1), raw)
	}
}

// A reader returns the value of a field. ok is false if it is of another type.
type reader func(a *answer, n *node, r *row, raw jx.Raw) (value any, ok bool)

// readScalar returns a reader of what parse accepts.
func readScalar[T any](parse func(raw []byte) (T, bool)) reader {
	return func(_ *answer, _ *node, _ *row, raw jx.Raw) (any, bool) { return parse(raw) }
}

// readText reads a text. Numbers and booleans are kept as written.
func (a *answer) readText(n *node, r *row, raw jx.Raw) (any, bool) {
	s, ok := parseText(raw)
	if a.sanitized && strings.ContainsRune(s, utf8.RuneError) {
		a.noteDrift(r, n.path, notUTF8, nil)
	}
	if len(s) > MaxValue {
		a.noteDrift(r, n.path, tooLarge, nil)
		s = excerpt.Bytes(s, MaxValue, cutMark(len(s)))
	}
	return s, ok
}

// readID reads the id of a row. A text that is not a valid id ([outlier.IsID]) goes to extra.
func (a *answer) readID(n *node, r *row, raw jx.Raw) (any, bool) {
	if s, _ := parseText(raw); raw.Type() == jx.Bool || s != "" && !outlier.IsID(s) {
		return nil, false
	}
	return a.readText(n, r, raw)
}

// readJSON reads a value of any type as JSON.
func (a *answer) readJSON(n *node, r *row, raw jx.Raw) (any, bool) {
	if raw.Type() == jx.Null {
		return nil, true
	}
	json := cleanJSON(raw)
	if len(json) > MaxValue {
		a.noteDrift(r, n.path, tooLarge, raw)
	}
	return string(boundJSON(json, MaxValue)), true
}

// readList reads a LIST. If its elements have names, it also accepts an object, as the list of its
// members' values.
func (a *answer) readList(n *node, r *row, raw jx.Raw) (any, bool) {
	list, count, size := []any{}, 0, 0
	add := func(in *jx.Decoder, name any) error {
		if n.element.fields > 0 {
			r.element = "[" + strconv.Itoa(count) + "]"
		}
		one := []any{nil}
		in.Next() // skips white space
		a.readField(n.element, in, r, one)
		if fields, ok := one[0].([]any); ok && n.named {
			fields[0] = name
		}
		count, size = count+1, size+textSize(one[0])
		if size <= MaxValue {
			list = append(list, one[0])
		}
		return nil
	}
	switch is := raw.Type(); {
	case is == jx.Array:
		_ = jx.DecodeBytes(raw).Arr(func(in *jx.Decoder) error { return add(in, nil) })
	case is == jx.Object && n.named:
		_ = jx.DecodeBytes(raw).Obj(func(in *jx.Decoder, name string) error { return add(in, name) })
	default:
		return nil, false
	}
	if size > MaxValue {
		a.noteDrift(r, n.path, tooLarge, nil)
	}
	r.element = ""
	return list, true
}

// captureRows keeps the place of the rows inside a row, which are read when it is complete. If these are the
// answer's main rows, a value that cannot contain them makes it unreadable, except null.
func (a *answer) captureRows(n *node, r *row, raw jx.Raw) (any, bool) {
	is := raw.Type()
	ok := is == jx.Array && n.place.isList() || is == jx.Object && !n.place.isList()
	if ok {
		r.inside = append(r.inside, &row{record: n.place, outer: r, json: raw})
	} else if r.outer == nil && is != jx.Null {
		a.err = fmt.Errorf("%s is %s", n.place.path, wrongType)
	}
	return nil, ok
}

// The functions here convert a raw JSON value, whose syntax was checked. ok is false if it is of
// another type, or loses something.

// parseText returns a text. Numbers and booleans are kept as written.
func parseText(raw []byte) (s string, ok bool) {
	switch is := jx.Raw(raw).Type(); {
	case is == jx.String && bytes.IndexByte(raw, '\\') >= 0:
		s, err := jx.DecodeBytes(raw).StrAppend(make([]byte, 0, len(raw)))
		return string(s), err == nil
	case is == jx.String, is == jx.Number, is == jx.Bool:
		return string(unquote(raw)), true
	}
	return "", false
}

// parseBool parses a boolean, which may be written as a text.
func parseBool(raw []byte) (value, ok bool) {
	s := string(unquote(raw))
	return s == "true", s == "true" || s == "false"
}

// parseInstant parses a time that is a text; see [parseTime].
func parseInstant(raw []byte) (time.Time, bool) {
	at, ok := parseTime(unquote(raw))
	return at, ok && raw[0] == '"'
}

// unquote returns a raw value without its quotes. Escapes are kept and make it unreadable as a number
// or time, which do not need them.
func unquote(raw []byte) []byte {
	if len(raw) >= 2 && raw[0] == '"' {
		return raw[1 : len(raw)-1]
	}
	return raw
}

// isNumber reports whether a raw value is a number, or a text of one. It excludes forms that strconv
// accepts: "+5", "Inf", "0x1p-2", "1_000".
func isNumber(raw []byte) bool {
	d := jx.DecodeBytes(unquote(raw))
	return d.Next() == jx.Number && (raw[0] != '"' || d.Validate() == nil)
}

// parseInt parses a whole number, which may be written as 5.0, 5e0 or "5". It uses a float64 for at
// most fifteen digits, which a float64 represents exactly.
func parseInt(raw []byte) (int64, bool) {
	s := string(unquote(raw))
	if whole, fraction, _ := strings.Cut(s, "."); strings.Trim(fraction, "0") == "" {
		if x, err := strconv.ParseInt(whole, 10, 64); err == nil && isNumber(raw) {
			return x, true
		}
	}
	mantissa, _, _ := strings.Cut(strings.ToLower(s), "e")
	x, ok := parseFloat(raw)
	return int64(x), ok && len(mantissa) <= 15 && x == math.Trunc(x) && math.Abs(x) <= 1<<53
}

// parseFloat parses a number, which may be written as a text, as the nearest float64.
func parseFloat(raw []byte) (float64, bool) {
	x, err := strconv.ParseFloat(string(unquote(raw)), 64)
	return x, err == nil && isNumber(raw)
}

// parseTime parses RFC 3339, with or without fractions of a second, and dates.
func parseTime(s []byte) (at time.Time, ok bool) {
	err := at.UnmarshalText(s)
	if err != nil {
		at, err = time.Parse(time.DateOnly, string(s))
	}
	return at, err == nil
}
