package schema

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-faster/jx"

	"outlierd/excerpt"
	"outlierd/outlier"
)

// strays collects the values of one row that have no column, for the column extra.
type strays struct {
	json  []byte         // an object without its closing brace; empty if there are no values
	names map[string]int // number of uses of each name
	deep  bool           // a value of the row is nested too deeply to be kept
}

func (s *strays) clear() {
	if s == nil {
		return
	}
	s.deep = false
	if len(s.json) > 0 {
		s.json = s.json[:0]
		clear(s.names)
	}
}

// add keeps a value. A repeated name gets a number, "title#2", so that no value is lost and names
// are unique. The values have about [MaxValue] bytes in total: one that does not fit is truncated,
// and omitted if it still does not fit.
func (s *strays) add(name string, raw jx.Raw) (err error) {
	room := MaxValue - len(s.json) - len(name)
	if len(raw) > max(room, shownOfJSON) {
		raw = appendCutJSON(nil, raw)
	}
	if len(raw) > room {
		name, raw = "…", jx.Raw(`"[cut]"`)
		if s.names[name] > 0 {
			return nil
		}
	}
	sep := byte(',')
	if len(s.json) == 0 {
		sep, s.names = '{', map[string]int{}
	}
	s.names[name]++
	for n := s.names[name]; n > 1; n = s.names[name] {
		name += "#" + strconv.Itoa(n)
		s.names[name]++
	}
	w := jx.Writer{Buf: append(s.json, sep)}
	w.Str(name)
	s.json, err = appendJSON(append(w.Buf, ':'), raw)
	return err
}

// stray keeps the value of a member of n that is unknown or repeated.
func (d *Decoder) stray(r *record, n *node, name []byte, problem string) error {
	path := strings.TrimPrefix(n.path+"."+string(name), ".")
	raw, err := d.in.Raw()
	if err != nil {
		return err
	}
	return d.keep(r, path, problem, raw)
}

// misfit reads a value of the wrong type: the column gets null, and the value goes to extra.
func (d *Decoder) misfit(n *node, r *record) error {
	raw, err := d.in.Raw()
	if err != nil {
		return err
	}
	return d.unfit(n, r, raw)
}

// unfit is like [Decoder.misfit] for a value that has been read already.
func (d *Decoder) unfit(n *node, r *record, raw jx.Raw) error {
	if n.to != nil {
		n.to.null()
	}
	if raw[0] == 'n' {
		return nil
	}
	return d.keep(r, n.path, wrongType, raw)
}

// keep records drift and puts the value into the extra of its row.
func (d *Decoder) keep(r *record, path, problem string, raw jx.Raw) error {
	d.drift.note(d.src.Op, r.path, path, problem, raw)
	if d.mended && bytes.ContainsRune(raw, utf8.RuneError) {
		d.drift.note(d.src.Op, r.path, path, notUTF8, nil)
	}
	return r.aside(path, raw)
}

// aside puts a value into the extra of the row, if the table has that column.
func (r *record) aside(path string, raw jx.Raw) error {
	if r.strays == nil {
		return nil
	}
	if r.list != "" {
		path = strings.TrimSuffix(r.list+"["+strconv.Itoa(r.index)+"]."+path, ".")
	}
	err := r.strays.add(path, raw)
	if errors.Is(err, errTooDeep) {
		r.strays.deep, err = true, nil
	}
	return err
}

// maxDepth is how many levels deep an unknown value may be nested. A row with a deeper value is
// omitted.
const maxDepth = 100

var errTooDeep = errors.New("a value is nested too deeply")

// appendJSON appends raw, whose syntax has been checked, without white space and with U+FFFD for
// unpaired surrogates, which databases reject.
func appendJSON(dst []byte, raw jx.Raw) ([]byte, error) {
	w := jx.Writer{Buf: dst}
	err := copyJSON(&w, jx.DecodeBytes(raw), maxDepth)
	return w.Buf, err
}

func copyJSON(w *jx.Writer, d *jx.Decoder, depth int) error {
	if depth == 0 {
		return errTooDeep
	}
	switch d.Next() {
	case jx.String:
		s, err := d.StrBytes()
		w.ByteStr(s)
		return err
	case jx.Array:
		w.ArrStart()
		sep := ""
		err := d.Arr(func(d *jx.Decoder) error {
			w.RawStr(sep)
			sep = ","
			return copyJSON(w, d, depth-1)
		})
		w.ArrEnd()
		return err
	case jx.Object:
		w.ObjStart()
		sep := ""
		err := d.ObjBytes(func(d *jx.Decoder, key []byte) error {
			w.RawStr(sep)
			sep = ","
			w.ByteStr(key)
			w.RawStr(":")
			return copyJSON(w, d, depth-1)
		})
		w.ObjEnd()
		return err
	default:
		raw, err := d.Raw()
		w.Raw(raw)
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

// drifts counts by operation, path and problem.
type drifts map[string]*Drift

// Names come from the service, so their number and length are limited. Drift beyond the limit is
// not counted until the next call of [Decoder.Drift].
const (
	maxDrifts  = 1000
	maxExample = 200
)

func (all drifts) note(op outlier.Operation, within, path, problem string, raw jx.Raw) {
	path = excerpt.Bytes(strings.Trim(within+"."+path, "."), maxExample, excerpt.Mark)
	key := string(op) + " " + problem + " " + path
	known := all[key]
	if known == nil && len(all) >= maxDrifts {
		return
	}
	if known == nil {
		example := excerpt.Bytes(string(raw), maxExample, excerpt.Mark)
		known = &Drift{Op: op, Path: path, Problem: problem, Example: example}
		all[key] = known
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
	slices.SortStableFunc(list, func(a, b Drift) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.Path, b.Path))
	})
	clear(d.drift)
	return list
}
