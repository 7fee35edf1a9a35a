package schema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

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
func (e *extras) add(name string, raw jx.Raw) {
	room := MaxValue - len(e.json.Bytes()) - len(name)
	raw = boundJSON(raw, max(room, shownOfJSON))
	if len(raw) > room {
		name, raw = "…", jx.Raw(`"[cut]"`)
		if e.names[name] > 0 {
			return
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
	copyJSON(&e.json, jx.DecodeBytes(raw), maxDepth)
}

// maxDepth is how many levels deep an unknown value may be nested. Of what is deeper, the beginning is kept as a text.
const maxDepth = 100

// cleanJSON returns raw, whose syntax has been checked, without white space and with U+FFFD for
// unpaired surrogates, which databases reject.
func cleanJSON(raw jx.Raw) []byte {
	var to jx.Encoder
	copyJSON(&to, jx.DecodeBytes(raw), maxDepth)
	return to.Bytes()
}

func copyJSON(to *jx.Encoder, from *jx.Decoder, depth int) {
	is := from.Next()
	switch {
	case is == jx.String:
		s, _ := from.StrBytes()
		to.ByteStr(s)
	case is == jx.Array && depth > 0:
		to.ArrStart()
		_ = from.Arr(func(from *jx.Decoder) error { copyJSON(to, from, depth-1); return nil })
		to.ArrEnd()
	case is == jx.Object && depth > 0:
		to.ObjStart()
		_ = from.Obj(func(from *jx.Decoder, name string) error {
			to.FieldStart(name)
			copyJSON(to, from, depth-1)
			return nil
		})
		to.ObjEnd()
	default:
		raw, _ := from.Raw()
		if is == jx.Array || is == jx.Object {
			raw = boundJSON(raw, 0) // it is too deep
		}
		to.Raw(raw)
	}
}

// Drift is one kind of difference between answers and the interface, with a count.
type Drift struct {
	Op   outlier.Operation `json:"operation"`
	Path string            `json:"path"` // of the field, from the top: "hits[].snippet.sentiment"

	// Problem is "unknown", "missing", "twice", "of the wrong type", "not an object", "about another
	// entity", "too large" or "not UTF-8".
	Problem string `json:"problem"`

	Count   int64     `json:"count"`         // since the last call of [Decoder.Drift]
	First   time.Time `json:"first_seen_at"` // when the first answer with it came
	Last    time.Time `json:"last_seen_at"`
	Example string    `json:"example"` // JSON of the first such value, truncated to 200 bytes; "" if it is missing
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

	otherEntity = "about another entity"
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
func (a *answer) noteDrift(r *row, path, problem string, raw jx.Raw) {
	path = excerpt.Bytes(strings.Trim(r.path+"."+path, "."), maxExample, excerpt.Mark)
	key := string(a.src.Op) + "\x00" + path + "\x00" + problem
	known := a.into.drift[key]
	if known == nil && len(a.into.drift) >= maxDrifts {
		return
	}
	if known == nil {
		example := excerpt.Bytes(string(raw), maxExample, excerpt.Mark)
		known = &Drift{Op: a.src.Op, Path: path, Problem: problem, First: a.src.ObservedAt, Example: example}
		a.into.drift[key] = known
	}
	known.Count, known.Last = known.Count+1, a.src.ObservedAt
}

// Drift returns how the answers since its last call differed from the interface, sorted by
// operation and path, at most 1,000 paths. Answers that are not JSON have none.
func (d *Decoder) Drift() []Drift {
	var list []Drift
	for _, key := range slices.Sorted(maps.Keys(d.drift)) {
		list = append(list, *d.drift[key])
	}
	clear(d.drift)
	return list
}
