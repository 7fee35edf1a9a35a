package yamltree

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-faster/jx"

	"outlierd/internal/lazyregexp"
)

// A Schema is a JSON Schema (draft-07), or a part of one. It describes the shape of files: their keys, types
// and words.
//
// It has only keywords with which one mistake causes one error: no oneOf and no anyOf, but lists of types,
// and keywords that apply to one type each. Titles are part of messages: the title of a value completes the
// sentence "must be …". A key whose schema is `not: {}` belongs to a later version.
//
// Three keywords are not of JSON Schema, or mean nothing to [Schema.Check]: x-form, x-change and writeOnly.
type Schema struct {
	Title   string
	Default string // of a scalar, as text; "" for none
	Change  string // what a change of the value means, in words of the caller
	Secret  bool   // the value must not be shown

	form        string
	ref         string // of a part that is elsewhere; "" once the schema is parsed
	definitions map[string]*Schema
	example     jx.Raw // the first

	types  []string // none if all are allowed
	equals *int
	enum   []any // texts, and nil for ~
	later  bool
	allOf  []*Schema

	required      []string
	properties    map[string]*Schema
	names         *Schema // of keys
	others        *Schema // of values of keys that are not among the properties
	closed        bool    // there must be no such keys
	minProperties int

	items    *Schema
	minItems int

	minLength, maxLength int // in characters; a maxLength of 0 is no limit
	pattern              func() *regexp.Regexp

	minimum, maximum *int // of whole numbers
}

// MustParseSchema parses the text of a schema. It panics if the text is not a schema, or if it has a keyword
// that Check does not know.
func MustParseSchema(text []byte) *Schema {
	root, err := readSchema(jx.DecodeBytes(text))
	if err != nil {
		panic("yamltree: parse schema: " + err.Error())
	}
	return root.resolveRefs(root)
}

func readSchema(d *jx.Decoder) (*Schema, error) {
	s := &Schema{}
	err := d.Obj(func(d *jx.Decoder, keyword string) error {
		if err := s.readKeyword(d, keyword); err != nil {
			return fmt.Errorf("%s: %w", keyword, err)
		}
		return nil
	})
	return s, err
}

// readKeyword reads the value of a keyword.
func (s *Schema) readKeyword(d *jx.Decoder, keyword string) (err error) {
	switch keyword {
	case "$schema", "description": // for editors
		err = d.Skip()
	case "title":
		s.Title, err = d.Str()
	case "x-form":
		s.form, err = d.Str()
	case "x-change":
		s.Change, err = d.Str()
	case "writeOnly":
		s.Secret, err = d.Bool()
	case "default":
		if d.Next() == jx.String {
			s.Default, err = d.Str()
			break
		}
		var raw jx.Raw
		raw, err = d.Raw()
		s.Default = raw.String()
	case "examples":
		err = d.Arr(func(d *jx.Decoder) error {
			raw, err := d.RawAppend(nil)
			if s.example == nil {
				s.example = raw
			}
			return err
		})
	case "$ref":
		s.ref, err = d.Str()
	case "definitions":
		s.definitions, err = readParts(d)
	case "allOf":
		err = d.Arr(func(d *jx.Decoder) error {
			part, err := readSchema(d)
			s.allOf = append(s.allOf, part)
			return err
		})
	case "not":
		s.later = true
		err = d.ObjBytes(func(_ *jx.Decoder, keyword []byte) error { return fmt.Errorf("%q in not", keyword) })
	case "type":
		s.types, err = readTexts(d)
	case "const":
		s.equals, err = readWhole(d)
	case "enum":
		err = d.Arr(func(d *jx.Decoder) error {
			if d.Next() == jx.Null {
				s.enum = append(s.enum, nil)
				return d.Null()
			}
			text, err := d.Str()
			s.enum = append(s.enum, text)
			return err
		})
	case "required":
		s.required, err = readTexts(d)
	case "properties":
		s.properties, err = readParts(d)
	case "additionalProperties":
		if d.Next() != jx.Bool {
			s.others, err = readSchema(d)
			break
		}
		var open bool
		open, err = d.Bool()
		s.closed = !open
	case "patternProperties": // for editors: [File.Parse] drops keys that begin with x-
		err = d.ObjBytes(func(d *jx.Decoder, pattern []byte) error {
			if raw, err := d.Raw(); err != nil || string(pattern) != "^x-" || string(raw) != "true" {
				return fmt.Errorf("%q in patternProperties", pattern)
			}
			return nil
		})
	case "propertyNames":
		s.names, err = readSchema(d)
	case "minProperties":
		s.minProperties, err = d.Int()
	case "items":
		s.items, err = readSchema(d)
	case "minItems":
		s.minItems, err = d.Int()
	case "minLength":
		s.minLength, err = d.Int()
	case "maxLength":
		s.maxLength, err = d.Int()
	case "pattern":
		var pattern string
		pattern, err = d.Str()
		s.pattern = lazyregexp.New(pattern)
	case "minimum":
		s.minimum, err = readWhole(d)
	case "maximum":
		s.maximum, err = readWhole(d)
	default:
		err = errors.New("unknown keyword")
	}
	return err
}

func readParts(d *jx.Decoder) (map[string]*Schema, error) {
	parts := map[string]*Schema{}
	err := d.Obj(func(d *jx.Decoder, name string) (err error) {
		parts[name], err = readSchema(d)
		return err
	})
	return parts, err
}

// readTexts reads a text or a list of texts.
func readTexts(d *jx.Decoder) (texts []string, err error) {
	one := func(d *jx.Decoder) error {
		text, err := d.Str()
		texts = append(texts, text)
		return err
	}
	if d.Next() == jx.Array {
		err = d.Arr(one)
	} else {
		err = one(d)
	}
	return texts, err
}

func readWhole(d *jx.Decoder) (*int, error) {
	x, err := d.Int()
	return &x, err
}

// resolveRefs returns the part of root to which s refers, or s itself, with the references below it replaced.
func (s *Schema) resolveRefs(root *Schema) *Schema {
	switch {
	case s == nil:
		return nil
	case s.ref != "":
		return root.partAt(s.ref)
	}
	for _, parts := range []map[string]*Schema{s.definitions, s.properties} {
		for name, part := range parts {
			parts[name] = part.resolveRefs(root)
		}
	}
	for i, part := range s.allOf {
		s.allOf[i] = part.resolveRefs(root)
	}
	s.others = s.others.resolveRefs(root)
	s.names = s.names.resolveRefs(root)
	s.items = s.items.resolveRefs(root)
	return s
}

// partAt returns the part of s to which a reference such as "#/definitions/job/properties/every" leads.
func (s *Schema) partAt(ref string) *Schema {
	part := s
	for steps := strings.Split(ref, "/")[1:]; part != nil && len(steps) > 1; steps = steps[2:] {
		switch steps[0] {
		case "definitions":
			part = part.definitions[steps[1]]
		case "properties":
			part = part.properties[steps[1]]
		default:
			part = nil
		}
	}
	switch {
	case part == nil:
		panic("yamltree: parse schema: nothing at " + ref)
	case part.ref != "":
		return s.partAt(part.ref)
	}
	return part
}

// Definition returns a part by its name among the definitions, or nil.
func (s *Schema) Definition(name string) *Schema { return s.definitions[name] }

// Get returns the schema of a key of a mapping, or nil. It works on nil, like [Node.Get].
func (s *Schema) Get(key string) *Schema {
	if s == nil {
		return nil
	}
	return s.properties[key]
}

// Form returns the name that the caller gives to a form of values, or "". It works on nil.
func (s *Schema) Form() string {
	switch {
	case s == nil:
		return ""
	case s.form == "" && len(s.allOf) > 0:
		return s.allOf[0].Form()
	}
	return s.form
}

// SecretKeys returns the keys whose values must not be shown, of all mappings that s describes.
func (s *Schema) SecretKeys() (keys []string) {
	if s == nil {
		return nil
	}
	for key, part := range s.properties {
		if part.Secret {
			keys = append(keys, key)
		}
		keys = append(keys, part.SecretKeys()...)
	}
	return append(keys, s.others.SecretKeys()...)
}

// Keys returns the keys that a mapping may have, sorted. It omits keys of later versions and those that
// accept only ~. It works on nil.
func (s *Schema) Keys() []string {
	if s == nil {
		return nil
	}
	var keys []string
	for _, name := range slices.Sorted(maps.Keys(s.properties)) {
		if p := s.properties[name]; !p.later && !slices.Equal(p.types, []string{"null"}) {
			keys = append(keys, name)
		}
	}
	return keys
}

// NamedKeys returns the keys of a mapping whose values are mappings of names, sorted.
func (s *Schema) NamedKeys() []string {
	return slices.DeleteFunc(s.Keys(), func(key string) bool { return s.Get(key).names == nil })
}

// allows reports whether values may be of a kind.
func (s *Schema) allows(kind Kind) bool {
	has := func(name string) bool { return slices.Contains(s.types, name) }
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
	return length >= s.minLength && (s.maxLength == 0 || length <= s.maxLength) &&
		(s.pattern == nil || s.pattern().MatchString(text))
}

// exceededBound returns the bound that a whole number exceeds, in the words of messages, or "".
func (s *Schema) exceededBound(n *Node) string {
	switch {
	case s.minimum != nil && n.wholeNumber() < *s.minimum:
		return fmt.Sprintf("at least %d", *s.minimum)
	case s.maximum != nil && n.wholeNumber() > *s.maximum:
		return fmt.Sprintf("at most %d", *s.maximum)
	}
	return ""
}

// enumTexts returns the texts of an enum.
func (s *Schema) enumTexts() []string {
	var texts []string
	for _, value := range s.enum {
		if text, ok := value.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// SuggestKey returns what to add where a key of s is missing: its first example as JSON, which is also YAML.
func (s *Schema) SuggestKey(key string) string {
	part := s.Get(key)
	if part == nil || part.example == nil {
		return ""
	}
	compact, _ := json.Marshal(json.RawMessage(part.example))
	return "add " + key + ": " + string(compact)
}
