package outlier

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-faster/jx"
)

// The interface does not say which fields of an answer may be null, absent or of another type. The
// functions of this file read what the program needs: a value of an unexpected type is skipped and counts
// as absent. They return an error only if the bytes are not JSON.

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

// readObject calls f for every member of the next object in d.
func readObject(d *jx.Decoder, f func(d *jx.Decoder, key string) error) error {
	if d.Next() != jx.Object {
		return d.Skip()
	}
	return d.Obj(f)
}

// readArray calls f for every element of the next array in d.
func readArray(d *jx.Decoder, f func(d *jx.Decoder) error) error {
	if d.Next() != jx.Array {
		return d.Skip()
	}
	return d.Arr(f)
}

// readText reads a string, or a number as it is written. Invalid UTF-8 becomes U+FFFD, as in the tables.
func readText(d *jx.Decoder, to *string) (err error) {
	switch d.Next() {
	case jx.String:
		*to, err = d.Str()
		*to = strings.ToValidUTF8(*to, "\ufffd")
	case jx.Number:
		var raw jx.Raw
		raw, err = d.Raw()
		*to = string(raw)
	default:
		err = d.Skip()
	}
	return err
}

// readNumber reads a finite number, also one in quotes, and passes it to set.
func readNumber(d *jx.Decoder, set func(float64)) error {
	var s string
	if err := readText(d, &s); err != nil {
		return err
	}
	x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err == nil && !math.IsInf(x, 0) && !math.IsNaN(x) {
		set(x)
	}
	return nil
}

// readID reads an id. It ignores a text that is not one, see [IsID].
func readID(d *jx.Decoder, to *string) error {
	err := readText(d, to)
	if !IsID(*to) {
		*to = ""
	}
	return err
}

// readTime reads a time, see readInstant. It ignores other texts.
func readTime(d *jx.Decoder, to *time.Time) error {
	var s string
	err := readText(d, &s)
	*to = readInstant(s, time.Time{})
	return err
}

// readCount is whole for a number that may be absent.
func readCount(d *jx.Decoder, to **int64) error {
	n := int64(-1)
	err := readWhole(d, &n)
	if n >= 0 {
		*to = &n
	}
	return err
}

// readWhole reads a number that is not negative and that JSON represents exactly. It ignores other values.
func readWhole(d *jx.Decoder, to *int64) error {
	return readNumber(d, func(x float64) {
		if x >= 0 && x <= maxInteger && x == math.Trunc(x) {
			*to = int64(x)
		}
	})
}
