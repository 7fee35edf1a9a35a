package yamltree

import (
	"slices"
	"strconv"
	"unicode/utf8"
)

// Advice returns hints that do not follow from the schema alone. Each function returns "" if it has none.
type Advice struct {
	Unknown func(n *Node, key string, s *Schema) string // for a key that n, which s describes, must not have
	Value   func(n *Node, s *Schema) string             // for a value of the wrong form
}

// Check checks a tree against the schema. It marks invalid values as wrong, so that later steps do not report
// them again. It also reports each ${…} that could not be expanded.
func (s *Schema) Check(root *Node, advice Advice) {
	checker{advice}.checkNode(root, s)
	root.reportUnexpanded()
}

// reportUnexpanded reports each ${…} that could not be expanded, except below unknown keys.
func (n *Node) reportUnexpanded() {
	switch {
	case n == nil || n.Ignored || n.Kind == Template:
	case n.Unfilled != "":
		n.Refuse("%s", n.Unfilled)
	default:
		for child := range n.Children() {
			child.reportUnexpanded()
		}
	}
}

// checker reports the mistakes of a tree, at most one for each node.
type checker struct{ advice Advice }

func (c checker) checkNode(n *Node, s *Schema) {
	switch {
	case n.NotRun && s.Secret:
		n.Unfilled, n.Wrong = "", true
		return
	case n.Wrong, n.Unfilled != "": // already reported, or the value is not known
		return
	case s.Not != nil:
		n.Wrong, n.Ignored = true, true
		n.Head().Refuse("not supported yet")
	case n.takeQuotedKind(s):
		c.checkNode(n, s)
		return
	case len(s.Types) > 0 && !s.allows(n.Kind):
		n.mustBe(s.Title, c.hintFor(n, s))
	case s.Const != nil && n.wholeNumber() != *s.Const:
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
		n.mustBe(s.Title, c.hintFor(n, s))
	case n.Kind == Whole && s.exceededBound(n) != "":
		n.mustBe(s.exceededBound(n), "")
	}
	for _, part := range s.AllOf {
		c.checkNode(n, part)
	}
}

// takeQuotedKind gives a quoted text from a variable the kind of its value, if s wants it, and reports whether it has
// done so: within { } a variable must be quoted.
func (n *Node) takeQuotedKind(s *Schema) bool {
	if n.Kind != Text || !n.FromOutside() || n.plain {
		return false
	}
	if kind := KindOf(n.Text); kind != Text && kind != Null && s.allows(kind) {
		n.Kind = kind
		return true
	}
	return false
}

func (c checker) checkMapping(n *Node, s *Schema) {
	if len(n.Entries) < s.MinProperties {
		n.mustNotBeEmpty(s.Title)
		return
	}
	for _, key := range s.Required {
		if n.Get(key) == nil {
			n.Missing(key, s.SuggestKey(key))
		}
	}
	for _, e := range n.Entries {
		key := e.Key.Text
		switch part := s.Get(key); {
		case part != nil:
			c.checkNode(e.Value, part)
		case s.Others.closed:
			e.Value.Wrong, e.Value.Ignored = true, true
			e.Key.RefuseWithHint(c.advice.Unknown(n, key, s), "unknown key")
		case s.Others.of != nil:
			c.checkNode(e.Value, s.Others.of)
		}
		if s.Names != nil && !s.Names.fits(key) {
			e.Key.Refuse("must be %s, got %q", s.Names.Title, key)
		}
	}
}

func (c checker) checkList(n *Node, s *Schema) {
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
func (c checker) hintFor(n *Node, s *Schema) string {
	wantsWhole := s.allows(Whole) && !s.allows(Number)
	switch {
	case wantsWhole && n.Kind == Number:
		return "write a whole number in digits"
	case wantsWhole && n.Kind == Text && KindOf(n.Text) == Whole && !n.FromOutside() && s.exceededBound(n) == "":
		return "write it without quotes: " + n.Text
	}
	return c.advice.Value(n, s)
}

func (n *Node) mustBe(wants, hint string) {
	n.RefuseWithHint(hint, "must be %s, got %s", wants, n.Shown())
}

func (n *Node) mustNotBeEmpty(wants string) { n.Refuse("is empty, must be %s", wants) }

// wholeNumber returns the value of a whole number in digits, or the nearest int.
func (n *Node) wholeNumber() int {
	x, _ := strconv.Atoi(n.Text)
	return x
}
