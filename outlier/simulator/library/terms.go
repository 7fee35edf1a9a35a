package library

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entity is what a search finds: an outlier, or a channel by one of its samples.
type entity interface {
	*Hit | *Sample
	address() uint64 // identifies it in the library
}

// score is a value of a T, or how well it matches; ok is false for a T that lacks the value,
// or does not match.
type score[T entity] func(T) (value float64, ok bool)

// terms are the filters and orders of a T (interface, Common filters). A T that lacks a value
// passes no filter on it, and is sorted last.
type terms[T entity] struct {
	numbers map[string]score[T] // between <name>From and <name>To, both inclusive, or only for orders
	others  map[string]func(v T, values []string) bool
	orders  map[string]string // from values of sortBy to numbers
}

// filters are those of one request.
type filters[T entity] []func(T) bool

func (f filters[T]) passAll(v T) bool {
	for _, keeps := range f {
		if !keeps(v) {
			return false
		}
	}
	return true
}

// readFilters reads the filters of a request. Its parameters have been checked.
func (t *terms[T]) readFilters(p url.Values) filters[T] {
	var f filters[T]
	for name, value := range t.numbers {
		if p.Has(name + "From") {
			from := readNumber(p.Get(name + "From"))
			f = append(f, func(v T) bool { x, ok := value(v); return ok && x >= from })
		}
		if p.Has(name + "To") {
			to := readNumber(p.Get(name + "To"))
			f = append(f, func(v T) bool { x, ok := value(v); return ok && x <= to })
		}
	}
	for name, keeps := range t.others {
		if p.Has(name) {
			f = append(f, func(v T) bool { return keeps(v, p[name]) })
		}
	}
	return f
}

// target is what a request looks for.
type target[T entity] struct {
	score score[T]
	most  int // how many are found at most; 0 means all
}

// searchAll returns what passes the filters of p and matches, the most relevant first, unless p
// asks for another order.
func searchAll[T entity](all []T, p url.Values, t *terms[T], a target[T]) []T {
	found := nearestFirst(all, t.readFilters(p), a)
	if p.Has("seed") {
		shuffleBySeed(found, HashText(p.Get("seed")))
	}
	if value, ok := t.numbers[t.orders[p.Get("sortBy")]]; ok {
		slices.SortStableFunc(found, orderBy(value, p.Get("sortOrder") == "asc"))
	}
	return found
}

func nearestFirst[T entity](all []T, keep filters[T], a target[T]) []T {
	type ranked struct {
		thing     T
		relevance float64
	}
	var ranking []ranked
	for _, v := range all {
		if !keep.passAll(v) {
			continue
		}
		if r, ok := a.score(v); ok {
			ranking = append(ranking, ranked{v, r})
		}
	}
	slices.SortFunc(ranking, func(v, w ranked) int {
		return cmp.Or(cmp.Compare(w.relevance, v.relevance), cmp.Compare(v.thing.address(), w.thing.address()))
	})
	if a.most > 0 && len(ranking) > a.most {
		ranking = ranking[:a.most]
	}
	found := make([]T, len(ranking))
	for i := range ranking {
		found[i] = ranking[i].thing
	}
	return found
}

func shuffleBySeed[T entity](found []T, seed uint64) {
	slices.SortFunc(found, func(v, w T) int {
		return cmp.Compare(Hash(seed, v.address()), Hash(seed, w.address()))
	})
}

// orderBy sorts a T that lacks the value last. The interface does not document the default of
// sortOrder; here it is desc.
func orderBy[T entity](value score[T], ascending bool) func(v, w T) int {
	return func(v, w T) int {
		x, okx := value(v)
		y, oky := value(w)
		if !okx || !oky {
			return oneIf(!okx) - oneIf(!oky)
		}
		if ascending {
			return cmp.Compare(x, y)
		}
		return cmp.Compare(y, x)
	}
}

// readNumber reads a number or a date-time, as seconds.
func readNumber(s string) float64 {
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return seconds(at)
	}
	n, _ := strconv.ParseFloat(s, 64) // nothing else is allowed
	return n
}

func equalsFlag(b *bool, value string) bool { return b != nil && *b == (value == "true") }

// matchesPattern reports whether s matches a pattern in which * is any text.
func matchesPattern(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	s, ok := strings.CutPrefix(s, parts[0])
	if !ok || len(parts) == 1 {
		return ok && s == ""
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(s, part)
		if !found {
			return false
		}
		s = after
	}
	return strings.HasSuffix(s, parts[last])
}
