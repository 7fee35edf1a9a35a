package schema

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/go-faster/jx"

	"outlierd/outlier"
)

// record is a place in an answer that contains rows: the answer itself, an object, the elements of
// an array, or the elements of a LIST column.
type record struct {
	path   string // "hits[]"
	list   string // for elements of a LIST: its path below the row
	rows   *rows
	top    *node // its kids are the fields of a row
	within *record
	kids   []*record // the places inside a row
	mark   int       // number of rows before those inside the current row of within
	given  bool      // the current row of within has this place
	parent *vector   // for children: the id column of within
	gone   *rows     // for children: the parents that have none
	index  int       // of the current element, counting malformed ones

	element jx.Raw // in an answer of any shape: the current element; nil if there is none
	frame   []byte // in an answer of any shape: the JSON around the elements

	seen   uint64    // fields present in the current row
	all    uint64    // fields that have a column
	fields int       // number of fields
	byBit  []*vector // column of each field; nil if it has none
	names  []string  // column name of each field; "" if it has none of its own

	needs    []*node               // fields that a row must have
	fills    []fill                // columns of inner rows that are filled from this row
	computed []computation         // columns computed when the row is complete
	echoes   []echo                // for the answer: ids that must equal the requested one
	strays   *strays               // for the column extra; nil if there is none
	src      **Source              // of the current answer
	content  commentHash           // of the current comment; zero for other rows
	same     map[commentHash][]int // the comments of the answer by author and text
}

// node is one field of the JSON below a row, with the function that reads its value.
type node struct {
	name  string
	path  string // dotted, below the row
	read  func(*Decoder, *node, *record) error
	bare  func(*Source) bool // see [Column]
	bit   uint64
	to    *vector // the column; nil for an inner object that is not a STRUCT
	kids  []*node
	next  []uint8 // the kid that last followed each kid, so that few names are compared
	place *record // the rows or elements in the value
}

type fill struct {
	to, from *vector
	rows     *rows // those of to
}

type computation struct {
	do func(v *vector, of []*vector, r *record)
	to *vector
	of []*vector
}

type echo struct {
	ids  *vector
	rows *rows
}

// envelope lists the fields around the rows of an answer (interface, Resources).
var envelope = []Column{
	{Name: "id", Type: varchar, Path: "id"},
	{Name: "ids", Type: texts, Path: "ids"},
	{Name: "time", Type: timestamp, Path: "time"},
}

// compile converts the tables, which are lists of paths, to one tree of fields per operation, so
// that an answer and its tree can be walked together.
func (d *Decoder) compile() {
	d.plans = map[outlier.Operation]*record{}
	d.of, d.gone = map[*Table]*rows{}, map[*Table]*rows{}
	type place struct {
		Place
		rows *rows
	}
	var places []place
	for _, t := range Tables() {
		if t.History != nil || t.Of != nil {
			continue
		}
		r := newRows(t, slices.Concat(t.Columns, t.lineage))
		d.rows, d.of[t] = append(d.rows, r), r
		for _, p := range t.Rows {
			places = append(places, place{p, r})
		}
	}
	outerFirst := func(a, b place) int { return cmp.Compare(len(a.Path), len(b.Path)) }
	slices.SortStableFunc(places, outerFirst)
	for _, p := range places {
		switch {
		case p.Path == "" || p.Path == anyElements:
			d.plans[p.Op] = d.newWhole(p.Path, p.rows)
			continue
		case d.plans[p.Op] == nil:
			d.plans[p.Op] = d.newEnvelope()
		}
		d.place(d.plans[p.Op], p.Path, p.rows)
	}
	d.all = slices.Clone(d.rows)
	for _, r := range d.rows {
		if r.table.Kind == Children || r.table == Missing {
			gone := newRows(r.table, r.table.gone())
			d.gone[r.table], d.all = gone, append(d.all, gone)
		}
	}
	for _, plan := range d.plans {
		d.linkChildren(plan)
	}
}

// gone returns the columns of [Part].Gone.
func (t *Table) gone() []Column {
	var identity []Column
	for _, c := range t.Columns {
		if slices.Contains(t.Identity(), c.Name) {
			identity = append(identity, c)
		}
	}
	return append(identity, response)
}

// linkChildren sets gone and parent of the places of children inside r, so that parents without
// children are recorded.
func (d *Decoder) linkChildren(r *record) {
	for _, kid := range r.kids {
		d.linkChildren(kid)
		if kid.rows.table == nil || kid.rows.table.Kind != Children {
			continue
		}
		for _, f := range r.fills {
			if f.rows == kid.rows && kid.rows.columns[0].Name == kid.rows.table.Key[0] && f.to == kid.rows.vectors[0] {
				kid.gone, kid.parent = d.gone[kid.rows.table], f.from
			}
		}
	}
}

// newWhole returns the record of an answer without an envelope.
func (d *Decoder) newWhole(path string, rows *rows) *record {
	r := d.newRecord(path, rows, nil)
	r.columns(r)
	for _, key := range r.needs {
		r.echoes = append(r.echoes, echo{key.to, rows})
	}
	return r
}

func (d *Decoder) newEnvelope() *record {
	r := d.newRecord("", newRows(nil, envelope), nil)
	r.columns(nil)
	r.field(r.top, "pagination").read = (*Decoder).known
	r.echoes = []echo{{r.rows.vectors[0], r.rows}, {r.rows.vectors[1].kids[0], r.rows}}
	return r
}

func (d *Decoder) newRecord(path string, rows *rows, within *record) *record {
	return &record{path: path, rows: rows, within: within, top: &node{next: []uint8{0}}, src: &d.src, same: d.same}
}

// place adds rows at a path below the top of the answer.
func (d *Decoder) place(answer *record, path string, rows *rows) {
	in, at := answer, answer.top
	for name := range strings.SplitSeq(strings.ReplaceAll(path, "[]", ""), ".") {
		at = in.field(at, name)
		if at.place != nil {
			in, at = at.place, at.place.top
		}
	}
	r := d.newRecord(path, rows, in)
	at.place, at.read = r, (*Decoder).one
	if strings.HasSuffix(path, "[]") {
		at.read = (*Decoder).each
	}
	in.kids = append(in.kids, r)
	r.columns(answer)
	if in == answer && len(r.needs) > 0 {
		answer.echoes = append(answer.echoes, echo{r.needs[0].to, rows})
	}
}

// columns adds the columns of the record's rows.
func (r *record) columns(answer *record) {
	byName := map[string]*vector{}
	if slices.ContainsFunc(r.rows.columns, func(c Column) bool { return c.Name == extra.Name }) {
		r.strays = &strays{}
	}
	for i, c := range r.rows.columns {
		byName[c.Name] = r.rows.vectors[i]
	}
	for i, c := range r.rows.columns {
		v := r.rows.vectors[i]
		switch up, outer := strings.CutPrefix(c.Path, "../"); {
		case c.computed != nil:
			of := []*vector{}
			for _, name := range c.of {
				of = append(of, byName[name])
			}
			r.computed = append(r.computed, computation{c.computed, v, of})
		case outer:
			r.within.fill(up, v, r.rows)
		case strings.HasPrefix(c.Path, "/"):
			answer.fill(c.Path[1:], v, r.rows)
		case c.Path != "":
			n := r.leaf(c, v)
			if r.rows.table != nil && slices.Contains(r.rows.table.Key, c.Name) {
				n.read = (*Decoder).ident
				r.needs = append(r.needs, n)
			}
		}
	}
}

// fill registers that a field of this record's rows is copied to a column of inner rows.
func (r *record) fill(path string, to *vector, rows *rows) {
	at := r.top
	for name := range strings.SplitSeq(path, ".") {
		at = r.field(at, name)
	}
	r.fills = append(r.fills, fill{to: to, from: at.to, rows: rows})
}

// leaf adds the field that is read into v.
func (r *record) leaf(c Column, v *vector) *node {
	at := r.top
	for name := range strings.SplitSeq(c.Path, ".") {
		at = r.field(at, name)
	}
	r.bind(at, c.Type, v)
	r.names[bits.TrailingZeros64(at.bit)] = c.Name
	at.bare = c.bare
	if c.JSON {
		at.read = (*Decoder).anything
	}
	return at
}

// field returns the field with that name, and adds it as an inner object if it is new.
func (r *record) field(of *node, name string) *node {
	for _, kid := range of.kids {
		if kid.name == name {
			return kid
		}
	}
	if r.fields == 64 {
		panic("schema: more than 64 fields below " + r.path)
	}
	n := &node{name: name, path: strings.TrimPrefix(of.path+"."+name, "."), bit: 1 << r.fields, next: []uint8{0}}
	n.read = (*Decoder).inner
	r.fields++
	r.byBit, r.names = append(r.byBit, nil), append(r.names, "")
	of.kids = append(of.kids, n)
	of.next = append(of.next, uint8(len(of.kids)))
	return n
}

// bind sets a field to be read into a column of type t.
func (r *record) bind(n *node, t arrow.DataType, v *vector) {
	n.to = v
	r.all |= n.bit
	r.byBit[bits.TrailingZeros64(n.bit)] = v
	switch t := t.(type) {
	case *arrow.StructType:
		for i, f := range t.Fields() {
			r.bind(r.field(n, f.Name), f.Type, v.kids[i])
		}
	case *arrow.ListType:
		if of, ok := t.Elem().(*arrow.StructType); ok {
			r.elements(n, of, v.kids[0])
		} else {
			n.read = (*Decoder).texts
			n.kids = []*node{{path: n.path + "[]", to: v.kids[0]}}
		}
	default:
		n.read = scalar(t)
	}
}

// elements sets a field to be read as a LIST of objects. A field "name" is not in the JSON: it
// receives the member names if the answer has an object in place of the list.
func (r *record) elements(n *node, of *arrow.StructType, v *vector) {
	top := &node{next: []uint8{0}}
	top.to = v
	e := &record{path: r.path + "." + n.path + "[]", list: n.path, within: r, top: top, strays: r.strays}
	n.place, n.read = e, (*Decoder).elements
	for i, f := range of.Fields() {
		e.bind(e.field(e.top, f.Name), f.Type, v.kids[i])
	}
	if of.Field(0).Name == "name" {
		e.top.kids[0].name = ""
	}
}

func scalar(t arrow.DataType) func(*Decoder, *node, *record) error {
	switch t.ID() {
	case arrow.INT64:
		return (*Decoder).integer
	case arrow.FLOAT64:
		return (*Decoder).float
	case arrow.BOOL:
		return (*Decoder).truth
	case arrow.TIMESTAMP:
		return (*Decoder).instant
	default:
		return (*Decoder).text
	}
}
