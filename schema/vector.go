package schema

import (
	"time"
)

// vector collects the values of one column. Its slices are laid out as Arrow wants
// them, but for nulls and booleans, so that a row can be taken back by cutting
// them off: Arrow's own builders only grow. They are kept from batch to batch.
type vector struct {
	form  form
	rows  int
	words []int64   // numbers: an integer, the bits of a float, or microseconds
	bytes []byte    // texts, one after the other; a boolean is one byte
	ends  []int32   // where each text ends in bytes, or each list in kids[0]
	nulls []int32   // the rows that are null, ascending
	kids  []*vector // fields of a struct; the one element of a list
}

// form is how a vector keeps its values.
type form uint8

const (
	integer form = iota
	float
	instant
	truth
	text
	list
	object
)

func (v *vector) texts(s string, n int)      {}
func (v *vector) ints(x int64, n int)        {}
func (v *vector) times(t time.Time, n int)   {}
func (v *vector) lists(list []string, n int) {}
