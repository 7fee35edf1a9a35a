package job

import (
	"fmt"
	"iter"
	"regexp"
)

// kind is what a YAML value is, in the words of a mistake.
type kind string

const (
	null    kind = "nothing"
	boolean kind = "true or false"
	whole   kind = "a whole number"
	number  kind = "a number" // any other spelling of one: 1.5, 1e9, 0x10, 1_000
	text    kind = "text"
	list    kind = "a list"
	mapping kind = "a mapping"
	blank   kind = "a template" // a text with ${name} that a job's for_each fills in
)

// path names a node: "jobs.coffee.search". Members of a list have the list's path.
type path string

func (p path) key(k string) path {
	if p == "" {
		return path(k)
	}
	return p + "." + path(k)
}

// said is the path as a message begins with it.
func (p path) said() string {
	if p == "" {
		return ""
	}
	return string(p) + ": "
}

// A node is one value of the file. Methods work on a nil node, which is an absent
// value, so that a chain of keys needs no checks in between.
type node struct {
	kind         kind
	raw          string   // of a scalar as written, ${…} and all: the only form that messages show
	text         string   // of a scalar with ${…} filled in
	plain        bool     // a scalar without quotes, whose kind follows from its text
	pattern      string   // of a template: its text in the form of [fill]
	names        []string // of a template: what it wants to be filled in, in order
	trouble      string   // why ${…} could not be filled in; of a template: should no for_each do it
	path         path
	line, column int
	head         *node   // the key that it is the value of; nil for the root and for members of a list
	entries      []entry // of a mapping, in the order of the file
	items        []*node // of a list
	from         *source // the text that it stands in

	taken bool // a template was read by somebody who fills it in
	wrong bool // a mistake has been reported: nobody need look at the value
	dead  bool // wrong, with all that is below: the key is not one that is read
}

type entry struct{ key, value *node }

// get is the value of a key of a mapping, or nil.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for _, e := range n.entries {
		if e.key.text == key {
			return e.value
		}
	}
	return nil
}

// children are the values of a mapping or the members of a list.
func (n *node) children() iter.Seq[*node] {
	return func(yield func(*node) bool) {
		for _, e := range n.entries {
			if !yield(e.value) {
				return
			}
		}
		for _, item := range n.items {
			if !yield(item) {
				return
			}
		}
	}
}

// handle is what to point at when something about n as a whole is wrong, or when
// something is missing in it: its key, or itself if it has none.
func (n *node) handle() *node {
	if n.head != nil {
		return n.head
	}
	return n
}

// has reports whether n holds a value of one of the kinds that may be used.
func (n *node) has(kinds ...kind) bool {
	if n == nil || n.wrong {
		return false
	}
	for _, k := range kinds {
		if n.kind == k {
			return true
		}
	}
	return false
}

// filled reports whether the value came from outside the file, in whole or in part,
// and so must not be shown.
func (n *node) filled() bool { return n.raw != n.text }

// shown describes the value for a message: quoted if the file quotes it.
func (n *node) shown() string {
	switch n.kind {
	case null, list, mapping:
		return string(n.kind)
	}
	raw := clip(n.raw, 60)
	if n.plain && !n.filled() && n.kind != text {
		return raw
	}
	return fmt.Sprintf("%q", raw)
}

var (
	wholeNumber = regexp.MustCompile(`^[-+]?[0-9]+$`)
	otherNumber = regexp.MustCompile(`^[-+]?(?:0x[0-9a-fA-F]+|0o[0-7]+|[0-9][0-9_]*|(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)$`)
)

// kindOf is what a word without quotes is (YAML 1.2, core schema). Only whole numbers
// in digits count as such; other spellings are told apart to be refused with words.
func kindOf(word string) kind {
	switch word {
	case "", "~", "null", "Null", "NULL":
		return null
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return boolean
	}
	switch {
	case wholeNumber.MatchString(word):
		return whole
	case otherNumber.MatchString(word):
		return number
	}
	return text
}
