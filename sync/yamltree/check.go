package yamltree

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Check checks a tree against the schema, expands its ${…}, and sets the values of scalars. It marks invalid values as
// wrong, so that later steps do not report them again. Below unknown keys it looks at nothing.
func (s *Schema) Check(root *Node, v Variables) {
	if root != nil {
		(&checker{Variables: v}).checkNode(root, s)
	}
}

// checker reports the mistakes of a tree, at most one for each node.
type checker struct {
	Variables
	around []mapping // around the node that is checked
}

type mapping struct {
	*Node
	schema *Schema
}

// takes reports whether a mapping may have a key beside those that it has.
func (m mapping) takes(key string) bool {
	choices := m.schema.Choices()
	chosen, _ := m.Choice(choices)
	return m.schema.Has(key) && (chosen == nil || !slices.Contains(choices, key))
}

func (c *checker) checkNode(n *Node, s *Schema) {
	if s.Unused {
		n.Head().Warn("", "has no effect yet")
	}
	switch {
	case n.Wrong || !c.expandNode(n, s): // already reported, or the value is not known
	case len(s.Types) > 0 && !s.Allows(n.Kind):
		n.mustBe(s.Title, s.hintFor(n))
	case s.Const != nil && parseWhole(n.Text) != *s.Const:
		n.mustBe(s.Title, "")
	case s.Enum != nil && n.Kind != Null && !slices.Contains(s.words(), n.Text):
		n.mustBe(s.Title, n.DidYouMean(n.Text, s.words()))
	case n.Kind == Mapping:
		c.checkMapping(n, s)
	case n.Kind == List:
		c.checkList(n, s)
	case n.Kind == Text && utf8.RuneCountInString(n.Text) < s.MinLength:
		n.mustNotBeEmpty(s.Title)
	case n.Kind == Text && !s.fits(n.Text):
		n.mustBe(s.Title, s.hintFor(n))
	case n.Kind == Whole && s.exceededBound(n.Text) != "":
		n.mustBe(s.exceededBound(n.Text), "")
	case n.Kind == Text && s.Section != "" && c.Names != nil && c.Names.Get(s.Section).Get(n.Text) == nil:
		n.mustBe(s.Title, n.DidYouMean(n.Text, c.Names.Get(s.Section).Keys()))
	case n.Kind != Null:
		n.Value = s.valueOf(n)
	}
}

// expandNode expands the ${…} of a scalar, and reports whether it has a value to check now. A template has none.
func (c *checker) expandNode(n *Node, s *Schema) bool {
	if c.Env == nil || !strings.Contains(n.Raw, "${") {
		return true
	}
	text, names, err := c.fillKnown(n.At().File, n.Raw)
	if len(names) > 0 && err == nil {
		err = NotSet(names[0])
	}
	n.Names = names
	isFilled := slices.ContainsFunc(c.around, func(m mapping) bool { return m.schema.Filled })
	why, mayMiss := c.Optional[n.path]
	switch {
	case err == nil:
		n.Text = Fill(text, nil)
		// Within { } a variable must be quoted, so a quoted text has the kind that s wants.
		if kind := KindOf(n.Text); kind != Null && (n.plain || kind != Text && s.Allows(kind)) {
			n.Kind = kind
		}
		return true
	case len(names) > 0 && isFilled && s.Filled && s.Allows(Template):
		n.Kind, n.Pattern = Template, text
	case s.Secret && errors.Is(err, ErrNotRun):
		n.Wrong = true
	case mayMiss && !errors.Is(err, ErrNotRun):
		n.Warn("", "%v; %s", err, why)
		n.Wrong = true
	case s.Secret:
		n.Refuse("%v", withoutDefault(err))
	case len(names) > 0 && isFilled:
		n.Refuse("${%s} has no value: for_each fills in only texts such as query and title_pattern, and %v", names[0], err)
	default:
		n.Refuse("%v", err)
	}
	return false
}

func (c *checker) checkMapping(n *Node, s *Schema) {
	if len(n.Entries) < s.MinProperties {
		n.mustNotBeEmpty(s.Title)
		return
	}
	for _, key := range s.Required {
		if n.Get(key) == nil {
			n.Missing(key, s.SuggestKey(key))
		}
	}
	checkChoices(n, s)
	refuseOthers(n, s.Exclusive)
	c.around = append(c.around, mapping{n, s})
	defer func() { c.around = c.around[:len(c.around)-1] }()
	for _, e := range n.Entries {
		key := e.Key.Text
		switch part := s.Get(key); {
		case part != nil:
			c.checkNode(e.Value, part)
		case s.Others != nil && s.Others.closed:
			e.Value.Wrong = true
			e.Key.RefuseWithHint(c.adviseOnKey(key), "unknown key")
		case s.Others != nil:
			c.checkNode(e.Value, s.Others)
		}
		if needs := s.Needs[key]; needs != nil && len(n.with(needs)) == 0 {
			e.Key.Refuse("needs %s", strings.Join(needs, " or "))
		}
		if s.Names != nil && !s.Names.fits(key) {
			e.Key.Refuse("must be %s, got %q", s.Names.Title, key)
		}
	}
}

// checkChoices refuses all but one of the keys of which there must be one, and a mapping that has none of them. An
// unknown key is probably a misspelling of it.
func checkChoices(n *Node, s *Schema) {
	choices := s.Choices()
	refuseOthers(n, choices)
	isKnown := !slices.ContainsFunc(n.Entries, func(e Entry) bool { return !s.Has(e.Key.Text) })
	if len(choices) > 0 && len(n.with(choices)) == 0 && isKnown {
		n.Head().RefuseWithHint(s.SuggestKey(choices[0]), "must have one of %s", strings.Join(choices, ", "))
	}
}

// refuseOthers refuses all but the first of keys that exclude each other.
func refuseOthers(n *Node, choices []string) {
	present := n.with(choices)
	for _, e := range present[min(1, len(present)):] {
		e.Key.Refuse("cannot be combined with %s: write one of %s", present[0].Key.Text, strings.Join(choices, ", "))
	}
}

// with returns the entries of a mapping with one of the keys.
func (n *Node) with(keys []string) (all []Entry) {
	for _, e := range n.Entries {
		if slices.Contains(keys, e.Key.Text) {
			all = append(all, e)
		}
	}
	return all
}

func (c *checker) checkList(n *Node, s *Schema) {
	if len(n.Items) < s.MinItems {
		n.mustNotBeEmpty(s.Title)
	}
	if s.Items == nil {
		return
	}
	for _, item := range n.Items {
		c.checkNode(item, s.Items)
	}
}

// hintFor returns what to do about a value of the wrong type or form. A value that it suggests is valid.
func (s *Schema) hintFor(n *Node) string {
	wantsWhole := s.Allows(Whole) && !s.Allows(Number)
	switch {
	case wantsWhole && n.Kind == Number:
		return "write a whole number in digits"
	case wantsWhole && n.Kind == Text && KindOf(n.Text) == Whole && !n.FromOutside() && s.exceededBound(n.Text) == "":
		return "write it without quotes: " + n.Text
	}
	return ""
}

// adviseOnKey returns the remedy for a key that the innermost mapping must not have: where it belongs, or the known
// keys.
func (c *checker) adviseOnKey(key string) string {
	n := c.around[len(c.around)-1]
	for _, present := range []bool{true, false} {
		for depth := 1; depth <= maxAdvised; depth++ {
			paths := slices.DeleteFunc(n.schema.pathsTo(key, depth), func(path string) bool {
				first, _, _ := strings.Cut(path, ".")
				return present && n.Get(first) == nil
			})
			if len(paths) > 0 {
				return "it belongs under " + strings.Join(paths, " or ")
			}
		}
	}
	for i := len(c.around) - 2; i >= 0; i-- {
		if c.around[i].takes(key) {
			return "it belongs under " + cmp.Or(c.around[i].path, "the top of the file")
		}
	}
	known := n.schema.Keys()
	return cmp.Or(n.Get(key).Key.DidYouMean(key, known), "the keys here are "+strings.Join(known, ", "))
}

// maxAdvised is how deep below a mapping it is looked for where a key belongs.
const maxAdvised = 3

// pathsTo returns the paths of those mappings at a depth below s that may have a key.
func (s *Schema) pathsTo(key string, depth int) (paths []string) {
	for _, name := range s.Keys() {
		part := s.Get(name)
		if depth == 1 && part.Has(key) {
			paths = append(paths, name)
		}
		for _, deeper := range part.pathsTo(key, depth-1) {
			paths = append(paths, name+"."+deeper)
		}
	}
	return paths
}

func (n *Node) mustBe(wants, hint string) {
	n.RefuseWithHint(hint, "must be %s, got %s", wants, n.Shown())
}

func (n *Node) mustNotBeEmpty(wants string) { n.Refuse("is empty, must be %s", wants) }

// parseWhole returns the value of a whole number in digits, or the nearest int.
func parseWhole(text string) int {
	x, _ := strconv.Atoi(text)
	return x
}
