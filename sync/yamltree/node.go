package yamltree

import (
	"fmt"
	"iter"
	"regexp"
	"slices"

	"outlierd/excerpt"
)

// Kind is what a YAML value is, in the words of a message.
type Kind string

// The kinds of values.
const (
	Null     Kind = "nothing"
	Boolean  Kind = "true or false"
	Whole    Kind = "a whole number"
	Number   Kind = "a number" // any other spelling of one: 1.5, 1e9, 0x10, 1_000
	Text     Kind = "text"
	List     Kind = "a list"
	Mapping  Kind = "a mapping"
	Template Kind = "a template" // a text with ${name} that is filled in later; see [Fill]
)

// A Node is one value of the file. Its methods that only read work on a nil node, which
// is an absent value, so that a chain of keys needs no checks in between.
//
// The parser has a tree of its own, but a value is more than its syntax: an alias that is
// used twice means two values, each with its own path, its own filled-in text and its own
// mistake. Merges, duplicate keys and keys that begin with x- are settled while the tree is
// built, so that nothing that reads it meets them.
type Node struct {
	Kind         Kind
	Raw          string // of a scalar as written, ${…} and all: the only form that messages show
	Text         string // of a scalar with ${…} filled in
	Line, Column int

	Key     *Node   // the key whose value it is; nil for the root and for members of a list
	Entries []Entry // of a mapping, in the order of the file
	Items   []*Node // of a list

	Pattern  string   // of a template: its text in the form that [Fill] takes
	Names    []string // of a template: the names that it has to be filled in with, in order
	Unfilled string   // why ${…} could not be filled in; of a template, if nothing fills it in later

	Used    bool // a template that is filled in later
	Wrong   bool // a mistake was reported: the value is not to be read
	Ignored bool // wrong with all that is below, as its key is unknown

	path  path
	plain bool // a scalar without quotes, whose kind follows from its text
	file  *File
}

// Entry is a key of a mapping with its value.
type Entry struct{ Key, Value *Node }

// path names a node: "jobs.coffee.search". Members of a list have the list's path.
type path string

func (p path) key(k string) path {
	if p == "" {
		return path(k)
	}
	return p + "." + path(k)
}

// prefix is the path as a message begins with it.
func (p path) prefix() string {
	if p == "" {
		return ""
	}
	return string(p) + ": "
}

// Scalar is a text that is written nowhere in the file. Its place is the beginning.
func (f *File) Scalar(word string) *Node {
	return &Node{Kind: Text, Raw: word, Text: word, Line: 1, Column: 1, file: f}
}

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

// Keys are the keys of a mapping, in the order of the file.
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

// Children are the values of a mapping or the members of a list.
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

// Has reports whether n holds a value of one of the kinds, and is not wrong.
func (n *Node) Has(kinds ...Kind) bool {
	return n != nil && !n.Wrong && slices.Contains(kinds, n.Kind)
}

// TextOr is the text of a scalar that is not wrong, or else otherwise.
func (n *Node) TextOr(otherwise string) string {
	if n.Has(Text, Whole, Number, Boolean) {
		return n.Text
	}
	return otherwise
}

// Members are the items of a list, or the one text or number in place of a list.
func (n *Node) Members() []*Node {
	switch {
	case n.Has(List):
		return n.Items
	case n.Has(Text, Whole, Number, Template):
		return []*Node{n}
	}
	return nil
}

// Scalars are the members of a list, or the one value in place of one, true and false
// included.
func (n *Node) Scalars() []*Node {
	if n.Has(Boolean) {
		return []*Node{n}
	}
	return n.Members()
}

// Head is what a message points at if it is about n as a whole, or about a key that n
// lacks: n's own key, or n if it has none.
func (n *Node) Head() *Node {
	if n.Key != nil {
		return n.Key
	}
	return n
}

// FromOutside reports whether a variable or a file gave the value, in whole or in part.
// Messages must not show such a value.
func (n *Node) FromOutside() bool { return n.Raw != n.Text }

// Shown returns the value as a message shows it: as written, quoted if it is text, and at
// most 60 characters of it.
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

// KindOf is what a word without quotes is (YAML 1.2, core schema). Only numbers in digits
// are whole numbers; other spellings are recognized so that they can be refused.
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
