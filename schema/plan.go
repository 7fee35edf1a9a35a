package schema

import (
	"cmp"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/outlier"
)

// record is a place in an answer that contains rows: the answer itself, an object, or the elements
// of an array.
type record struct {
	path     string // "hits[]"
	rows     *rows
	top      *node   // the object that is a row
	outer    *record // the place around it; nil for the answer
	main     *record // the place of the answer's main rows; nil for other records
	blank    []any   // the values of an empty row: an absent or a copied for a column with a path
	required []*node // fields that a row must have
	identity []int   // see [rows.identity]
}

// absent is the value of a column before its field is read.
type absent struct{}

// copied is the value of a column that has that of a row around it, up levels above.
type copied struct{ up, column int }

// node is one field of the JSON below a row.
type node struct {
	path    string           // dotted, below the row: "snippet.title"; "[]" stands for the elements of a list
	at      int              // index of its value; -1 if it has none of its own
	read    reader           // nil for an object
	members map[string]*node // of an object, by name
	fields  int              // number of values inside a STRUCT
	element *node            // of a list
	named   bool             // the list may be an object instead, whose names are the elements' first value
	bare    string           // see [Column]
	place   *record          // the rows in its value
	isID    bool             // it must be the requested id
}

// envelope lists the fields around the rows of an answer (interface, Resources).
var envelope = []Column{
	{Name: "id", Type: varchar, Path: "id"},
	{Name: "ids", Type: texts, Path: "ids"},
	{Name: "time", Type: timestamp, Path: "time"},
}

// compilePlans converts the tables, which are lists of paths, to one tree of fields per operation, so
// that an answer and its tree can be walked together.
func compilePlans(tables []*rows) map[outlier.Operation]*record {
	type place struct {
		Place
		rows *rows
	}
	var places []place
	for _, r := range tables {
		for _, p := range r.table.Rows {
			places = append(places, place{p, r})
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(len(a.Path), len(b.Path)) }) // outer ones first
	plans := map[outlier.Operation]*record{}
	for _, p := range places {
		switch {
		case p.Path == "" || p.Path == anyElements:
			plans[p.Op] = newRecord(p.Path, p.rows, nil)
			continue
		case plans[p.Op] == nil:
			plans[p.Op] = newRecord("", &rows{columns: envelope}, nil)
			plans[p.Op].top.member("id").isID = true
			plans[p.Op].top.member("ids").element.isID = true
			plans[p.Op].top.member("pagination").read = readScalar(func([]byte) (any, bool) { return nil, true }) // is ignored
		}
		plans[p.Op].addPlace(p.Path, p.rows)
	}
	return plans
}

// addPlace adds rows at a path below the top of the answer.
func (r *record) addPlace(path string, rows *rows) {
	at := r.top
	for name := range strings.SplitSeq(strings.ReplaceAll(path, "[]", ""), ".") {
		if at.place != nil {
			r, at = at.place, at.place.top
		}
		at = at.member(name)
	}
	at.place, at.read = newRecord(path, rows, r), (*answer).captureRows
	if r.outer == nil {
		r.main = at.place
	}
}

func newRecord(path string, rows *rows, outer *record) *record {
	r := &record{path: path, rows: rows, outer: outer, top: newNode(""), blank: make([]any, len(rows.columns))}
	for i, c := range rows.columns {
		switch up, field, _ := strings.Cut(c.Path, "/"); {
		case field != "":
			r.blank[i] = r.copied(up == "..", field)
		case c.Path != "":
			r.blank[i] = absent{}
			r.addField(i, c)
		}
	}
	if rows.table != nil {
		r.identity = rows.identity()
	}
	return r
}

// copied finds the field of the row around r, or of the answer.
func (r *record) copied(nearest bool, path string) copied {
	up, from := 1, r.outer
	for ; !nearest && from.outer != nil; up++ {
		from = from.outer
	}
	return copied{up, slices.IndexFunc(from.rows.columns, func(c Column) bool { return c.Path == path })}
}

// addField adds the field that is read into column i.
func (r *record) addField(i int, c Column) {
	n := r.top
	for name := range strings.SplitSeq(c.Path, ".") {
		n = n.member(name)
	}
	n.bind(c.Type, i)
	n.bare = c.bare
	switch {
	case c.JSON:
		n.read = (*answer).readJSON
	case r.rows.table != nil && slices.Contains(r.rows.table.Key, c.Name):
		n.read = (*answer).readID
		n.isID = r.outer == nil || r.outer.outer == nil
		r.required = append(r.required, n)
	}
}

func newNode(path string) *node { return &node{path: path, at: -1, members: map[string]*node{}} }

// member returns the member with that name, and adds it as an object if it is new.
func (n *node) member(name string) *node {
	if n.members[name] == nil {
		n.members[name] = newNode(strings.TrimPrefix(n.path+"."+name, "."))
	}
	return n.members[name]
}

// bind sets a field to be read as the value at an index, of type t.
func (n *node) bind(t arrow.DataType, at int) {
	n.at = at
	switch t := t.(type) {
	case *arrow.StructType:
		n.fields = t.NumFields()
		for i, f := range t.Fields() {
			n.member(f.Name).bind(f.Type, i)
		}
	case *arrow.ListType:
		n.read, n.element = (*answer).readList, newNode(n.path+"[]")
		n.element.bind(t.Elem(), 0)
		n.named = n.element.members["name"] != nil
		delete(n.element.members, "name") // which is not in the JSON
	case *arrow.StringType:
		n.read = (*answer).readText
	case *arrow.Int64Type:
		n.read = readScalar(parseInt)
	case *arrow.Float64Type:
		n.read = readScalar(parseFloat)
	case *arrow.BooleanType:
		n.read = readScalar(parseBool)
	case *arrow.TimestampType:
		n.read = readScalar(parseInstant)
	}
}
