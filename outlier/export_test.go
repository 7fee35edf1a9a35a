package outlier

import (
	"maps"
	"slices"
)

// Operations are the endpoints that the client can call.
func Operations() []Operation { return slices.Sorted(maps.Keys(endpoints)) }

// IsPaged reports whether an operation has pages.
func (o Operation) IsPaged() bool { return o.isPaged() }

// IsData reports whether an operation asks about one entity, see [DataRequest].
func (o Operation) IsData() bool { return endpoints[o].id != nil }
