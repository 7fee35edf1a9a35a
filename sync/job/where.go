package job

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"outlierd/outlier"
	"outlierd/sync/yamltree"
)

// snakeCase returns the file's name of a parameter of the interface: view_count for viewCount.
func snakeCase(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// camelCase returns the interface's name of a parameter of the file: viewCount for view_count.
func camelCase(name string) string {
	first, rest, _ := strings.Cut(name, "_")
	for part := range strings.SplitSeq(rest, "_") {
		if part != "" {
			first += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return first
}

// Filters returns the keys that a `where` of an operation may have, in the order of the interface; none
// for an operation without filters.
func Filters(op outlier.Operation) (keys []string) {
	for _, f := range (&template{Op: op}).fields() {
		if f.Role == outlier.Filter {
			keys = append(keys, snakeCase(f.Name))
		}
	}
	return keys
}

// readFilters checks the named filters, even unused ones.
func (b *builder) readFilters(n *yamltree.Node) {
	if !n.Has(yamltree.Mapping) {
		return
	}
	for _, e := range n.Entries {
		a := asker{b: b, ask: newTemplate(b.cfg, outlier.OpSearch), free: true}
		a.readFields(nil, e.Value)
	}
}

// mergeFilters returns the result of a where: the filters in `use`, of which later ones override earlier ones,
// overridden by the where's own keys. ~ removes a key of `use`. The result is cached, because filters
// that use each other twice would double the work at every level.
func (b *builder) mergeFilters(n *yamltree.Node) map[string]*yamltree.Node {
	if !n.Has(yamltree.Mapping) {
		return nil
	}
	if done, ok := b.merged[n]; ok {
		return done
	}
	values := map[string]*yamltree.Node{}
	for _, name := range n.Get("use").Members() {
		maps.Copy(values, b.usedFilter(name))
	}
	for _, e := range n.Entries {
		switch {
		case e.Key.Text == "use":
		case !e.Value.Has(yamltree.Null):
			values[e.Key.Text] = e.Value
		case values[e.Key.Text] == nil:
			e.Value.Refuse("~ has nothing to remove: `use` includes no %s", e.Key.Text)
		default:
			delete(values, e.Key.Text)
		}
	}
	b.merged[n] = values
	return values
}

// usedFilter returns the result of the named filter.
func (b *builder) usedFilter(name *yamltree.Node) map[string]*yamltree.Node {
	if !name.Has(yamltree.Text, yamltree.Whole, yamltree.Number) {
		return nil
	}
	filters := b.root.Get("filters")
	filter := filters.Get(name.Text)
	switch {
	case filter == nil:
		name.RefuseWithHint(name.DidYouMean(name.Text, filters.Keys()), "there is no filter %s", name.Shown())
		return nil
	case slices.Contains(b.open, name.Text):
		name.RefuseWithHint("remove use from one of them",
			"the filters %s use each other in a cycle", strings.Join(append(b.open, name.Text), " → "))
		return nil
	}
	b.open = append(b.open, name.Text)
	defer func() { b.open = b.open[:len(b.open)-1] }()
	return b.mergeFilters(filter)
}

// readRange parses text into a parameter that is a range of numbers.
func readRange(params url.Values, f outlier.Param, text string) error {
	switch f.Form {
	case outlier.Integers:
		r, err := parseRange(text, parseInteger, parseInteger)
		putRange(params, f, r, outlier.Integer)
		return err
	case outlier.Numbers:
		r, err := parseRange(text, parseNumber, parseNumber)
		putRange(params, f, r, outlier.Number)
		return err
	}
	return nil
}

// putRange sets the ends of a range that are present.
func putRange[T any](params url.Values, f outlier.Param, r span[T], format func(T) string) {
	for i, end := range []*T{r.From, r.To} {
		if end != nil {
			params.Set(f.Names()[i], format(*end))
		}
	}
}

// Conditions returns canonical parameters in the words of the file: "z_score 2..", "language en, de". A
// range may lack either end.
func Conditions(params url.Values) (words []string) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		value := strings.Join(params[name], ", ")
		if stem, isTo := strings.CutSuffix(name, "To"); isTo {
			if !params.Has(stem + "From") {
				words = append(words, snakeCase(stem)+" .."+value)
			}
			continue
		}
		if stem, isFrom := strings.CutSuffix(name, "From"); isFrom {
			name, value = stem, value+".."+params.Get(stem+"To")
		}
		words = append(words, snakeCase(name)+" "+value)
	}
	return words
}

// FiltersAndSort returns the filters, "z_score 2.." and "language en, de", and the order, "z_score desc", of a
// search in the words of the file, without the window of publication. How it matches and the seed of a random order
// are among the filters.
func FiltersAndSort(query outlier.Query) (filters []string, sort string) {
	params, rest := query.Params(), query.Params()
	for _, p := range query.Op().Params() {
		if p.Role != outlier.Filter && p.Name != "by" && p.Name != "seed" || p.Name == "publishedAt" {
			maps.DeleteFunc(rest, func(name string, _ []string) bool { return slices.Contains(p.Names(), name) })
		}
	}
	if by := params.Get("sortBy"); by != "" {
		sort = strings.TrimSpace(snakeCase(by) + " " + params.Get("sortOrder"))
	}
	return Conditions(rest), sort
}
