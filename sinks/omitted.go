package sinks

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Omitted says what a warehouse and its copies leave out. It only ever grows: what was deleted is only in the journal,
// so that another warehouse must be built from there. The zero value leaves out nothing.
type Omitted struct {
	UpTo    map[string]int64    `json:"up_to,omitempty"`   // by table: the last answer whose rows are left out; see [Whole]
	Columns map[string][]string `json:"columns,omitempty"` // by table: the columns that are NULL, sorted
}

// Whole is the last answer of a table that is left out whole.
const Whole = math.MaxInt64

// ParseOmitted is the inverse of [Omitted.String].
func ParseOmitted(text string) (o Omitted, err error) {
	if text == "" {
		return o, nil
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return o, fmt.Errorf("read what is left out of the tables: %w", err)
	}
	return o, nil
}

// String returns JSON that is the same for the same contents; "" for the zero value.
func (o Omitted) String() string {
	if len(o.UpTo)+len(o.Columns) == 0 {
		return ""
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // it has maps of texts and numbers only
	}
	return string(text)
}

// Until returns which of the rows up to an answer are left out.
func (o Omitted) Until(answer int64) Omitted {
	until := Omitted{UpTo: map[string]int64{}}
	for table, upTo := range o.UpTo {
		until.UpTo[table] = min(upTo, answer)
	}
	return until
}

// Beyond returns the tables of which o leaves out more than other, of rows of answers after one.
func (o Omitted) Beyond(other Omitted, after int64) []string {
	beyond := map[string]bool{}
	for table, upTo := range o.UpTo {
		beyond[table] = upTo > max(other.UpTo[table], after)
	}
	for table, columns := range o.Columns {
		beyond[table] = beyond[table] || len(columns) > len(other.Columns[table]) && other.UpTo[table] != Whole
	}
	maps.DeleteFunc(beyond, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(beyond))
}

// With returns what either of the two leaves out.
func (o Omitted) With(more Omitted) Omitted {
	all := Omitted{map[string]int64{}, map[string][]string{}}
	for _, one := range []Omitted{o, more} {
		for table, upTo := range one.UpTo {
			all.UpTo[table] = max(all.UpTo[table], upTo)
		}
		for table, columns := range one.Columns {
			all.Columns[table] = slices.Compact(slices.Sorted(slices.Values(slices.Concat(all.Columns[table], columns))))
		}
	}
	maps.DeleteFunc(all.UpTo, func(_ string, upTo int64) bool { return upTo == 0 })
	return all
}
