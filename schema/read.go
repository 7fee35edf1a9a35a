package schema

import (
	"bytes"
	"cmp"
	"errors"
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

// readMembers reads the members of an object into values, which are those of the row or of a STRUCT.
func (d *Decoder) readMembers(n *node, in *jx.Decoder, r *row, values []any) error {
	members, err := in.ObjIter()
	if err != nil {
		return err
	}
	seen := make([]*node, 0, 32)
	for members.Next() {
		name := members.Key()
		member := n.members[string(name)]
		switch {
		case member == nil:
			err = d.keepMember(n, in, r, name, unknown)
		case slices.Contains(seen, member):
			err = d.keepMember(n, in, r, name, twice)
		default:
			seen = append(seen, member)
			err = d.readField(member, in, r, values)
		}
		if errors.Is(err, errTooDeep) {
			r.tooDeep, err = true, nil
		}
		if err != nil {
			return err
		}
	}
	return members.Err()
}

// keepMember keeps a member that is unknown or repeated.
func (d *Decoder) keepMember(n *node, in *jx.Decoder, r *row, name []byte, problem string) error {
	path := strings.TrimPrefix(n.path+"."+string(name), ".")
	raw, err := in.Raw()
	if err == nil {
		err = d.keepExtra(r, path, problem, raw)
	}
	return err
}

// readField reads the value of a field.
func (d *Decoder) readField(n *node, in *jx.Decoder, r *row, values []any) error {
	if n.read == nil && in.Next() == jx.Object {
		if n.fields > 0 {
			fields := make([]any, n.fields)
			values[n.at], values = fields, fields
		}
		return d.readMembers(n, in, r, values)
	}
	raw, err := in.Raw()
	if err != nil {
		return err
	}
	if n.read == nil {
		return d.readBare(n, raw, r, values)
	}
	value, err := n.read(d, n, r, raw)
	if errors.Is(err, errMisfit) {
		return d.keepMisfit(n, r, values, raw)
	}
	if n.at >= 0 {
		values[n.at] = value
	}
	if n.isID && !d.isRequested(text(value)) {
		d.wrongID = text(value)
	}
	return err
}

// readBare reads a value in place of an object: a plain number, if one of the object's fields
// accepts it. If it is not known which field is meant, the number goes to extra without being
// reported as drift, because the service is known to answer like this.
func (d *Decoder) readBare(n *node, raw jx.Raw, r *row, values []any) error {
	isExpected := false
	for _, member := range n.members {
		if member.bare != nil && raw.Type() == jx.Number {
			if member.bare(d.src) {
				return d.readField(member, jx.DecodeBytes(raw), r, values)
			}
			isExpected = true
		}
	}
	if isExpected {
		return d.keepExtra(r, n.path, "", raw)
	}
	return d.keepMisfit(n, r, values, raw)
}

// keepMisfit keeps a value of the wrong type: the column gets null, and the value goes to extra.
func (d *Decoder) keepMisfit(n *node, r *row, values []any, raw jx.Raw) error {
	if n.at >= 0 {
		values[n.at] = nil
	}
	if raw.Type() == jx.Null {
		return nil
	}
	return d.keepExtra(r, n.path, wrongType, raw)
}

// keepExtra puts a value into the extra of its row, if the table has that column. It records drift,
// unless problem is "".
func (d *Decoder) keepExtra(r *row, path, problem string, raw jx.Raw) error {
	if problem != "" {
		d.noteDrift(r, path, problem, raw)
	}
	if d.sanitized && strings.ContainsRune(string(raw), utf8.RuneError) {
		d.noteDrift(r, path, notUTF8, nil)
	}
	if _, ok := r.rows.index[extra.Name]; !ok {
		return nil
	}
	return r.extras.add(strings.Replace(path, "[]", cmp.Or(r.element, "[]"), 1), raw)
}

// A reader returns the value of a field, or errMisfit if it is of another type. The syntax of raw was
// checked.
type reader func(d *Decoder, n *node, r *row, raw jx.Raw) (any, error)

var errMisfit = errors.New(wrongType)

// readScalar returns a reader of what parse accepts.
func readScalar[T any](parse func(raw []byte) (T, bool)) reader {
	return func(_ *Decoder, _ *node, _ *row, raw jx.Raw) (any, error) {
		value, ok := parse(raw)
		if !ok {
			return nil, errMisfit
		}
		return value, nil
	}
}

// readText reads a text. Numbers and booleans are kept as written.
func (d *Decoder) readText(n *node, r *row, raw jx.Raw) (any, error) {
	s, ok := parseText(raw)
	if !ok {
		return nil, errMisfit
	}
	if d.sanitized && strings.ContainsRune(s, utf8.RuneError) {
		d.noteDrift(r, n.path, notUTF8, nil)
	}
	if len(s) > MaxValue {
		d.noteDrift(r, n.path, tooLarge, nil)
		s = excerpt.Bytes(s, MaxValue, cutMark(len(s)))
	}
	return s, nil
}

// readID reads the id of a row. A text that is not a valid id ([outlier.IsID]) goes to extra.
func (d *Decoder) readID(n *node, r *row, raw jx.Raw) (any, error) {
	if s, _ := parseText(raw); raw.Type() == jx.Bool || s != "" && !outlier.IsID(s) {
		return nil, errMisfit
	}
	return d.readText(n, r, raw)
}

// readJSON reads a value of any type as JSON.
func (d *Decoder) readJSON(n *node, r *row, raw jx.Raw) (any, error) {
	if raw.Type() == jx.Null {
		return nil, nil
	}
	json, err := cleanJSON(raw)
	if len(json) > MaxValue {
		d.noteDrift(r, n.path, tooLarge, raw)
	}
	return string(boundJSON(json, MaxValue)), err
}

// readList reads a LIST. If its elements have names, it also accepts an object, as the list of its
// members' values.
func (d *Decoder) readList(n *node, r *row, raw jx.Raw) (any, error) {
	list, count, size := []any{}, 0, 0
	add := func(in *jx.Decoder, name any) error {
		if n.element.fields > 0 {
			r.element = "[" + strconv.Itoa(count) + "]"
		}
		one := []any{nil}
		in.Next() // skips white space
		err := d.readField(n.element, in, r, one)
		if fields, ok := one[0].([]any); ok && n.named {
			fields[0] = name
		}
		count, size = count+1, size+textSize(one[0])
		if size <= MaxValue {
			list = append(list, one[0])
		}
		return err
	}
	var err error
	switch is := raw.Type(); {
	case is == jx.Array:
		err = jx.DecodeBytes(raw).Arr(func(in *jx.Decoder) error { return add(in, nil) })
	case is == jx.Object && n.named:
		err = jx.DecodeBytes(raw).Obj(func(in *jx.Decoder, name string) error { return add(in, name) })
	default:
		err = errMisfit
	}
	if size > MaxValue {
		d.noteDrift(r, n.path, tooLarge, nil)
	}
	r.element = ""
	return list, err
}

// captureRows keeps the place of the rows inside a row, which are read when it is complete. Any value
// that cannot contain them is an error if these are the answer's main rows, except null.
func (d *Decoder) captureRows(n *node, r *row, raw jx.Raw) (any, error) {
	switch is := raw.Type(); {
	case is == jx.Array && n.place.isList(), is == jx.Object && !n.place.isList():
		r.inside = append(r.inside, &row{record: n.place, outer: r, json: raw})
		return nil, nil
	case r.outer == nil && is != jx.Null:
		d.noteDrift(r, n.place.path, wrongType, raw)
		return nil, fmt.Errorf("%s is %s", n.place.path, wrongType)
	}
	return nil, errMisfit
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
	micros, ok := parseTime(unquote(raw))
	return time.UnixMicro(micros), ok && raw[0] == '"'
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

// parseTime parses RFC 3339, with or without fractions of a second, and dates. The result is in
// microseconds since 1970; finer digits are dropped.
func parseTime(s []byte) (micros int64, ok bool) {
	var t time.Time
	err := t.UnmarshalText(s)
	if err != nil {
		t, err = time.Parse(time.DateOnly, string(s))
	}
	return t.UnixMicro(), err == nil
}
