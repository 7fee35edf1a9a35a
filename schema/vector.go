package schema

import (
	"bytes"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

// vector collects the values of one column, in slices with Arrow's memory layout. Unlike Arrow's
// builders it can remove rows ([vector.cut]), so that an unreadable answer leaves none behind. The
// slices are handed over to Arrow, not copied ([vector.handOver]).
type vector struct {
	form  form
	rows  int
	words []int64   // numbers: an integer, the bits of a float, or microseconds
	bytes []byte    // texts, concatenated; a boolean is one byte
	ends  []int32   // 0, then the end of each text in bytes, or of each list in kids[0]
	nulls []int32   // the rows that are null, ascending
	kids  []*vector // the fields of a struct; the elements of a list

	wordsBefore, bytesBefore, endsBefore int // lengths of the slices last handed over
}

// form says in which slices a vector stores its values.
type form uint8

const (
	number  form = iota // words
	truth               // bytes
	text                // bytes and ends
	listing             // ends and kids[0]
	object              // kids
)

func newVector(t arrow.DataType) *vector {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return &vector{form: truth}
	case *arrow.StringType:
		return &vector{form: text, ends: []int32{0}}
	case *arrow.ListType:
		return &vector{form: listing, ends: []int32{0}, kids: []*vector{newVector(t.Elem())}}
	case *arrow.StructType:
		v := &vector{form: object}
		for _, f := range t.Fields() {
			v.kids = append(v.kids, newVector(f.Type))
		}
		return v
	default:
		return &vector{form: number}
	}
}

// null appends a null. For a struct, the caller must append to its fields too.
func (v *vector) null() {
	v.nulls = append(v.nulls, int32(v.rows))
	switch v.form {
	case number:
		v.word(0)
	case truth:
		v.bool(false)
	case object:
		v.rows++
	default:
		v.end()
	}
}

func (v *vector) word(x int64) {
	v.words = append(v.words, x)
	v.rows++
}

func (v *vector) bool(x bool) {
	b := byte(0)
	if x {
		b = 1
	}
	v.bytes = append(v.bytes, b)
	v.rows++
}

// text appends s, which may be empty.
func (v *vector) text(s []byte) {
	v.bytes = append(v.bytes, s...)
	v.end()
}

// end completes a text or list whose bytes or elements have been appended.
func (v *vector) end() {
	n := len(v.bytes)
	if v.form == listing {
		n = v.kids[0].rows
	}
	v.ends = append(v.ends, int32(n))
	v.rows++
}

// span returns where row i begins and ends in bytes or in the elements.
func (v *vector) span(i int) (begin, end int32) { return v.ends[i], v.ends[i+1] }

// at returns the text of row i, empty for null.
func (v *vector) at(i int) []byte {
	begin, end := v.span(i)
	return v.bytes[begin:end]
}

// last returns the text of the last row, empty for null.
func (v *vector) last() []byte { return v.at(v.rows - 1) }

// lastNull reports whether the last row is null.
func (v *vector) lastNull() bool {
	return len(v.nulls) > 0 && int(v.nulls[len(v.nulls)-1]) == v.rows-1
}

// equal reports whether rows i and j have the same value; null equals null.
func (v *vector) equal(i, j int) bool {
	_, null := slices.BinarySearch(v.nulls, int32(i))
	if _, other := slices.BinarySearch(v.nulls, int32(j)); null || other {
		return null && other
	}
	switch v.form {
	case number:
		return v.words[i] == v.words[j]
	case truth:
		return v.bytes[i] == v.bytes[j]
	case text:
		return bytes.Equal(v.at(i), v.at(j))
	case listing:
		from, to := v.span(i)
		other, end := v.span(j)
		if to-from != end-other {
			return false
		}
		for k := range to - from {
			if !v.kids[0].equal(int(from+k), int(other+k)) {
				return false
			}
		}
		return true
	default:
		return !slices.ContainsFunc(v.kids, func(kid *vector) bool { return !kid.equal(i, j) })
	}
}

// repeat appends the last row of another vector of numbers or texts n times.
func (v *vector) repeat(of *vector, n int) {
	switch {
	case of.rows == 0 || of.lastNull():
		for range n {
			v.null()
		}
	case v.form == text:
		v.texts(of.last(), n)
	default:
		v.ints(of.words[of.rows-1], n)
	}
}

// texts appends a text n times, as null if it is empty.
func (v *vector) texts(s []byte, n int) {
	for range n {
		if len(s) == 0 {
			v.null()
		} else {
			v.text(s)
		}
	}
}

func (v *vector) ints(x int64, n int) {
	for range n {
		v.words = append(v.words, x)
	}
	v.rows += n
}

// times appends a time n times, as null if it is zero.
func (v *vector) times(t time.Time, n int) {
	if !t.IsZero() {
		v.ints(t.UnixMicro(), n)
		return
	}
	for range n {
		v.null()
	}
}

// lists appends a list of texts n times, as null if it is empty.
func (v *vector) lists(of []string, n int) {
	for range n {
		if len(of) == 0 {
			v.null()
			continue
		}
		for _, s := range of {
			v.kids[0].text([]byte(s))
		}
		v.end()
	}
}

// cut removes all rows from row n on.
func (v *vector) cut(n int) {
	if n > v.rows {
		return
	}
	for len(v.nulls) > 0 && int(v.nulls[len(v.nulls)-1]) >= n {
		v.nulls = v.nulls[:len(v.nulls)-1]
	}
	v.rows = n
	switch v.form {
	case number:
		v.words = v.words[:n]
	case truth:
		v.bytes = v.bytes[:n]
	case text:
		v.ends = v.ends[:n+1]
		v.bytes = v.bytes[:v.ends[n]]
	case listing:
		v.ends = v.ends[:n+1]
		v.kids[0].cut(int(v.ends[n]))
	case object:
		for _, kid := range v.kids {
			kid.cut(n)
		}
	}
}

// size returns approximately how many bytes the rows need in Arrow.
func (v *vector) size() int {
	n := 8*len(v.words) + len(v.bytes) + v.rows/8
	if v.form == text || v.form == listing {
		n += 4 * v.rows
	}
	for _, kid := range v.kids {
		n += kid.size()
	}
	return n
}

// mostRoom is the maximum number of bytes that [vector.reserve] allocates for a slice.
const mostRoom = 1 << 20

// handOver gives the slices up to Arrow and records their lengths.
func (v *vector) handOver() {
	v.wordsBefore, v.bytesBefore, v.endsBefore = len(v.words), len(v.bytes), len(v.ends)
	v.rows, v.words, v.bytes, v.nulls = 0, nil, nil, v.nulls[:0]
	if v.ends != nil {
		v.ends = []int32{0}
	}
	for _, kid := range v.kids {
		kid.handOver()
	}
}

// reserve allocates space for as many rows as were last handed over. A slice that grows from
// nothing step by step needs five times its length in memory and is copied four times.
func (v *vector) reserve() {
	v.words = slices.Grow(v.words, min(v.wordsBefore, mostRoom/8))
	v.bytes = slices.Grow(v.bytes, min(v.bytesBefore, mostRoom))
	v.ends = slices.Grow(v.ends, min(v.endsBefore, mostRoom/4))
	for _, kid := range v.kids {
		kid.reserve()
	}
}
