package schema

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/go-faster/jx"

	"outlierd/outlier"
)

// text reads a text. Numbers and booleans are kept as written.
func (d *Decoder) text(n *node, r *record) (err error) {
	switch d.in.Next() {
	case jx.String:
		begin := len(n.to.bytes)
		if n.to.bytes, err = d.in.StrAppend(n.to.bytes); err != nil {
			return err
		}
		d.bound(n, r, begin)
		n.to.end()
		return nil
	case jx.Number, jx.Bool:
		raw, err := d.in.Raw()
		if err != nil {
			return err
		}
		begin := len(n.to.bytes)
		n.to.bytes = append(n.to.bytes, raw...)
		d.bound(n, r, begin)
		n.to.end()
		return nil
	default:
		return d.misfit(n, r)
	}
}

// ident reads the id of a row. A text that is not a valid id ([outlier.IsID]) goes to extra.
func (d *Decoder) ident(n *node, r *record) error {
	if d.in.Next() == jx.Bool {
		return d.misfit(n, r)
	}
	if err := d.text(n, r); err != nil {
		return err
	}
	if id := string(n.to.last()); id != "" && !outlier.IsID(id) {
		n.to.cut(n.to.rows - 1)
		raw := jx.Writer{}
		raw.Str(id)
		return d.unfit(n, r, raw.Buf)
	}
	return nil
}

// integer reads a whole number, which may be written as 5.0, 5e0 or "5".
func (d *Decoder) integer(n *node, r *record) error {
	raw, err := d.in.Raw()
	if err != nil {
		return err
	}
	x, ok := parseInt(raw)
	if !ok {
		return d.unfit(n, r, raw)
	}
	n.to.word(x)
	return nil
}

// float reads a number, which may be written as a text.
func (d *Decoder) float(n *node, r *record) error {
	raw, err := d.in.Raw()
	if err != nil {
		return err
	}
	x, ok := parseFloat(raw)
	if !ok {
		return d.unfit(n, r, raw)
	}
	n.to.word(int64(math.Float64bits(x)))
	return nil
}

// truth reads a boolean, which may be written as a text.
func (d *Decoder) truth(n *node, r *record) error {
	raw, err := d.in.Raw()
	if err != nil {
		return err
	}
	switch string(bare(raw)) {
	case "true":
		n.to.bool(true)
	case "false":
		n.to.bool(false)
	default:
		return d.unfit(n, r, raw)
	}
	return nil
}

// instant reads a time; see [parseTime].
func (d *Decoder) instant(n *node, r *record) error {
	raw, err := d.in.Raw()
	if err != nil {
		return err
	}
	t, ok := parseTime(bare(raw))
	if !ok || raw[0] != '"' {
		return d.unfit(n, r, raw)
	}
	n.to.word(t)
	return nil
}

// anything reads a value of any type as JSON.
func (d *Decoder) anything(n *node, r *record) error {
	raw, err := d.in.Raw()
	if err != nil {
		return err
	}
	if raw[0] == 'n' {
		n.to.null()
		return nil
	}
	begin := len(n.to.bytes)
	n.to.bytes, err = appendJSON(n.to.bytes, raw)
	if errors.Is(err, errTooDeep) {
		n.to.bytes = n.to.bytes[:begin]
		n.to.null()
		r.strays.deep = true
		return nil
	}
	if err != nil {
		return err
	}
	if json := n.to.bytes[begin:]; len(json) > MaxValue {
		d.drift.note(d.src.Op, r.path, n.path, tooLarge, raw)
		n.to.bytes = append(n.to.bytes[:begin], boundJSON(json)...)
	}
	n.to.end()
	return nil
}

// bare returns a raw value without its quotes. Escapes are kept and make it unreadable as a number
// or time, which do not need them.
func bare(raw []byte) []byte {
	if len(raw) >= 2 && raw[0] == '"' {
		return raw[1 : len(raw)-1]
	}
	return raw
}

// parseInt parses a raw JSON number or text whose value is exactly a whole number.
func parseInt(raw []byte) (int64, bool) {
	raw = bare(raw)
	digits, negative := raw, len(raw) > 0 && raw[0] == '-'
	if negative {
		digits = raw[1:]
	}
	if len(digits) == 0 || len(digits) > 18 || digits[0] == '0' && len(digits) > 1 {
		return parseOddInt(raw)
	}
	x := int64(0)
	for _, c := range digits {
		if c < '0' || c > '9' {
			return parseOddInt(raw)
		}
		x = 10*x + int64(c-'0')
	}
	if negative {
		x = -x
	}
	return x, true
}

// parseOddInt parses a whole number that is long or written as 5.0 or 5e3. It uses a float64 for at
// most fifteen digits, which a float64 represents exactly.
func parseOddInt(s []byte) (int64, bool) {
	if !isNumber(s) {
		return 0, false
	}
	if x, err := strconv.ParseInt(string(s), 10, 64); err == nil {
		return x, true
	}
	if whole, fraction, ok := bytes.Cut(s, []byte(".")); ok && len(bytes.Trim(fraction, "0")) == 0 {
		return parseInt(whole)
	}
	mantissa, _, _ := bytes.Cut(bytes.ToLower(s), []byte("e"))
	x, ok := parseFloat(s)
	if !ok || len(mantissa) > 15 || x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		return 0, false
	}
	return int64(x), true
}

// parseFloat parses a raw JSON number or text as the nearest float64.
func parseFloat(raw []byte) (float64, bool) {
	s := bare(raw)
	if x, ok := parseShortFloat(s); ok {
		return x, true
	}
	if len(s) < len(raw) && !isNumber(s) || len(s) == 0 || s[0] != '-' && !isDigit(s[0]) {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(s), 64)
	return x, err == nil
}

// powers lists the powers of ten that a float64 represents exactly.
var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// parseShortFloat parses a number with few digits and no exponent. Digits and power of ten are
// exact, so a single division rounds correctly.
func parseShortFloat(s []byte) (float64, bool) {
	digits, dot := uint64(0), -1
	begin := 0
	if len(s) > 0 && s[0] == '-' {
		begin = 1
	}
	for i := begin; i < len(s); i++ {
		switch c := s[i]; {
		case isDigit(c):
			digits = 10*digits + uint64(c-'0')
		case c == '.' && dot < 0 && i > begin:
			dot = i
		default:
			return 0, false
		}
		if digits > 1<<53 {
			return 0, false
		}
	}
	decimals := len(s) - 1 - dot
	switch {
	case len(s) == begin || dot == len(s)-1: // "-", "5."
		return 0, false
	case s[begin] == '0' && len(s) > begin+1 && dot != begin+1: // "05"
		return 0, false
	case dot < 0:
		decimals = 0
	case decimals >= len(powers):
		return 0, false
	}
	x := float64(digits) / powers[decimals]
	if begin == 1 {
		x = -x
	}
	return x, true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isNumber reports whether s has the syntax of a JSON number. It excludes forms that strconv
// accepts: "+5", "Inf", "0x1p-2", "1_000".
func isNumber(s []byte) bool {
	d := jx.DecodeBytes(s)
	return d.Next() == jx.Number && d.Validate() == nil
}

// parseTime parses RFC 3339, with or without fractions of a second, and dates. The result is in
// microseconds since 1970; finer digits are dropped.
func parseTime(s []byte) (micros int64, ok bool) {
	if len(s) < len(time.DateOnly) || s[4] != '-' || s[7] != '-' {
		return 0, false // most texts that are not times, without the cost of an error
	}
	var t time.Time
	var err error
	if len(s) == len(time.DateOnly) {
		t, err = time.Parse(time.DateOnly, string(s))
	} else {
		err = t.UnmarshalText(s)
	}
	return t.UnixMicro(), err == nil
}
