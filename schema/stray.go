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

// strays are the values of one row that found no column: its extra.
type strays struct {
	json  []byte         // an object that lacks its closing brace; empty if there are none
	names map[string]int // how often each name was used
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

// add keeps a value. A name that is used already gets a number, "title#2", so that
// nothing is lost and the object has no name twice. All of them have at most [MaxValue]
// bytes, and some more: a value that does not fit is cut, and what then does not fit either
// is left out.
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

// stray keeps the value of a member of n that is unknown, or comes again.
func (d *Decoder) stray(r *record, n *node, name []byte, problem string) error {
	path := strings.TrimPrefix(n.path+"."+string(name), ".")
	raw, err := d.in.Raw()
	if err != nil {
		return err
	}
	return d.keep(r, path, problem, raw)
}

// misfit leaves a null for a value of the wrong type, which goes to extra.
func (d *Decoder) misfit(n *node, r *record) error {
	raw, err := d.in.Raw()
	if err != nil {
		return err
	}
	return d.unfit(n, r, raw)
}

// unfit is misfit for a value that was read already.
func (d *Decoder) unfit(n *node, r *record, raw jx.Raw) error {
	if n.to != nil {
		n.to.null()
	}
	if raw[0] == 'n' {
		return nil
	}
	return d.keep(r, n.path, wrongType, raw)
}

// keep puts a value into the extra of its row, and counts it.
func (d *Decoder) keep(r *record, path, problem string, raw jx.Raw) error {
	d.drift.note(d.src.Op, r.path, path, problem, raw)
	if d.mended && bytes.ContainsRune(raw, utf8.RuneError) {
		d.drift.note(d.src.Op, r.path, path, notUTF8, nil)
	}
	return r.aside(path, raw)
}

// aside puts a value into the extra of the row, if the table has one.
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

// maxDepth is how deep an unknown value may be nested. A row with one that is nested
// deeper is left out.
const maxDepth = 100

var errTooDeep = errors.New("a value is nested too deeply")

// appendJSON writes raw, whose syntax was checked, without white space, and with
// U+FFFD for the halves of surrogate pairs, which databases refuse.
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

// Drift is one way in which answers differ from the interface, and how often.
type Drift struct {
	Op      outlier.Operation
	Path    string // of the field, from the top: "hits[].snippet.sentiment"
	Problem string // "unknown", "missing", "twice", "of the wrong type", "not an object", "nested too deeply", "too large", "not UTF-8"
	Count   int    // since it was last asked for
	Example string // JSON of the first such value, cut to 200 bytes; "" if it is missing
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

// Names come from outside, so there are bounds to how many and how long. What comes
// beyond them before the next look is not counted.
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

// Drift lists how the answers since its last call differed from the interface, by
// operation and path. Answers that turned out to be unreadable count as far as they
// were read. It lists at most 1,000 paths.
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
