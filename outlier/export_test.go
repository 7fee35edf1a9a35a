package outlier

import (
	"maps"
	"slices"
)

// Operations are the endpoints that the client can ask.
func Operations() []Operation { return slices.Sorted(maps.Keys(endpoints)) }

// Fields are the parameters of an operation but from and size.
func (o Operation) Fields() []Field { return (&Request{Op: o}).fields() }

// IsPaged reports whether an operation has pages, see [PageRequest].
func (o Operation) IsPaged() bool { return o.Fields() != nil && o != OpStartScan }

// IsData reports whether an operation asks about one entity, see [DataRequest].
func (o Operation) IsData() bool { return endpoints[o].id != nil }
