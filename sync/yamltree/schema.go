package yamltree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"outlierd/lazyregexp"
)

// A Schema is a JSON Schema (draft-07), or a part of one. It describes the shape of files: their keys, types
// and words.
//
// It has only keywords with which one mistake causes one error: no oneOf and no anyOf, but lists of types,
// and keywords that apply to one type each. Titles are part of messages: the title of a value completes the
// sentence "must be …". A key whose schema is `not: {}` belongs to a later version.
type Schema struct {
	Title    string
	Examples []json.RawMessage

	Type  words
	Const *int
	Enum  []any // texts, and nil for ~
	Not   *struct{}
	AllOf []*Schema
	Ref   string `json:"$ref"` // "" once the schema is parsed

	Required             []string
	Properties           map[string]*Schema
	AdditionalProperties additional
	PropertyNames        *Schema
	MinProperties        int

	Items    *Schema
	MinItems int

	MinLength, MaxLength int // in characters; a MaxLength of 0 is no limit
	Pattern              pattern

	Minimum, Maximum *int // of whole numbers

	Definitions map[string]*Schema

	// The following are for editors. Keys that begin with x- are dropped by [File.Parse].
	Dialect           string `json:"$schema"`
	Description       string
	PatternProperties struct {
		X bool `json:"^x-"`
	}
}

// words is a word or a list of words.
type words []string

func (w *words) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("[")) {
		return json.Unmarshal(text, (*[]string)(w))
	}
	*w = words{""}
	return json.Unmarshal(text, &(*w)[0])
}

// additional says what keys may have that are not among the properties: values of a schema, or nothing,
// because there must be no such keys.
type additional struct {
	schema    *Schema
	forbidden bool
}

func (a *additional) UnmarshalJSON(text []byte) error {
	if string(text) == "false" {
		a.forbidden = true
		return nil
	}
	return unmarshal(text, &a.schema)
}

// pattern is a regular expression that is compiled when it is first needed.
type pattern func() *regexp.Regexp

func (p *pattern) UnmarshalText(text []byte) error {
	*p = lazyregexp.New(string(text))
	return nil
}

// MustParseSchema parses the text of a schema. It panics if the text is not a schema, or if it has a keyword
// that [Schema] does not have.
func MustParseSchema(text []byte) *Schema {
	var root *Schema
	if err := unmarshal(text, &root); err != nil {
		panic("yamltree: parse schema: " + err.Error())
	}
	return root.link(root)
}

// unmarshal decodes JSON. It refuses keywords that [Schema] does not have.
func unmarshal(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// link returns the part of root to which s refers, or s itself, with the references below it replaced.
func (s *Schema) link(root *Schema) *Schema {
	switch {
	case s == nil:
		return nil
	case s.Ref != "":
		return root.at(s.Ref)
	}
	for _, parts := range []map[string]*Schema{s.Definitions, s.Properties} {
		for name, part := range parts {
			parts[name] = part.link(root)
		}
	}
	for i, part := range s.AllOf {
		s.AllOf[i] = part.link(root)
	}
	s.AdditionalProperties.schema = s.AdditionalProperties.schema.link(root)
	s.PropertyNames = s.PropertyNames.link(root)
	s.Items = s.Items.link(root)
	return s
}

// at returns the part of s to which a reference such as "#/definitions/job/properties/every" leads.
func (s *Schema) at(ref string) *Schema {
	part := s
	for steps := strings.Split(ref, "/")[1:]; part != nil && len(steps) > 1; steps = steps[2:] {
		switch steps[0] {
		case "definitions":
			part = part.Definitions[steps[1]]
		case "properties":
			part = part.Properties[steps[1]]
		default:
			part = nil
		}
	}
	switch {
	case part == nil:
		panic("yamltree: parse schema: nothing at " + ref)
	case part.Ref != "":
		return s.at(part.Ref)
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

// Keys returns the keys that a mapping may have, sorted. It omits keys of later versions and those that
// accept only ~. It works on nil.
func (s *Schema) Keys() []string {
	if s == nil {
		return nil
	}
	var keys []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if p := s.Properties[name]; p.Not == nil && !slices.Equal(p.Type, words{"null"}) {
			keys = append(keys, name)
		}
	}
	return keys
}

// allows reports whether values may be of a kind.
func (s *Schema) allows(kind Kind) bool {
	has := func(name string) bool { return slices.Contains(s.Type, name) }
	switch kind {
	case Mapping:
		return has("object")
	case List:
		return has("array")
	case Null:
		return has("null")
	case Boolean:
		return has("boolean")
	case Whole:
		return has("integer") || has("number")
	case Number:
		return has("number")
	}
	return has("string")
}

// fits reports whether a text has a length that is allowed, and matches the pattern.
func (s *Schema) fits(text string) bool {
	length := utf8.RuneCountInString(text)
	return length >= s.MinLength && (s.MaxLength == 0 || length <= s.MaxLength) &&
		(s.Pattern == nil || s.Pattern().MatchString(text))
}

// exceeded returns the bound that a whole number exceeds, in the words of messages, or "".
func (s *Schema) exceeded(n *Node) string {
	switch {
	case s.Minimum != nil && n.whole() < *s.Minimum:
		return fmt.Sprintf("at least %d", *s.Minimum)
	case s.Maximum != nil && n.whole() > *s.Maximum:
		return fmt.Sprintf("at most %d", *s.Maximum)
	}
	return ""
}

// texts returns the texts of an enum.
func (s *Schema) texts() []string {
	var texts []string
	for _, value := range s.Enum {
		if text, ok := value.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// example returns what to add where a key with a value of s is missing: the first example as JSON, which is
// also YAML.
func (s *Schema) example(key string) string {
	if len(s.Examples) == 0 {
		return ""
	}
	compact, _ := json.Marshal(s.Examples[0])
	return "add " + key + ": " + string(compact)
}
