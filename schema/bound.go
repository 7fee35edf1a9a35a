package schema

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/go-faster/jx"

	"outlierd/excerpt"
)

// MaxValue is the maximum size in bytes of a column's value: a text, a list of texts, or JSON. A
// faulty answer may contain a title of many megabytes. The journal keeps it; the tables need not.
const MaxValue = 1 << 20

// shownOfJSON is how many bytes of oversized JSON are kept. They are stored as a JSON text, since
// a truncated value is not valid JSON.
const shownOfJSON = 1000

// bound truncates the text that begins at begin in n's column if it is too large, and records drift
// for that and for replaced bytes that were not UTF-8.
func (d *Decoder) bound(n *node, r *record, begin int) {
	text := n.to.bytes[begin:]
	if d.mended && bytes.ContainsRune(text, utf8.RuneError) {
		d.drift.note(d.src.Op, r.path, n.path, notUTF8, nil)
	}
	if len(text) > MaxValue {
		d.drift.note(d.src.Op, r.path, n.path, tooLarge, nil)
		cut := excerpt.Bytes(text, MaxValue, cutMark(len(text))) // in place
		n.to.bytes = n.to.bytes[:begin+len(cut)]
	}
}

// cutMark returns the suffix of a truncated value that had size bytes.
func cutMark(size int) string { return fmt.Sprintf("… [cut from %d bytes]", size) }

// appendCutJSON appends the beginning of json as a JSON text with a [cutMark].
func appendCutJSON(dst, json []byte) []byte {
	w := jx.Writer{Buf: dst}
	w.Str(string(excerpt.Prefix(json, shownOfJSON)) + cutMark(len(json)))
	return w.Buf
}

// boundJSON returns json, or its beginning as a JSON text if it is larger than [MaxValue].
func boundJSON(json []byte) []byte {
	if len(json) <= MaxValue {
		return json
	}
	return appendCutJSON(nil, json)
}

// boundList drops elements from the end of the list that begins at element begin of n's column
// until it fits in [MaxValue].
func (d *Decoder) boundList(n *node, r *record, begin int) {
	of := n.to.kids[0]
	if of.bytesFrom(begin) <= MaxValue {
		return
	}
	d.drift.note(d.src.Op, r.path, n.path, tooLarge, nil)
	keep := begin
	for size := 0; ; keep++ {
		if size += of.bytesFrom(keep) - of.bytesFrom(keep+1); size > MaxValue {
			break
		}
	}
	of.cut(keep)
}

// bytesFrom returns the bytes of text in the rows from row i on.
func (v *vector) bytesFrom(i int) int {
	n := 0
	if v.form == text && i < v.rows {
		begin, _ := v.span(i)
		n = len(v.bytes) - int(begin)
	}
	for _, kid := range v.kids {
		n += kid.bytesFrom(i)
	}
	return n
}
