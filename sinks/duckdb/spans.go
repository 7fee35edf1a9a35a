//go:build duckdb_arrow

package duckdb

import (
	"cmp"
	"slices"
)

// span is a range of bytes of a file: From inclusive, To exclusive.
type span struct{ From, To int64 }

// spans are ranges of a file, in order, that do not overlap or touch.
type spans []span

// with returns the union of s and more.
func (s spans) with(more spans) spans {
	all := slices.Concat(s, more)
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.From, b.From) })
	var merged spans
	for _, next := range all {
		if last := len(merged) - 1; last >= 0 && next.From <= merged[last].To {
			merged[last].To = max(merged[last].To, next.To)
		} else {
			merged = append(merged, next)
		}
	}
	return merged
}

func (s spans) bytes() (n int64) {
	for _, part := range s {
		n += part.To - part.From
	}
	return n
}

// overlap reports whether one of the ranges has bytes of another one.
func (s spans) overlap(from, to int64) bool {
	i, _ := slices.BinarySearchFunc(s, from, func(part span, at int64) int { return cmp.Compare(part.To, at+1) })
	return i < len(s) && s[i].From < to
}
