package job

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"outlierd/outlier"
)

// An asker reads what one verb asks into a template.
type asker struct {
	*builder
	*template
	loops []loop // the for_each of the job
	free  bool   // for a filter, whose templates are filled in by whoever uses it
}

// A loop is a Loop together with its values and where they stand: in the job file, or by
// now in a file of their own. What SQL gives, a run will know.
type loop struct {
	Loop
	tried   []string
	members []*node
	said    bool // somewhere the job asks for ${name}
}

func (b *builder) newTemplate(op outlier.Operation) *template {
	return &template{Op: op, Params: url.Values{}, From: map[string]Source{}, arrays: b.cfg.Service.Arrays}
}

// fields reads the parameters of the request: each from the verb's own mapping or
// from its where, whichever has it.
func (a *asker) fields(verb, where *node) {
	filters := a.merge(where)
	fields := a.template.fields()
	for _, f := range fields {
		name := snake(f.Name)
		if v := verb.get(name); v != nil {
			a.assign(f, v)
		} else if v := filters[name]; v != nil {
			a.assign(f, v)
		}
	}
	maps.Copy(a.Params, outlier.Params(fields))
}

// assign reads n into the field f of a request, and holds it to the rule of the
// interface.
func (a *asker) assign(f outlier.Field, n *node) {
	if !n.has(text, whole, number, boolean, list, mapping, blank) {
		return
	}
	var err error
	switch v := f.Value.(type) {
	case *string:
		if patterns := a.patterns(f.Name, n, ""); len(patterns) > 0 {
			*v = patterns[0]
		}
		return
	case *[]string:
		*v = a.texts(f.Name, n)
		return
	}
	if n.kind == blank {
		return // what nobody takes is refused in the end
	}
	switch v := f.Value.(type) {
	case **bool:
		*v = new(strings.EqualFold(n.text, "true"))
	case *outlier.Range[time.Time]:
		*v, err = a.dates(n)
	default:
		err = readRange(f, n.text)
	}
	if err != nil {
		a.foreign(n, err.Error())
		return
	}
	a.check(f, n)
}

// check reports what the interface has against the value of f.
func (b *builder) check(f outlier.Field, n *node) {
	for _, e := range f.Check() {
		end := strings.TrimPrefix(e.Path, f.Name)
		words := map[string]string{"": "", "From": "the lower end ", "To": "the upper end "}[end] + e.Message
		b.foreign(n, strings.ReplaceAll(words, f.Name+"To", "the upper end"))
	}
}

// dates reads published_at: a range of dates, or a window in words, which is kept in
// the template until it is known what time it is.
func (a *asker) dates(n *node) (r outlier.Range[time.Time], err error) {
	words := strings.Join(strings.Fields(n.text), " ")
	if strings.Contains(words, "..") {
		from, to := instants(a.cfg.Timezone)
		return parseRange(words, from, to)
	}
	a.Window, err = parseWindow(words)
	a.Window.Zone = a.cfg.Timezone
	return r, err
}

// texts reads a list of texts. If a file or SQL gives them, they are noted in the
// template instead.
func (a *asker) texts(name string, n *node) []string {
	source, members := a.origin(n)
	as := ""
	if n.has(mapping) {
		as = "as " + snake(name) + " "
		if a.parser(name) == nil {
			as += "it " // an id is quoted by the words that follow
		}
	}
	var texts []string
	for _, member := range members {
		texts = append(texts, a.patterns(name, member, as)...)
	}
	switch {
	case source.File != "":
		a.lines(name, n.get("file"), source)
		a.From[name] = source
	case source.SQL != "":
		a.From[name] = source
	}
	return texts
}

// lines checks what a file holds by now. It is read again whenever the job runs.
func (a *asker) lines(name string, n *node, source Source) {
	for _, v := range a.readable(n, source) {
		if _, err := a.accept(name, v.text); err != nil {
			words := fmt.Sprintf("in line %d of %s: %v", v.line, n.shown(), err)
			if source.Field == "" && tabular(source.File) && !n.filled() {
				a.refuseWithHint(n, "name the column that has the values: {file: rivals.csv, column: channel}", "%s", words)
				return
			}
			a.foreign(n, words)
			return
		}
	}
}

// patterns is one text of the file in the form of a pattern, or nothing if it may not
// stand here. A text that is known is checked at once, one with templates for each of
// the values that are known; as says what a borrowed text is used for.
func (a *asker) patterns(name string, n *node, as string) []string {
	switch {
	case n.has(blank):
		n.taken = true
		if a.free || a.fits(n) && a.filled(name, n) {
			return []string{n.pattern}
		}
	case n.has(text, whole, number, boolean):
		accepted, err := a.accept(name, n.text)
		if err == nil {
			return []string{quote.Replace(accepted)}
		}
		a.foreign(n, as+err.Error())
	}
	return nil
}

// fits reports whether the job's for_each has every name that n wants filled in.
func (a *asker) fits(n *node) bool {
	var known []string
	for _, l := range a.loops {
		known = append(known, l.Name)
	}
	for _, name := range n.names {
		i := slices.Index(known, name)
		if i < 0 {
			a.refuseWithHint(n, didYouMeanName(name, known), "no for_each gives ${%s} a value, and %s", name, unset(name))
			return false
		}
		a.loops[i].said = true
	}
	return true
}

func didYouMeanName(name string, known []string) string {
	if word := Nearest(name, known); word != "" {
		return "did you mean ${" + word + "}?"
	}
	return ""
}

// filled tries a template with all values that are known, and reports the first one
// that does not fit.
func (a *asker) filled(name string, n *node) bool {
	var loops []loop
	var lists [][]string
	for _, l := range a.loops {
		if !slices.Contains(n.names, l.Name) {
			continue
		}
		if l.tried == nil {
			return true // a run will know
		}
		loops, lists = append(loops, l), append(lists, l.tried)
	}
	if product(lists) > MaxAsks {
		return true // the job is refused for that
	}
	for chosen := range combinations(lists) {
		var values []string
		for i, l := range loops {
			values = append(values, l.Name, chosen[i])
		}
		if _, err := a.accept(name, fill(n.pattern, values)); err != nil {
			a.unfit(n, loops, chosen, err)
			return false
		}
	}
	return true
}

// unfit reports a template that the chosen values make something wrong of. Values
// from outside the file are not shown.
func (a *asker) unfit(n *node, loops []loop, chosen []string, err error) {
	var with []string
	for i, l := range loops {
		value := l.members[slices.Index(l.tried, chosen[i])]
		with = append(with, l.Name+" = "+value.shown())
		if value.filled() {
			err = fmt.Errorf("the text is not valid here")
		}
	}
	if strings.Count(n.raw, "${") > len(n.names) {
		err = fmt.Errorf("the text is not valid here")
	}
	a.refuse(n, "with %s: %v", strings.Join(with, " and "), err)
}
