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
	for _, e := range n.Pairs() {
		b.mergeFilters(e.Value, []string{e.Key.Text})
		a := asker{b: b, ask: newTemplate(b.cfg, outlier.OpSearch), free: true}
		a.readFields(nil, e.Value)
	}
}

// mergeFilters replaces a where by its meaning: the filters in `use`, of which later ones override earlier ones,
// overridden by the where's own keys. ~ removes a key of `use`. path has the names of the filters that led to it.
func (b *builder) mergeFilters(where *yamltree.Node, path []string) {
	if !where.Has(yamltree.Mapping) {
		return
	}
	own, used := where.Entries, where.Get("use").Members()
	where.Entries = nil
	remove := func(key *yamltree.Node) {
		where.Entries = slices.DeleteFunc(where.Entries, func(e yamltree.Entry) bool { return e.Key.Text == key.Text })
	}
	for _, name := range used {
		for _, e := range b.usedFilter(name, path) {
			remove(e.Key)
			where.Entries = append(where.Entries, e)
		}
	}
	for _, e := range own {
		switch isNull := e.Value.Has(yamltree.Null); {
		case e.Key.Text == "use":
		case isNull && where.Get(e.Key.Text) == nil:
			e.Value.Refuse("~ has nothing to remove: `use` includes no %s", e.Key.Text)
		default:
			if remove(e.Key); !isNull {
				where.Entries = append(where.Entries, e)
			}
		}
	}
}

// usedFilter returns the meaning of the named filter.
func (b *builder) usedFilter(name *yamltree.Node, path []string) []yamltree.Entry {
	filter := b.root.Get("filters").Get(name.Text)
	switch path := append(path, name.Text); {
	case name.Wrong || filter == nil: // refused by the schema
	case slices.Contains(path[:len(path)-1], name.Text):
		name.RefuseWithHint("remove use from one of them",
			"the filters %s use each other in a cycle", strings.Join(path, " → "))
	default:
		b.mergeFilters(filter, path)
		return filter.Entries
	}
	return nil
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
