package schema

import (
	"fmt"
	"math/bits"

	"github.com/go-faster/jx"

	"outlierd/outlier"
)

// The functions here and in scalar.go each read one JSON value and append exactly one value,
// perhaps null, to its column.

// fields reads the members of the object at n in a row of r.
func (d *Decoder) fields(n *node, r *record) error {
	members, err := d.in.ObjIter()
	if err != nil {
		return err
	}
	last := -1
	for members.Next() {
		i := n.find(members.Key(), last)
		if i < 0 {
			if err := d.stray(r, n, members.Key(), unknown); err != nil {
				return err
			}
			continue
		}
		last = i
		kid := n.kids[i]
		if r.seen&kid.bit != 0 {
			if err := d.stray(r, n, members.Key(), twice); err != nil {
				return err
			}
			continue
		}
		r.seen |= kid.bit
		if err := kid.read(d, kid, r); err != nil {
			return err
		}
	}
	return members.Err()
}

// find returns the index of the kid with that name, or -1. Objects of one kind nearly always list
// their members in the same order, so the kid that followed last time is tried first.
func (n *node) find(name []byte, last int) int {
	if i := int(n.next[last+1]); i < len(n.kids) && string(name) == n.kids[i].name {
		return i
	}
	for i, kid := range n.kids {
		if string(name) == kid.name {
			n.next[last+1] = uint8(i)
			return i
		}
	}
	return -1
}

// row reads an object as the next row of r.
func (d *Decoder) row(r *record) error {
	r.seen = 0
	r.strays.clear()
	if r.rows.n == 0 {
		r.rows.reserve()
	}
	for _, kid := range r.kids {
		kid.mark, kid.given, kid.index = kid.rows.n, false, 0
	}
	if err := d.fields(r.top, r); err != nil {
		return err
	}
	r.nulls()
	for _, n := range r.needs {
		if len(n.to.last()) == 0 {
			d.drift.note(d.src.Op, r.path, n.path, missing, nil)
			d.lose(r)
			r.drop()
			return nil
		}
	}
	if r.strays != nil && r.strays.deep {
		d.drift.note(d.src.Op, r.path, "", tooDeep, nil)
		d.lose(r)
		r.drop()
		return nil
	}
	if d.again(r) {
		d.drift.note(d.src.Op, r.path, "", twice, nil)
		r.drop()
		return nil
	}
	r.rows.n++
	for _, c := range r.computed {
		c.do(c.to, c.of, r)
	}
	if r.repeats() {
		d.drift.note(d.src.Op, r.path, "", twice, nil)
		r.rows.n--
		r.drop()
		return nil
	}
	for _, f := range r.fills {
		f.to.repeat(f.from, f.rows.n-f.to.rows) // the last value of the outer row, for all inner rows that lack it
	}
	for _, kid := range r.kids {
		if kid.gone != nil && kid.given && kid.index == 0 { // the children's place is present and empty
			kid.gone.vectors[0].text(kid.parent.last())
			kid.gone.n++
		}
	}
	return nil
}

// nulls completes a row with nulls for the fields it lacks.
func (r *record) nulls() {
	for missing := r.all &^ r.seen; missing != 0; missing &= missing - 1 {
		r.byBit[bits.TrailingZeros64(missing)].null()
	}
}

// lose records the index of an element that becomes no row, if it is in the answer's main array.
func (d *Decoder) lose(r *record) {
	if r.within != nil && r.within.within == nil {
		d.lost = append(d.lost, r.index)
	}
}

// drop removes the current row, which is invalid or a repetition, and the rows inside it.
func (r *record) drop() {
	r.rows.cut(r.rows.n)
	r.strays.clear()
	for _, kid := range r.kids {
		kid.rows.cut(kid.mark)
	}
}

// known skips a field that is known and has no column.
func (d *Decoder) known(*node, *record) error { return d.in.Skip() }

// inner reads an object whose members are fields of the row, or of a STRUCT.
func (d *Decoder) inner(n *node, r *record) error {
	if d.in.Next() != jx.Object {
		return d.bare(n, r)
	}
	if n.to != nil {
		n.to.rows++
	}
	return d.fields(n, r)
}

// bare reads a value in place of an object: a plain number, if one of the object's fields accepts
// it. If it is not known which field is meant, the number goes to extra without being reported as
// drift, because the service is known to answer like this.
func (d *Decoder) bare(n *node, r *record) error {
	takesNumber := false
	for _, kid := range n.kids {
		if kid.bare == nil || d.in.Next() != jx.Number {
			continue
		}
		if kid.bare(d.src) {
			r.seen |= kid.bit
			return kid.read(d, kid, r)
		}
		takesNumber = true
	}
	if !takesNumber {
		return d.misfit(n, r)
	}
	raw, err := d.in.Raw()
	if err != nil {
		return err
	}
	return r.aside(n.path, raw)
}

// one reads an object that is a row of its own.
func (d *Decoder) one(n *node, r *record) error {
	if d.in.Next() != jx.Object {
		return d.misplaced(n, r)
	}
	n.place.given = true
	return d.row(n.place)
}

// each reads an array whose elements are rows of their own.
func (d *Decoder) each(n *node, r *record) error {
	if d.in.Next() != jx.Array {
		return d.misplaced(n, r)
	}
	n.place.given = true
	elements, err := d.in.ArrIter()
	if err != nil {
		return err
	}
	for n.place.index = 0; elements.Next(); n.place.index++ {
		if d.in.Next() == jx.Object {
			err = d.row(n.place)
		} else {
			err = d.notRow(n.place)
		}
		if err != nil {
			return err
		}
	}
	return elements.Err()
}

// misplaced skips a value in a place for rows. Null means that there are no rows; any other value is
// an error if the place is that of the answer's main rows.
func (d *Decoder) misplaced(n *node, r *record) error {
	if r.within == nil && d.in.Next() != jx.Null {
		raw, err := d.in.Raw()
		if err != nil {
			return err
		}
		d.drift.note(d.src.Op, "", n.place.path, wrongType, raw)
		return fmt.Errorf("%s is %s", n.place.path, wrongType)
	}
	return d.misfit(n, r)
}

// notRow skips an element that is not an object. It cannot go to extra, because there is no row. A
// text in place of a forgotten element ([outlier.Redact]) is not drift.
func (d *Decoder) notRow(r *record) error {
	raw, err := d.in.Raw()
	if err == nil && string(raw) != outlier.Forgotten {
		d.drift.note(d.src.Op, r.path, "", notObject, raw)
		d.lose(r)
	}
	return err
}

// texts reads a LIST of texts.
func (d *Decoder) texts(n *node, r *record) error {
	if d.in.Next() != jx.Array {
		return d.misfit(n, r)
	}
	elements, err := d.in.ArrIter()
	if err != nil {
		return err
	}
	begin := n.to.kids[0].rows
	for elements.Next() {
		if err := d.text(n.kids[0], r); err != nil {
			return err
		}
	}
	d.boundList(n, r, begin)
	n.to.end()
	return elements.Err()
}

// elements reads a LIST of objects. If the list's elements have names, it also accepts an object,
// as the list of its members' values.
func (d *Decoder) elements(n *node, r *record) error {
	e, begin := n.place, n.to.kids[0].rows
	e.index = 0
	switch named := e.top.kids[0].name == ""; {
	case d.in.Next() == jx.Array:
		elements, err := d.in.ArrIter()
		if err != nil {
			return err
		}
		for ; elements.Next(); e.index++ {
			if err := d.element(e, nil); err != nil {
				return err
			}
		}
		d.boundList(n, r, begin)
		n.to.end()
		return elements.Err()
	case named && d.in.Next() == jx.Object:
		members, err := d.in.ObjIter()
		if err != nil {
			return err
		}
		for ; members.Next(); e.index++ {
			if err := d.element(e, members.Key()); err != nil {
				return err
			}
		}
		d.boundList(n, r, begin)
		n.to.end()
		return members.Err()
	default:
		return d.misfit(n, r)
	}
}

// element reads one object of a LIST.
func (d *Decoder) element(e *record, name []byte) error {
	e.seen = 0
	if name != nil {
		e.seen = e.top.kids[0].bit
		e.top.kids[0].to.text(name)
	}
	defer e.nulls()
	if d.in.Next() != jx.Object {
		return d.misfit(e.top, e)
	}
	e.top.to.rows++
	return d.fields(e.top, e)
}
