package simulator

import (
	"net/url"
	"slices"
	"strings"

	"outlierd/outlier"
)

// isList reports whether a query parameter may have several values.
func isList(name string) bool {
	isThis := func(p outlier.Param) bool { return p.Name == name && p.Form == outlier.Texts }
	return slices.ContainsFunc(outlier.Operations(), func(o outlier.Operation) bool {
		return slices.ContainsFunc(o.Params(), isThis)
	})
}

// readQuery reads a query string. How lists are encoded is not shown by the
// interface (Common filters); whatever the reading, a key may be repeated.
func readQuery(raw string, lists outlier.Arrays) (url.Values, error) {
	if lists == outlier.ArraysComma {
		raw = splitLists(raw)
	}
	p, err := url.ParseQuery(raw)
	if lists == outlier.ArraysBracket {
		for key, values := range p {
			if name, ok := strings.CutSuffix(key, "[]"); ok && isList(name) {
				p[name] = append(p[name], values...)
				delete(p, key)
			}
		}
	}
	return p, err
}

// splitLists repeats the key for each element between commas. It looks at what is
// still encoded, where a comma that belongs to an element is %2C.
func splitLists(raw string) string {
	var pairs []string
	for pair := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if !isList(name) {
			pairs = append(pairs, pair)
			continue
		}
		for element := range strings.SplitSeq(value, ",") {
			pairs = append(pairs, name+"="+element)
		}
	}
	return strings.Join(pairs, "&")
}
