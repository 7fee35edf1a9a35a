package schema

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/go-faster/jx"

	"outlierd/excerpt"
)

// MaxValue is the largest value of a column in bytes: a text, a list of texts, or JSON. A
// faulty answer may hold a title of many megabytes, which the journal keeps and the tables
// need not.
const MaxValue = 1 << 20

// shownOfJSON is how much is left of JSON that is cut, which is a text then: half a value is
// no JSON.
const shownOfJSON = 1000

// bound cuts the text that begins at begin of n's column if it is too large, and notes where
// bytes that are not UTF-8 were replaced.
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

// cutMark ends a value that had so many bytes and was cut.
func cutMark(size int) string { return fmt.Sprintf("… [cut from %d bytes]", size) }

// appendCutJSON appends the beginning of JSON as a JSON text that is marked as cut.
func appendCutJSON(dst, json []byte) []byte {
	w := jx.Writer{Buf: dst}
	w.Str(string(excerpt.Prefix(json, shownOfJSON)) + cutMark(len(json)))
	return w.Buf
}

// boundJSON is JSON, or its beginning as a text if it is too large.
func boundJSON(json []byte) []byte {
	if len(json) <= MaxValue {
		return json
	}
	return appendCutJSON(nil, json)
}

// boundList drops elements from the end of the list that begins at element begin of n's
// column until it is small enough.
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

// bytesFrom is how many bytes of text the rows from row i on have.
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
