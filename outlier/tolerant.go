package outlier

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-faster/jx"
)

// Lenient returns an answer as JSON, where some servers write something else: it removes the byte order
// mark before it and the HTML that a proxy adds after it, and replaces the numbers that JSON does not have,
// NaN and Infinity, by null.
func Lenient(body []byte) []byte {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	trimmed := bytes.TrimSpace(body)
	added := bytes.HasSuffix(trimmed, []byte(">")) && !bytes.HasPrefix(trimmed, []byte("<"))
	if !added && !bytes.Contains(body, []byte("NaN")) && !bytes.Contains(body, []byte("Infinity")) {
		return body
	}
	var clean bytes.Buffer
	quoted := false
	for len(body) > 0 {
		n, text := 1, body[:1]
		switch {
		case body[0] == '"':
			quoted = !quoted
		case quoted && body[0] == '\\' && len(body) > 1:
			n, text = 2, body[:2]
		case !quoted && added && body[0] == '<':
			return clean.Bytes()
		case !quoted:
			for _, name := range []string{"NaN", "Infinity", "-Infinity"} {
				if bytes.HasPrefix(body, []byte(name)) {
					n, text = len(name), []byte("null")
				}
			}
		}
		clean.Write(text)
		body = body[n:]
	}
	return clean.Bytes()
}

// A value is a part of the JSON of an answer; nil if it is absent. The interface does not say which fields of an answer
// may be null, absent or of another type, so a value of an unexpected type counts as absent.
type value []byte

// kind returns the type of a value; [jx.Invalid] if it is absent.
func (v value) kind() jx.Type { return jx.DecodeBytes(v).Next() }

// members returns the members of an object by name; of several with one name, the first one counts. It returns an error
// if the value is not JSON or not an object, and with it the members that come before the error.
func (v value) members() (map[string]value, error) {
	d := jx.DecodeBytes(v)
	if d.Next() != jx.Object {
		return nil, errors.New("not a JSON object")
	}
	all := map[string]value{}
	return all, d.Obj(func(d *jx.Decoder, name string) error {
		raw, err := d.Raw()
		if _, known := all[name]; !known && err == nil {
			all[name] = value(raw)
		}
		return err
	})
}

// at returns a member of an object, or of an object within it, by a path such as "statistics.viewCount".
func (v value) at(path string) value {
	for name := range strings.SplitSeq(path, ".") {
		members, _ := v.members() // an error is that of the whole answer, which its reader has found
		v = members[name]
	}
	return v
}

// items returns the elements of an array.
func (v value) items() (all []value) {
	if v.kind() != jx.Array {
		return nil
	}
	_ = jx.DecodeBytes(v).Arr(func(d *jx.Decoder) error { // as above
		raw, err := d.Raw()
		all = append(all, value(raw))
		return err
	})
	return all
}

// text returns a string, or a number as it is written. Invalid UTF-8 becomes U+FFFD, as in the tables.
func (v value) text() string {
	switch v.kind() {
	case jx.String:
		text, _ := jx.DecodeBytes(v).Str()
		return strings.ToValidUTF8(text, "\ufffd")
	case jx.Number:
		return string(v)
	}
	return ""
}

// quantity returns a finite number, also one in quotes; 1 for true and 0 for false; a time in Unix seconds.
func (v value) quantity() (x float64, known bool) {
	text := strings.TrimSpace(v.text())
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return float64(t.UnixMilli()) / 1000, true
	}
	if yes, err := jx.DecodeBytes(v).Bool(); err == nil {
		text = map[bool]string{true: "1", false: "0"}[yes]
	}
	x, err := strconv.ParseFloat(text, 64)
	return x, err == nil && !math.IsInf(x, 0) && !math.IsNaN(x)
}

// whole returns a number that is not negative and that JSON represents exactly; -1 for other values.
func (v value) whole() int64 { return parseWhole(v.text()) }

// count returns a whole number; nil for other values.
func (v value) count() *int64 {
	if n := v.whole(); n >= 0 {
		return &n
	}
	return nil
}

// id returns an id, as [IsID] has it.
func (v value) id() string {
	if text := v.text(); IsID(text) {
		return text
	}
	return ""
}

// time returns a time, see [readInstant].
func (v value) time() time.Time { return readInstant(v.text(), time.Time{}) }

// parseWhole parses a number that is not negative and that JSON represents exactly; -1 for other texts.
func parseWhole(text string) int64 {
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(0 <= x && x <= maxInteger) || x != math.Trunc(x) {
		return -1
	}
	return int64(x)
}
