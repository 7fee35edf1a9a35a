package job

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"outlierd/outlier"
)

// snake is the file's name of a parameter of the interface: viewCount is view_count.
func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// camel is the interface's name of what the file calls view_count: viewCount.
func camel(name string) string {
	first, rest, _ := strings.Cut(name, "_")
	for part := range strings.SplitSeq(rest, "_") {
		if part != "" {
			first += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return first
}

// Filters are the keys that a `where` of an operation may have, in the order of the
// interface; none for an operation without filters.
func Filters(op outlier.Operation) (keys []string) {
	for _, f := range (&template{Op: op}).fields() {
		if !slices.Contains(subjects, f.Name) && !slices.Contains(ordering, f.Name) {
			keys = append(keys, snake(f.Name))
		}
	}
	return keys
}

// ordering are the parameters that stand beside `where` and choose the order.
var ordering = []string{"seed", "sortBy", "sortOrder", "by"}

// filters remembers the named filters and checks them, also those that nobody uses.
func (b *builder) filters(n *node) {
	if !n.has(mapping) {
		return
	}
	for _, e := range n.entries {
		b.named[e.key.text] = e.value
	}
	for _, e := range n.entries {
		a := asker{builder: b, template: b.newTemplate(outlier.OpSearch), free: true}
		a.fields(nil, e.value)
	}
}

// merge is what a where comes to: what `use` brings, the later filter over the
// earlier, and over all of it the where's own keys. ~ takes away what was brought.
// Each where is merged once: filters that use each other twice would double the work
// at every step.
func (b *builder) merge(n *node) map[string]*node {
	if !n.has(mapping) {
		return nil
	}
	if done, ok := b.merged[n]; ok {
		return done
	}
	values := map[string]*node{}
	for _, name := range n.get("use").members() {
		maps.Copy(values, b.used(name))
	}
	for _, e := range n.entries {
		switch {
		case e.key.text == "use":
		case !e.value.has(null):
			values[e.key.text] = e.value
		case values[e.key.text] == nil:
			b.refuse(e.value, "nothing is here to be removed, as `use` brings no %s", e.key.text)
		default:
			delete(values, e.key.text)
		}
	}
	b.merged[n] = values
	return values
}

// used is what the filter that name names comes to.
func (b *builder) used(name *node) map[string]*node {
	if !name.has(text, whole, number) {
		return nil
	}
	filter := b.named[name.text]
	switch {
	case filter == nil:
		known := slices.Sorted(maps.Keys(b.named))
		b.refuseWithHint(name, didYouMean(name, Nearest(name.text, known)), "there is no filter %s", name.shown())
		return nil
	case slices.Contains(b.open, name.text):
		b.refuseWithHint(name, "leave use out of one of them",
			"the filters %s use each other in a circle", strings.Join(append(b.open, name.text), " → "))
		return nil
	}
	b.open = append(b.open, name.text)
	defer func() { b.open = b.open[:len(b.open)-1] }()
	return b.merge(filter)
}

// members are the items of a list, or the one value that stands in place of a list.
func (n *node) members() []*node {
	switch {
	case n.has(list):
		return n.items
	case n.has(text, whole, number, blank):
		return []*node{n}
	}
	return nil
}

// asRange says how a number is written where a range is meant: as whichever ends the
// interface lets it be.
func asRange(n *node) string {
	if !n.has(whole, number) || n.filled() {
		return ""
	}
	var forms []string
	for _, form := range []struct{ text, means string }{{n.raw + "..", "at least"}, {".." + n.raw, "at most"}} {
		if takesRange(n.head.text, form.text) {
			forms = append(forms, form.text+" for "+form.means)
		}
	}
	if forms == nil {
		return ""
	}
	return "write " + strings.Join(forms, " and ")
}

// takesRange reports whether the filter of that name may have such a range, be it of
// videos or of channels.
func takesRange(name, text string) bool {
	for _, op := range []outlier.Operation{outlier.OpSearch, outlier.OpFindChannels} {
		for _, f := range (&template{Op: op}).fields() {
			if snake(f.Name) == name {
				return readRange(f, text) == nil && len(f.Check()) == 0
			}
		}
	}
	return false
}

// readRange reads text into a field that is a range of numbers.
func readRange(f outlier.Field, text string) (err error) {
	switch v := f.Value.(type) {
	case *outlier.Range[int64]:
		*v, err = parseRange(text, parseInteger, parseInteger)
	case *outlier.Range[float64]:
		*v, err = parseRange(text, parseNumber, parseNumber)
	}
	return err
}

// Conditions are canonical parameters in the words of the file: "z_score 2..",
// "language en, de". Of a range each end may be missing.
func Conditions(params url.Values) (words []string) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		value := strings.Join(params[name], ", ")
		if stem, isTo := strings.CutSuffix(name, "To"); isTo {
			if !params.Has(stem + "From") {
				words = append(words, snake(stem)+" .."+value)
			}
			continue
		}
		if stem, isFrom := strings.CutSuffix(name, "From"); isFrom {
			name, value = stem, value+".."+params.Get(stem+"To")
		}
		words = append(words, snake(name)+" "+value)
	}
	return words
}
