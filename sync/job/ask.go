package job

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"outlierd/outlier"
	"outlierd/sync/yamltree"
)

// An asker reads the request of one verb into a template.
type asker struct {
	b     *builder
	ask   *template
	loops []string // the names of for_each
	free  bool     // for a filter, whose templates are expanded where it is used
}

// readFields reads the parameters of the request, each from the verb's mapping or from its where.
func (a *asker) readFields(verb, where *yamltree.Node) {
	a.b.mergeFilters(where, nil)
	for _, f := range a.ask.fields() {
		name := snakeCase(f.Name)
		a.assignParam(f, cmp.Or(verb.Get(name), where.Get(name)))
	}
}

// assignParam reads n into the parameter f of a request and checks it by the rules of the interface.
func (a *asker) assignParam(f outlier.Param, n *yamltree.Node) {
	if n == nil || n.Wrong || n.Kind == yamltree.Null {
		return
	}
	var err error
	switch f.Form {
	case outlier.Text, outlier.Texts:
		a.readTexts(f.Name, n)
		return
	case outlier.Flag:
		a.ask.Params.Set(f.Name, strconv.FormatBool(valueOf[bool](n)))
	case outlier.Instants:
		err = a.readDates(f, n)
	default:
		err = a.setRange(f, n.Text)
	}
	if err != nil {
		n.RefuseQuoting(err.Error())
		return
	}
	a.checkParam(f, n)
}

// checkParam reports the interface's objections to the value of f.
func (a *asker) checkParam(f outlier.Param, n *yamltree.Node) {
	for _, e := range f.Check(a.ask.Params) {
		end := strings.TrimPrefix(e.Path, f.Name)
		words := map[string]string{"": "", "From": "the lower end ", "To": "the upper end "}[end] + e.Message
		n.RefuseQuoting(strings.ReplaceAll(words, f.Name+"To", "the upper end"))
	}
}

// readDates reads published_at: a range of dates, or a window such as "last 30d", which stays in the template
// until the time of the run is known.
func (a *asker) readDates(f outlier.Param, n *yamltree.Node) (err error) {
	words := strings.Join(strings.Fields(n.Text), " ")
	if strings.Contains(words, "..") {
		return a.setRange(f, words)
	}
	a.ask.Window, err = parseWindow(words)
	return err
}

// setRange sets the ends of a range that are present: "a..b", "a.." or "..b".
func (a *asker) setRange(f outlier.Param, text string) error {
	low, high, found := strings.Cut(text, "..")
	if !found || low+high == "" {
		return fmt.Errorf("%q is not a range; write a..b, a.. or ..b", text)
	}
	for i, end := range []string{low, high} {
		if end == "" {
			continue
		}
		sent, err := a.parseEnd(f.Form, end, i)
		if err != nil {
			return err
		}
		a.ask.Params.Set(f.Names()[i], sent)
	}
	return nil
}

// parseEnd returns an end of a range as it is sent. A date means its first moment as the lower end, and its last second
// as the upper one, for which days is 1: both days are included.
func (a *asker) parseEnd(form outlier.Form, text string, days int) (string, error) {
	switch form {
	case outlier.Integers:
		n, err := parseInteger(text)
		return outlier.Integer(n), err
	case outlier.Numbers:
		x, err := parseNumber(text)
		return outlier.Number(x), err
	}
	t, err := parseInstant(text, days, a.b.cfg.Timezone)
	return outlier.Instant(t), err
}

// readTexts reads one or more texts. If a file or SQL supplies them, it stores that in the template instead: they
// are read and checked when the job runs.
func (a *asker) readTexts(name string, n *yamltree.Node) {
	source, members := readSource(a.b.cfg, a.b.root, n)
	as := ""
	if n.Has(yamltree.Mapping) {
		as = "used as " + snakeCase(name) + ": "
	}
	for _, member := range members {
		a.addPattern(name, member, as)
	}
	if source.File != "" || source.SQL != "" {
		a.ask.From[name] = source
	}
}

// addPattern adds one text of the file as a pattern, unless it is invalid here. A known text is checked at once, and
// one with templates once all of the job is known; as says what a borrowed text is used for.
func (a *asker) addPattern(name string, n *yamltree.Node, as string) {
	switch {
	case n.Has(yamltree.Template):
		if strings.Count(n.Raw, "${") > len(n.Names) {
			a.ask.hidden = append(a.ask.hidden, n.Pattern)
		}
		if a.free || a.knowsNames(n) {
			a.ask.Params.Add(name, n.Pattern)
		}
	case n.Has(yamltree.Text, yamltree.Whole, yamltree.Number, yamltree.Boolean):
		accepted, err := a.ask.acceptText(name, n.Text)
		if err != nil {
			n.RefuseQuoting(as + err.Error())
			return
		}
		a.ask.Params.Add(name, yamltree.Escape(accepted))
	}
}

// knowsNames reports whether the job's for_each has every name that n refers to.
func (a *asker) knowsNames(n *yamltree.Node) bool {
	for _, name := range n.Names {
		if !slices.Contains(a.loops, name) {
			n.RefuseWithHint(didYouMeanName(name, a.loops),
				"${%s} has no value: no for_each names it, and %s", name, yamltree.NotSet(name))
			return false
		}
	}
	return true
}

func didYouMeanName(name string, known []string) string {
	if word := yamltree.Nearest(name, known); word != "" {
		return "did you mean ${" + word + "}?"
	}
	return ""
}
