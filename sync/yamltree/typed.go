package yamltree

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Typed returns the tree of a mapping whose values a person has typed: their texts by the paths of their keys, such as
// search.where.z_score. A text has the kind that s has for its key, and ~ is nothing where s allows that. A key that
// takes a list has one, and a path without texts is a mapping. Messages name a key as names do, or by its path.
func (f *File) Typed(s *Schema, texts map[string][]string, names map[string]string) *Node {
	root := &Node{Kind: Mapping, Line: 1, Column: 1, file: f}
	for i, path := range slices.Sorted(maps.Keys(texts)) {
		n, part := root, s
		for rest := path; rest != ""; {
			key, below, _ := strings.Cut(rest, ".")
			if part.takesAny() {
				key, below = rest, ""
			}
			n, part, rest = n.addValue(key, i+1), cmp.Or(part.Get(key), &Schema{}), below
		}
		if name := names[path]; name != "" {
			n.path, n.Key.path = name, name
		}
		part.setTexts(n, texts[path])
	}
	return root
}

// takesAny reports whether a mapping may have keys of any name.
func (s *Schema) takesAny() bool { return s.Others != nil && !s.Others.closed }

// addValue returns the value of a key of a mapping, which becomes an empty mapping if it is new.
func (n *Node) addValue(key string, column int) *Node {
	if known := n.Get(key); known != nil {
		return known
	}
	path := addKey(n.path, key)
	name := &Node{Kind: Text, Raw: key, Text: key, Line: 1, Column: column, path: path, file: n.file}
	value := &Node{Kind: Mapping, Line: 1, Column: column, Key: name, path: path, file: n.file}
	n.Entries = append(n.Entries, Entry{name, value})
	return value
}

// setTexts makes n the list or the scalar of the texts that were typed for its key, which s describes.
func (s *Schema) setTexts(n *Node, texts []string) {
	switch isNull := len(texts) == 1 && texts[0] == "~" && s.Allows(Null); {
	case len(texts) == 0:
	case len(texts) == 1 && (isNull || !s.Allows(List)):
		n.Raw, n.Text, n.Kind = texts[0], texts[0], Text
		if kind := KindOf(n.Text); isNull || kind != Null && s.Allows(kind) {
			n.Kind, n.plain = kind, true
		}
	default:
		n.Kind = List
		for _, text := range texts {
			item := &Node{Line: n.Line, Column: n.Column, path: n.path, file: n.file}
			cmp.Or(s.Items, &Schema{}).setTexts(item, []string{text})
			n.Items = append(n.Items, item)
		}
	}
}
