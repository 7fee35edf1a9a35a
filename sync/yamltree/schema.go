package yamltree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	fault "github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// A Schema is a JSON Schema that checks the shape of files: their keys, types and words.
//
// It must be written so that one mistake causes one error: without oneOf and anyOf, with lists of types
// and keywords that apply to one type each. Besides the standard's keywords, its titles are part of
// messages: the title of a value completes the sentence "must be …". A key whose schema is `not: {}`
// belongs to a later version.
type Schema struct {
	doc   any // the schema as data, for messages
	parts map[string]*jsonschema.Schema
}

// Advice returns hints that do not follow from the schema alone. Each function returns "" if it has none.
// A place is a URL of the schema; see [Schema.Keys].
type Advice struct {
	Unknown func(n *Node, key, place string) string // for a key that n must not have
	Value   func(n *Node, wants string) string      // for a value of the wrong form
}

// CompileSchema compiles the text of a schema: the whole schema (part "") and the given parts, which are
// JSON pointers. It panics if the text is not a schema.
func CompileSchema(name string, text []byte, parts ...string) *Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		panic("yamltree: " + name + ": " + err.Error())
	}
	c := jsonschema.NewCompiler()
	// Without a scheme the compiler would resolve the name as a path in the working directory.
	url := "embedded:///" + name
	if err := c.AddResource(url, doc); err != nil {
		panic("yamltree: " + name + ": " + err.Error())
	}
	s := &Schema{doc: doc, parts: map[string]*jsonschema.Schema{}}
	for _, part := range append(parts, "") {
		s.parts[part] = c.MustCompile(url + part)
	}
	return s
}

// Check validates a tree against one part of the schema. It marks invalid values as wrong, so that later
// steps do not report them again. It also reports each ${…} that could not be expanded.
func (s *Schema) Check(root *Node, part string, advice Advice) {
	err := s.parts[part].Validate(root.value())
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		c := checker{s, root, advice}
		c.leaves(invalid)
	} else if err != nil {
		root.Refuse("%s", err)
	}
	root.unexpanded()
}

// unexpanded reports each ${…} that could not be expanded, except below unknown keys.
func (n *Node) unexpanded() {
	switch {
	case n == nil || n.Ignored || n.Kind == Template:
	case n.Unfilled != "":
		n.Refuse("%s", n.Unfilled)
	default:
		for child := range n.Children() {
			child.unexpanded()
		}
	}
}

// value returns n in the types of encoding/json. A number that is not a whole number in digits becomes a
// fraction, which every "integer" of the schema refuses.
func (n *Node) value() any {
	switch n.Kind {
	case Mapping:
		m := make(map[string]any, len(n.Entries))
		for _, e := range n.Entries {
			m[e.Key.Text] = e.Value.value()
		}
		return m
	case List:
		items := make([]any, len(n.Items))
		for i, item := range n.Items {
			items[i] = item.value()
		}
		return items
	case Null:
		return nil
	case Boolean:
		return strings.EqualFold(n.Text, "true")
	case Whole:
		digits, _ := new(big.Int).SetString(n.Text, 10)
		return json.Number(digits.String())
	case Number:
		return 0.5
	}
	return n.Text
}

// checker reports the mistakes of one tree.
type checker struct {
	schema *Schema
	root   *Node
	advice Advice
}

func (c *checker) leaves(e *jsonschema.ValidationError) {
	_, isName := e.ErrorKind.(*fault.PropertyNames)
	if len(e.Causes) == 0 || isName {
		c.leaf(e)
		return
	}
	for _, cause := range e.Causes {
		c.leaves(cause)
	}
}

// leaf reports one error of the validator.
func (c *checker) leaf(e *jsonschema.ValidationError) {
	if k, ok := e.ErrorKind.(*fault.PropertyNames); ok {
		c.name(k.Property, e.SchemaURL)
		return
	}
	n := c.root.find(e.InstanceLocation)
	if n.Wrong || n.Unfilled != "" {
		return // already reported, or the value is not known
	}
	switch k := e.ErrorKind.(type) {
	case *fault.AdditionalProperties:
		for _, name := range k.Properties {
			c.unknown(n, name, e.SchemaURL)
		}
	case *fault.Not:
		n.Wrong, n.Ignored = true, true
		n.Head().Refuse("not supported yet")
	case *fault.Required:
		for _, name := range k.Missing {
			n.Missing(name, c.schema.example(e.SchemaURL, name))
		}
	default:
		wants := c.schema.title(e.SchemaURL)
		n.RefuseWithHint(c.hint(e, n, wants), "%s", complaint(e.ErrorKind, n, wants))
	}
}

// name reports a key that is not a valid name. The library reuses the memory of this error's
// InstanceLocation, so the mapping is found by its place in the schema: mappings whose keys are names are
// at the top of the file.
func (c *checker) name(key, place string) {
	_, pointer, _ := strings.Cut(place, "#/properties/")
	named, _, _ := strings.Cut(pointer, "/")
	c.root.Get(named).Get(key).Key.Refuse("must be %s, got %q", c.schema.title(place), key)
}

// unknown reports a key that the part of the schema at a place does not have.
func (c *checker) unknown(n *Node, name, place string) {
	value := n.Get(name)
	value.Wrong, value.Ignored = true, true
	value.Key.RefuseWithHint(c.advice.Unknown(n, name, place), "unknown key")
}

// complaint returns what is wrong with n, whose schema has the title wants.
func complaint(k jsonschema.ErrorKind, n *Node, wants string) string {
	switch k := k.(type) {
	case *fault.Minimum:
		return fmt.Sprintf("must be at least %s, got %s", k.Want.RatString(), n.Shown())
	case *fault.Maximum:
		return fmt.Sprintf("must be at most %s, got %s", k.Want.RatString(), n.Shown())
	case *fault.MinLength, *fault.MinItems, *fault.MinProperties:
		return "is empty, must be " + wants
	}
	return fmt.Sprintf("must be %s, got %s", wants, n.Shown())
}

// hint returns what to do about a common mistake. A value that it suggests is valid.
func (c *checker) hint(e *jsonschema.ValidationError, n *Node, wants string) string {
	switch k := e.ErrorKind.(type) {
	case *fault.Enum:
		var words []string
		for _, w := range k.Want {
			if word, ok := w.(string); ok {
				words = append(words, word)
			}
		}
		return n.DidYouMean(n.Text, words)
	case *fault.Type, *fault.Pattern:
		wantsWhole := strings.HasPrefix(wants, "a number") || strings.HasPrefix(wants, "1")
		switch {
		case wantsWhole && n.Kind == Number:
			return "write a whole number in digits"
		case wantsWhole && n.Kind == Text && KindOf(n.Text) == Whole &&
			!n.FromOutside() && c.schema.bounded(e.SchemaURL, n.Text):
			return "write it without quotes: " + n.Text
		}
		return c.advice.Value(n, wants)
	}
	return ""
}

// bounded reports whether the part of the schema at a place accepts the number.
func (s *Schema) bounded(place, digits string) bool {
	x, err := strconv.ParseFloat(digits, 64)
	least, most := math.Inf(-1), math.Inf(1)
	part := s.at(place)
	if v, ok := part["minimum"].(json.Number); ok {
		least, _ = v.Float64()
	}
	if v, ok := part["maximum"].(json.Number); ok {
		most, _ = v.Float64()
	}
	return err == nil && least <= x && x <= most
}

// find returns the node at a location of the schema's errors, starting from n.
func (n *Node) find(location []string) *Node {
	for _, step := range location {
		if i, err := strconv.Atoi(step); err == nil && n.Kind == List {
			n = n.Items[i]
			continue
		}
		n = n.Get(step)
	}
	return n
}

// at returns the part of the schema at a place: a URL with a JSON pointer.
func (s *Schema) at(place string) map[string]any {
	_, pointer, _ := strings.Cut(place, "#")
	found := s.doc
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if step, _ = url.PathUnescape(step); step == "" {
			continue
		}
		m, _ := found.(map[string]any)
		found = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
	}
	m, _ := found.(map[string]any)
	if ref, ok := m["$ref"].(string); ok {
		return s.at(ref)
	}
	return m
}

// title returns what a value at a place must be.
func (s *Schema) title(place string) string {
	title, _ := s.at(place)["title"].(string)
	return title
}

// Keys returns the keys allowed in a mapping at a place, which is a URL of the schema with a JSON
// pointer, such as "#/definitions/job". It omits keys of later versions and those that accept only ~.
func (s *Schema) Keys(place string) []string {
	all, _ := s.at(place)["properties"].(map[string]any)
	var keys []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p, _ := all[name].(map[string]any)
		if ref, ok := p["$ref"].(string); ok {
			p = s.at(ref)
		}
		if _, later := p["not"]; !later && p["type"] != "null" {
			keys = append(keys, name)
		}
	}
	return keys
}

// example returns what to add where a key is missing: the schema's first example as JSON, which is also YAML.
func (s *Schema) example(place, name string) string {
	examples, _ := s.at(place + "/properties/" + name)["examples"].([]any)
	if len(examples) == 0 {
		return ""
	}
	text, err := json.Marshal(examples[0])
	if err != nil {
		return ""
	}
	return "add " + name + ": " + string(text)
}
