package schema

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-faster/jx"

	"outlierd/internal/excerpt"
	"outlierd/outlier"
)

// MaxValue is the maximum size in bytes of a column's value: a text, a list of texts, or JSON. A
// faulty answer may contain a title of many megabytes. The journal keeps it; the tables need not.
const MaxValue = 1 << 20

// shownOfJSON is how many bytes of oversized JSON are kept. They are stored as a JSON text, since
// a truncated value is not valid JSON.
const shownOfJSON = 1000

// cutMark returns the suffix of a truncated value that had size bytes.
func cutMark(size int) string { return fmt.Sprintf("… [cut from %d bytes]", size) }

// boundJSON returns json, or its beginning as a JSON text if it is larger than size.
func boundJSON(json []byte, size int) []byte {
	if len(json) <= size {
		return json
	}
	w := jx.Writer{}
	w.Str(string(excerpt.Prefix(json, shownOfJSON)) + cutMark(len(json)))
	return w.Buf
}

// extras collects the values of one row that have no column, for the column extra.
type extras struct {
	json  jx.Encoder     // an object without its closing brace; empty if there are no values
	names map[string]int // number of uses of each name
}

// add keeps a value. A repeated name gets a number, "title#2", so that no value is lost and names
// are unique. The values have about [MaxValue] bytes in total: one that does not fit is truncated,
// and omitted if it still does not fit.
func (e *extras) add(name string, raw jx.Raw) error {
	room := MaxValue - len(e.json.Bytes()) - len(name)
	raw = boundJSON(raw, max(room, shownOfJSON))
	if len(raw) > room {
		name, raw = "…", jx.Raw(`"[cut]"`)
		if e.names[name] > 0 {
			return nil
		}
	}
	if e.names == nil {
		e.names = map[string]int{}
		e.json.ObjStart()
	}
	e.names[name]++
	for n := e.names[name]; n > 1; n = e.names[name] {
		name += "#" + strconv.Itoa(n)
		e.names[name]++
	}
	e.json.FieldStart(name)
	return copyJSON(&e.json, jx.DecodeBytes(raw), maxDepth)
}

// maxDepth is how many levels deep an unknown value may be nested. A row with a deeper value is
// omitted.
const maxDepth = 100

var errTooDeep = errors.New("a value is nested too deeply")

// cleanJSON returns raw, whose syntax has been checked, without white space and with U+FFFD for
// unpaired surrogates, which databases reject.
func cleanJSON(raw jx.Raw) ([]byte, error) {
	var to jx.Encoder
	err := copyJSON(&to, jx.DecodeBytes(raw), maxDepth)
	return to.Bytes(), err
}

func copyJSON(to *jx.Encoder, from *jx.Decoder, depth int) error {
	if depth == 0 {
		return errTooDeep
	}
	switch from.Next() {
	case jx.String:
		s, err := from.StrBytes()
		to.ByteStr(s)
		return err
	case jx.Array:
		to.ArrStart()
		defer to.ArrEnd()
		return from.Arr(func(from *jx.Decoder) error { return copyJSON(to, from, depth-1) })
	case jx.Object:
		to.ObjStart()
		defer to.ObjEnd()
		return from.Obj(func(from *jx.Decoder, name string) error {
			to.FieldStart(name)
			return copyJSON(to, from, depth-1)
		})
	default:
		raw, err := from.Raw()
		to.Raw(raw)
		return err
	}
}

// Drift is one kind of difference between answers and the interface, with a count.
type Drift struct {
	Op   outlier.Operation
	Path string // of the field, from the top: "hits[].snippet.sentiment"

	// Problem is "unknown", "missing", "twice", "of the wrong type", "not an object", "nested too
	// deeply", "too large" or "not UTF-8".
	Problem string

	Count   int    // since the last call of [Decoder.Drift]
	Example string // JSON of the first such value, truncated to 200 bytes; "" if it is missing
}

// The problems.
const (
	unknown   = "unknown"
	missing   = "missing"
	twice     = "twice"
	tooLarge  = "too large"
	notUTF8   = "not UTF-8"
	wrongType = "of the wrong type"
	notObject = "not an object"
	tooDeep   = "nested too deeply"
)

// String names the field and what is wrong with it: "hits[].id missing".
func (d Drift) String() string { return d.Path + " " + d.Problem }

// Names come from the service, so their number and length are limited. Drift beyond the limit is
// not counted until the next call of [Decoder.Drift].
const (
	maxDrifts  = 1000
	maxExample = 200
)

// noteDrift counts drift of a field of a row.
func (d *Decoder) noteDrift(r *row, path, problem string, raw jx.Raw) {
	path = excerpt.Bytes(strings.Trim(r.path+"."+path, "."), maxExample, excerpt.Mark)
	key := string(d.src.Op) + "\x00" + path + "\x00" + problem
	known := d.drift[key]
	if known == nil && len(d.drift) >= maxDrifts {
		return
	}
	if known == nil {
		example := excerpt.Bytes(string(raw), maxExample, excerpt.Mark)
		known = &Drift{Op: d.src.Op, Path: path, Problem: problem, Example: example}
		d.drift[key] = known
	}
	known.Count++
}

// Drift returns how the answers since its last call differed from the interface, sorted by
// operation and path, at most 1,000 paths. Unreadable answers count as far as they were read.
func (d *Decoder) Drift() []Drift {
	var list []Drift
	for _, key := range slices.Sorted(maps.Keys(d.drift)) {
		list = append(list, *d.drift[key])
	}
	clear(d.drift)
	return list
}
