package yamltree

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"outlierd/internal/lazyregexp"
)

// A Schema is a JSON Schema (draft-07), or a part of one. It describes the shape of files: their keys, types
// and words.
//
// It has only keywords with which one mistake causes one error: no oneOf and no anyOf, but lists of types,
// and keywords that apply to one type each. Titles are part of messages: the title of a value completes the
// sentence "must be …".
//
// Some keywords are not of JSON Schema. Of these, x-change means nothing to [Schema.Check].
type Schema struct {
	Title   string          `json:"title"`
	Default json.RawMessage `json:"default"`   // of a scalar; nil for none
	Change  string          `json:"x-change"`  // what a change of the value means, in words of the caller
	Secret  bool            `json:"writeOnly"` // the value must not be shown
	Unused  bool            `json:"x-unused"`  // a warning says that the key has no effect yet
	Filled  bool            `json:"x-filled"`  // a text may be a [Template], if a mapping around it has this, too
	Form    string          `json:"x-form"`    // the name of one of the [Forms]
	Section string          `json:"x-names"`   // the value is a key in this section of [Variables.Names]

	Definitions map[string]*Schema `json:"definitions"`
	Ref         string             `json:"$ref"`  // of a part that is elsewhere; "" once the schema is parsed
	AllOf       []*Schema          `json:"allOf"` // a reference to what s is beside its default and examples; then none
	Examples    []json.RawMessage  `json:"examples"`

	Types texts     `json:"type"` // none if all are allowed
	Const *int      `json:"const"`
	Enum  []*string `json:"enum"` // nil for ~

	Required      []string           `json:"required"`
	OneOf         []required         `json:"oneOf"`       // keys of which a mapping has exactly one
	Exclusive     []string           `json:"x-exclusive"` // keys of which a mapping has at most one
	Needs         map[string]texts   `json:"x-needs"`     // for a key, others of which a mapping must have one
	Properties    map[string]*Schema `json:"properties"`
	Names         *Schema            `json:"propertyNames"`
	Others        *Schema            `json:"additionalProperties"` // of the values of other keys; nil for any
	MinProperties int                `json:"minProperties"`

	Items    *Schema `json:"items"`
	MinItems int     `json:"minItems"`

	MinLength int    `json:"minLength"` // in characters
	MaxLength int    `json:"maxLength"` // 0 is no limit
	Pattern   string `json:"pattern"`

	Minimum *int `json:"minimum"` // of whole numbers
	Maximum *int `json:"maximum"`

	closed  bool                     // it allows nothing: it is false in place of a schema
	parse   func(*Schema, *Node) any // of the form; nil without one
	pattern func() *regexp.Regexp    // compiled when it is used
}

// Forms return what scalars mean, by the names of their forms: the [Node.Value] of one that no other keyword refuses.
// They refuse one that means nothing, and return nil for it.
type Forms map[string]func(*Schema, *Node) any

// required has the one key of an alternative.
type required struct {
	Keys [1]string `json:"required"`
}

// texts are written as one text or as a list.
type texts []string

func (t *texts) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(t))
	}
	*t = texts{""}
	return json.Unmarshal(text, &(*t)[0])
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Schema) UnmarshalJSON(text []byte) error {
	if s.closed = string(text) == "false"; s.closed {
		return nil
	}
	type plain Schema // without this method
	return json.Unmarshal(text, (*plain)(s))
}

// MustParseSchema parses the text of a schema. It panics if the text is not a schema.
func MustParseSchema(text []byte, forms Forms) *Schema {
	root := &Schema{}
	if err := json.Unmarshal(text, root); err != nil {
		panic("yamltree: parse schema: " + err.Error())
	}
	return root.resolveRefs(root, forms)
}

// resolveRefs returns the part of root to which s refers, or s itself, with the references below it replaced.
func (s *Schema) resolveRefs(root *Schema, forms Forms) *Schema {
	switch {
	case s == nil:
		return nil
	case s.Ref != "":
		return root.partAt(s.Ref)
	}
	for len(s.AllOf) > 0 {
		whole := *root.partAt(s.AllOf[0].Ref)
		whole.Default, whole.Examples, whole.Change = s.Default, s.Examples, s.Change
		*s = whole
	}
	for _, parts := range []map[string]*Schema{s.Definitions, s.Properties} {
		for name, part := range parts {
			parts[name] = part.resolveRefs(root, forms)
		}
	}
	s.Others = s.Others.resolveRefs(root, forms)
	s.Names = s.Names.resolveRefs(root, forms)
	s.Items = s.Items.resolveRefs(root, forms)
	s.parse, s.pattern = forms[s.Form], lazyregexp.New(s.Pattern)
	return s
}

// partAt returns the part of s to which a reference such as "#/definitions/job/properties/every" leads.
func (s *Schema) partAt(ref string) *Schema {
	part := s
	for step := range slices.Chunk(strings.Split(ref, "/")[1:], 2) {
		named := map[string]map[string]*Schema{"definitions": part.Definitions, "properties": part.Properties}
		if part = named[step[0]][step[1]]; part == nil {
			panic("yamltree: parse schema: nothing at " + ref)
		}
	}
	if part.Ref != "" {
		return s.partAt(part.Ref)
	}
	return part
}

// Get returns the schema of a key of a mapping, or nil. It works on nil, like [Node.Get].
func (s *Schema) Get(key string) *Schema {
	if s == nil {
		return nil
	}
	return s.Properties[key]
}

// SecretKeys returns the keys whose values must not be shown, of all mappings that s describes.
func (s *Schema) SecretKeys() (keys []string) {
	if s == nil {
		return nil
	}
	for key, part := range s.Properties {
		if part.Secret {
			keys = append(keys, key)
		}
		keys = append(keys, part.SecretKeys()...)
	}
	return append(keys, s.Others.SecretKeys()...)
}

// Keys returns the keys that a mapping may have, sorted. It omits those that accept only ~. It works on nil.
func (s *Schema) Keys() []string {
	if s == nil {
		return nil
	}
	var keys []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Equal(s.Properties[name].Types, texts{"null"}) {
			keys = append(keys, name)
		}
	}
	return keys
}

// Has reports whether a mapping may have a key. It works on nil.
func (s *Schema) Has(key string) bool { return slices.Contains(s.Keys(), key) }

// Choices returns the keys of which a mapping has exactly one.
func (s *Schema) Choices() (keys []string) {
	for _, one := range s.OneOf {
		keys = append(keys, one.Keys[0])
	}
	return keys
}

// NamedKeys returns the keys of a mapping whose values are mappings of names, sorted.
func (s *Schema) NamedKeys() []string {
	return slices.DeleteFunc(s.Keys(), func(key string) bool { return s.Get(key).Names == nil })
}

// Allows reports whether values may be of a kind.
func (s *Schema) Allows(kind Kind) bool {
	return slices.ContainsFunc(typesOf[kind], func(name string) bool { return slices.Contains(s.Types, name) })
}

// typesOf are the types of JSON Schema that values of a kind have.
var typesOf = map[Kind][]string{
	Mapping: {"object"}, List: {"array"}, Null: {"null"}, Boolean: {"boolean"},
	Whole: {"integer", "number"}, Number: {"number"}, Text: {"string"}, Template: {"string"},
}

// fits reports whether a text has a length that is allowed, and matches the pattern.
func (s *Schema) fits(text string) bool {
	length := utf8.RuneCountInString(text)
	return length >= s.MinLength && (s.MaxLength == 0 || length <= s.MaxLength) &&
		(s.Pattern == "" || s.pattern().MatchString(text))
}

// exceededBound returns the bound that a whole number exceeds, in the words of messages, or "".
func (s *Schema) exceededBound(text string) string {
	switch {
	case s.Minimum != nil && parseWhole(text) < *s.Minimum:
		return fmt.Sprintf("at least %d", *s.Minimum)
	case s.Maximum != nil && parseWhole(text) > *s.Maximum:
		return fmt.Sprintf("at most %d", *s.Maximum)
	}
	return ""
}

// DefaultValue returns the [Node.Value] of the default; nil without one.
func (s *Schema) DefaultValue() any {
	if s.Default == nil {
		return nil
	}
	text := strings.Trim(string(s.Default), `"`)
	return s.valueOf(&Node{Kind: KindOf(text), Raw: text, Text: text})
}

// valueOf returns the [Node.Value] of a scalar that no keyword refuses.
func (s *Schema) valueOf(n *Node) any {
	switch {
	case s.parse != nil:
		return s.parse(s, n)
	case n.Kind == Boolean:
		return strings.EqualFold(n.Text, "true")
	case n.Kind == Whole && !s.Allows(Text):
		return parseWhole(n.Text)
	}
	return n.Text
}

// words returns the texts of an enum.
func (s *Schema) words() (texts []string) {
	for _, word := range s.Enum {
		if word != nil {
			texts = append(texts, *word)
		}
	}
	return texts
}

// Suggestions returns the examples as JSON.
func (s *Schema) Suggestions() string {
	var all []string
	for _, example := range s.Examples {
		all = append(all, string(example))
	}
	return strings.Join(all, " or ")
}

// SuggestKey returns what to add where a key of s is missing: its first example as JSON, which is also YAML.
func (s *Schema) SuggestKey(key string) string {
	part := s.Get(key)
	if part == nil || len(part.Examples) == 0 {
		return ""
	}
	compact, _ := json.Marshal(part.Examples[0])
	return "add " + key + ": " + string(compact)
}
