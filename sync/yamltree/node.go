package yamltree

import (
	"fmt"
	"iter"
	"regexp"
	"slices"

	"outlierd/internal/excerpt"
)

// Kind is the kind of a YAML value, in the words of messages.
type Kind string

// The kinds of values.
const (
	Null     Kind = "nothing"
	Boolean  Kind = "true or false"
	Whole    Kind = "a whole number"
	Number   Kind = "a number" // any other spelling of a number: 1.5, 1e9, 0x10, 1_000
	Text     Kind = "text"
	List     Kind = "a list"
	Mapping  Kind = "a mapping"
	Template Kind = "a template" // a text with ${name} that is expanded later; see [Fill]
)

// A Node is one value of the file. Its reading methods work on a nil node, which is an absent value, so a
// chain of keys needs no checks in between.
//
// The parser has a tree of its own, but that represents syntax: an alias that is used twice is two
// values, each with its own path, expanded text and mistakes. Merges, duplicate keys and keys that begin
// with x- are resolved while the tree of nodes is built, so its readers need not handle them.
type Node struct {
	Kind         Kind
	Raw          string // of a scalar as written, with ${…}: the only form that messages show
	Text         string // of a scalar with ${…} expanded
	Line, Column int

	Key     *Node   // the key whose value it is; nil for the root and for items of a list
	Entries []Entry // of a mapping, in the order of the file
	Items   []*Node // of a list

	Value   any      // of a scalar, once it is checked: what its form means, or a bool, an int or its text; or nil
	Pattern string   // of a template: its text in the form for [Fill]
	Names   []string // the names of ${…} that have no value, in order: those that a template is filled in with

	Wrong bool // a mistake was reported, or the key is unknown: the value must not be read

	path  string // in messages: "jobs.coffee.search"; items of a list have the path of the list
	plain bool   // a scalar without quotes, so its text determines its kind
	file  *File
}

// Entry is a key of a mapping with its value.
type Entry struct{ Key, Value *Node }

// addKey adds a key to the path of a mapping.
func addKey(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// At returns where n stands.
func (n *Node) At() Place { return Place{n.file.name, n.Line, n.Column} }

// Get returns the value of a key of a mapping, or nil.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	for _, e := range n.Entries {
		if e.Key.Text == key {
			return e.Value
		}
	}
	return nil
}

// Holds reports whether a value stands in the mapping n itself, rather than where n has got it from.
func (n *Node) Holds(value *Node) bool { return value.Key.path == addKey(n.path, value.Key.Text) }

// Choice returns the first of some keys that a mapping has, and its value; nil if it has none of them.
func (n *Node) Choice(keys []string) (key, value *Node) {
	if n == nil {
		return nil, nil
	}
	for _, e := range n.Entries {
		if slices.Contains(keys, e.Key.Text) {
			return e.Key, e.Value
		}
	}
	return nil, nil
}

// Keys returns the keys of a mapping, in the order of the file.
func (n *Node) Keys() []string {
	if n == nil {
		return nil
	}
	var names []string
	for _, e := range n.Entries {
		names = append(names, e.Key.Text)
	}
	return names
}

// Pairs returns the entries of a mapping that is not marked as wrong.
func (n *Node) Pairs() []Entry {
	if !n.Has(Mapping) {
		return nil
	}
	return n.Entries
}

// Mappings returns the [Node.Pairs] whose values are mappings, and not marked as wrong.
func (n *Node) Mappings() []Entry {
	return slices.DeleteFunc(slices.Clone(n.Pairs()), func(e Entry) bool { return !e.Value.Has(Mapping) })
}

// Children yields the values of a mapping or the items of a list.
func (n *Node) Children() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for _, e := range n.Entries {
			if !yield(e.Value) {
				return
			}
		}
		for _, item := range n.Items {
			if !yield(item) {
				return
			}
		}
	}
}

// Has reports whether n is a value of one of the kinds, and not marked as wrong.
func (n *Node) Has(kinds ...Kind) bool {
	return n != nil && !n.Wrong && slices.Contains(kinds, n.Kind)
}

// TextOr returns the text of a scalar, or otherwise if n is no scalar or marked as wrong.
func (n *Node) TextOr(otherwise string) string {
	if n.Has(Text, Whole, Number, Boolean) {
		return n.Text
	}
	return otherwise
}

// Members returns the items of a list, or the single scalar in place of a list.
func (n *Node) Members() []*Node {
	switch {
	case n.Has(List):
		return n.Items
	case n.Has(Text, Whole, Number, Boolean, Template):
		return []*Node{n}
	}
	return nil
}

// Head returns the node whose position is reported for a message about n as a whole, or about a key that
// n lacks: n's own key, or n if it has none.
func (n *Node) Head() *Node {
	if n.Key != nil {
		return n.Key
	}
	return n
}

// FromOutside reports whether the value, or a part of it, came from a variable or a file. Messages must
// not show such a value.
func (n *Node) FromOutside() bool { return n.Raw != n.Text }

// Shown returns the value for messages: as written, in quotes if it is text, and at most 60 characters of
// it.
func (n *Node) Shown() string {
	switch n.Kind {
	case Null, List, Mapping:
		return string(n.Kind)
	}
	raw := excerpt.Runes(n.Raw, 60)
	if n.plain && !n.FromOutside() && n.Kind != Text {
		return raw
	}
	return fmt.Sprintf("%q", raw)
}

var (
	wholeNumber = regexp.MustCompile(`^[-+]?[0-9]+$`)
	otherNumber = regexp.MustCompile(`^[-+]?(?:0x[0-9a-fA-F]+|0o[0-7]+|[0-9][0-9_]*|` +
		`(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)$`)
)

// KindOf returns the kind of a word without quotes (YAML 1.2, core schema). Only numbers in digits are
// whole numbers; other spellings are recognized so that they can be refused.
func KindOf(word string) Kind {
	switch word {
	case "", "~", "null", "Null", "NULL":
		return Null
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return Boolean
	}
	switch {
	case wholeNumber.MatchString(word):
		return Whole
	case otherNumber.MatchString(word):
		return Number
	}
	return Text
}
