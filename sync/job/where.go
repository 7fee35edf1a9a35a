package job

import (
	"maps"
	"slices"
	"strings"
	"time"
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

// filters remembers the named filters and checks them, also those that nobody uses.
func (b *builder) filters(n *node) {
	if !n.has(mapping) {
		return
	}
	for _, e := range n.entries {
		b.named[e.key.text] = e.value
	}
	for _, e := range n.entries {
		b.where(new(search), e.value)
	}
}

// where sets the filters of a search.
func (b *builder) where(s *search, n *node) {
	values := b.merge(n)
	for _, f := range s.Template.Fields() {
		if v := values[snake(f.Name)]; v != nil {
			b.assign(s, f, v)
		}
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
		b.refuseWithHint(name, didYouMean(name, nearest(name.text, known)), "there is no filter %s", name.shown())
		return nil
	case slices.Contains(b.open, name.text):
		b.refuse(name, "the filters %s use each other in a circle", strings.Join(append(b.open, name.text), " → "))
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
	case n.has(text, whole, number):
		return []*node{n}
	}
	return nil
}

// assign reads n into the field f of a search, and holds it to the rule of the
// interface.
func (b *builder) assign(s *search, f outlier.Field, n *node) {
	if !n.has(text, whole, number, boolean, list, mapping) {
		return
	}
	var err error
	switch v := f.Value.(type) {
	case *string:
		*v = n.text
	case *[]string:
		*v = b.texts(f, n)
		return
	case **bool:
		*v = new(strings.EqualFold(n.text, "true"))
	case *outlier.Range[int64]:
		*v, err = parseRange(n.text, parseInteger, parseInteger)
	case *outlier.Range[float64]:
		*v, err = parseRange(n.text, parseNumber, parseNumber)
	case *outlier.Range[time.Time]:
		*v, err = b.dates(s, n)
	}
	if err != nil {
		b.foreign(n, err.Error())
		return
	}
	b.check(f, n, "")
}

// check reports what the interface has against the value of f. If n belongs to a list
// that f borrows, as says what it is used for.
func (b *builder) check(f outlier.Field, n *node, as string) {
	for _, e := range f.Check() {
		end := strings.TrimPrefix(e.Path, f.Name)
		words := map[string]string{"": "", "From": "the lower end ", "To": "the upper end "}[end] + e.Message
		b.foreign(n, as+strings.ReplaceAll(words, f.Name+"To", "the upper end"))
	}
}

// texts reads a list of texts: one text, several, or {list: name}. Each is checked by
// itself, so that a mistake is reported where it stands.
func (b *builder) texts(f outlier.Field, n *node) []string {
	members, as := n.members(), ""
	if n.has(mapping) {
		members, as = b.list(n.get("list")), "as "+snake(f.Name)+" it "
	}
	var texts []string
	for _, member := range members {
		if !member.has(text, whole, number) {
			continue
		}
		one := f
		one.Value = &[]string{member.text}
		b.check(one, member, as)
		texts = append(texts, member.text)
	}
	return texts
}

// list is the list that name names.
func (b *builder) list(name *node) []*node {
	if !name.has(text) {
		return nil
	}
	lists := b.root.get("lists")
	if found := lists.get(name.text); found != nil {
		return found.members()
	}
	var known []string
	if lists != nil {
		for _, e := range lists.entries {
			known = append(known, e.key.text)
		}
	}
	b.refuseWithHint(name, didYouMean(name, nearest(name.text, known)), "there is no list %s", name.shown())
	return nil
}

// dates reads published_at: a range of dates, or a window in words, which is kept in
// the search until it is known what time it is.
func (b *builder) dates(s *search, n *node) (r outlier.Range[time.Time], err error) {
	switch words := strings.Join(strings.Fields(n.text), " "); {
	case strings.Contains(words, ".."):
		from, to := instants(b.cfg.Timezone)
		return parseRange(words, from, to)
	case strings.HasPrefix(words, "since "):
		b.refuse(n, "windows that begin with since are not supported yet")
	default:
		s.Published, err = parseWindow(words)
		s.Published.Zone = b.cfg.Timezone
	}
	return r, err
}
