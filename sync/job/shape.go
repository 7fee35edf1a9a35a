package job

import (
	"bytes"
	_ "embed"
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
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	fault "github.com/santhosh-tekuri/jsonschema/v6/kind"
)

//go:embed jobs.schema.json
var schemaText []byte

//go:embed example.yaml
var exampleText []byte

// Schema is the JSON Schema (draft-07) of jobs.yaml, with a description of every key:
// the reference of the file, for editors and for people.
func Schema() []byte { return bytes.Clone(schemaText) }

// Example is a small jobs.yaml with comments. It has no mistakes and runs on the
// simulator as it is.
func Example() []byte { return bytes.Clone(exampleText) }

// The schema is written so that one mistake is one error: no oneOf or anyOf, but
// lists of types with keywords that apply to one type each. Besides the standard's
// keywords its words steer the messages: the title of a value completes the sentence
// "this wants …", and the definition "later" stands for keys of later versions.
const schemaURL = "jobs.schema.json"

// oneOff is the part of the schema that a job of the command line is held against.
const oneOff = "#/definitions/job"

// A judgement is the schema to judge with, in whole and for one job, and as data to
// take words from.
type judgement struct {
	file, job *jsonschema.Schema
	doc       any
}

var compiled = sync.OnceValue(func() judgement {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaText))
	if err != nil {
		panic("job: jobs.schema.json: " + err.Error())
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(schemaURL, doc); err != nil {
		panic("job: jobs.schema.json: " + err.Error())
	}
	return judgement{c.MustCompile(schemaURL), c.MustCompile(schemaURL + oneOff), doc}
})

// shape holds the tree against the schema, or against one part of it. Whatever it
// refuses is marked wrong, so that nothing later trips over it again.
func (s *source) shape(root *node, part string) {
	by := compiled()
	schema, doc := by.file, by.doc
	if part == oneOff {
		schema = by.job
	}
	err := schema.Validate(root.value())
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		j := judge{source: s, root: root, schema: doc}
		j.leaves(invalid)
	} else if err != nil {
		s.at(1, 1, err.Error(), "")
	}
	s.troubles(root)
}

// troubles reports what ${…} could not be filled in, except below keys that nobody
// reads.
func (s *source) troubles(n *node) {
	switch {
	case n == nil || n.dead || n.kind == blank:
	case n.trouble != "":
		s.refuse(n, "%s", n.trouble)
	default:
		for child := range n.children() {
			s.troubles(child)
		}
	}
}

// value is n in the types of encoding/json. Numbers that are not written as whole
// numbers in digits become a fraction, which every "integer" of the schema refuses.
func (n *node) value() any {
	switch n.kind {
	case mapping:
		m := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			m[e.key.text] = e.value.value()
		}
		return m
	case list:
		items := make([]any, len(n.items))
		for i, item := range n.items {
			items[i] = item.value()
		}
		return items
	case null:
		return nil
	case boolean:
		return strings.EqualFold(n.text, "true")
	case whole:
		digits, _ := new(big.Int).SetString(n.text, 10)
		return json.Number(digits.String())
	case number:
		return 0.5
	}
	return n.text
}

// judge words the schema's errors.
type judge struct {
	*source
	root   *node
	schema any
}

func (j *judge) leaves(e *jsonschema.ValidationError) {
	_, isName := e.ErrorKind.(*fault.PropertyNames)
	if len(e.Causes) == 0 || isName {
		j.leaf(e)
		return
	}
	for _, cause := range e.Causes {
		j.leaves(cause)
	}
}

func (j *judge) leaf(e *jsonschema.ValidationError) {
	if k, ok := e.ErrorKind.(*fault.PropertyNames); ok {
		j.name(k.Property, e.SchemaURL)
		return
	}
	n := j.root.find(e.InstanceLocation)
	if n.wrong || n.trouble != "" {
		return // somebody has complained, or the value is not known
	}
	switch k := e.ErrorKind.(type) {
	case *fault.AdditionalProperties:
		for _, name := range k.Properties {
			j.unknown(n, name, e.SchemaURL)
		}
	case *fault.Not:
		n.wrong, n.dead = true, true
		j.refuse(n.handle(), "not supported yet")
	case *fault.Required:
		for _, name := range k.Missing {
			j.missing(n, name, j.example(e.SchemaURL, name))
		}
	default:
		wants := j.word(e.SchemaURL)
		j.refuseWithHint(n, j.hint(e, n, wants), "%s", complaint(e.ErrorKind, n, wants))
	}
}

// name reports a key that is no name. The library reuses the memory of this error's
// InstanceLocation, so the place is taken from the schema's side: what has names for
// keys stands at the top of the file.
func (j *judge) name(key, schemaURL string) {
	_, pointer, _ := strings.Cut(schemaURL, "#/properties/")
	named, _, _ := strings.Cut(pointer, "/")
	j.refuse(j.root.get(named).get(key).head, "a name is %s", j.word(schemaURL))
}

// complaint is what is wrong with n, which wants what the words say.
func complaint(k jsonschema.ErrorKind, n *node, wants string) string {
	switch k := k.(type) {
	case *fault.Minimum:
		return fmt.Sprintf("must be at least %s, not %s", k.Want.RatString(), n.shown())
	case *fault.Maximum:
		return fmt.Sprintf("must be at most %s, not %s", k.Want.RatString(), n.shown())
	case *fault.MinLength, *fault.MinItems, *fault.MinProperties:
		return "is empty, but wants " + wants
	}
	return fmt.Sprintf("wants %s, not %s", wants, n.shown())
}

// hint is the remedy for the mistakes that many make. What it says to write is not
// refused in its turn.
func (j *judge) hint(e *jsonschema.ValidationError, n *node, wants string) string {
	switch k := e.ErrorKind.(type) {
	case *fault.Enum:
		var words []string
		for _, w := range k.Want {
			if s, ok := w.(string); ok {
				words = append(words, s)
			}
		}
		return didYouMean(n, Nearest(n.text, words))
	case *fault.Type, *fault.Pattern:
		wantsWhole := strings.HasPrefix(wants, "a number") || strings.HasPrefix(wants, "1")
		switch {
		case wantsWhole && n.kind == number:
			return "write a whole number in digits"
		case wantsWhole && n.kind == text && kindOf(n.text) == whole && !n.filled() && j.bounded(e.SchemaURL, n.text):
			return "write it without quotes: " + n.text
		case strings.HasPrefix(wants, "a range"):
			return asRange(n)
		}
	}
	return ""
}

// bounded reports whether the piece of the schema at a URL takes the number.
func (j *judge) bounded(schemaURL, digits string) bool {
	x, err := strconv.ParseFloat(digits, 64)
	least, most := math.Inf(-1), math.Inf(1)
	part := j.part(schemaURL)
	if v, ok := part["minimum"].(json.Number); ok {
		least, _ = v.Float64()
	}
	if v, ok := part["maximum"].(json.Number); ok {
		most, _ = v.Float64()
	}
	return err == nil && least <= x && x <= most
}

func didYouMean(n *node, word string) string {
	if word == "" || n.filled() {
		return ""
	}
	return "did you mean " + word + "?"
}

// unknown reports a key that the piece of the schema at a URL does not have.
func (j *judge) unknown(n *node, name, schemaURL string) {
	value := n.get(name)
	value.wrong, value.dead = true, true
	advice := j.elsewhere(n, name, schemaURL)
	if advice == "" {
		known := j.properties(schemaURL)
		advice = didYouMean(value.head, Nearest(name, known))
		if advice == "" && strings.HasSuffix(strings.ToLower(schemaURL), "where") {
			advice = "filters are " + strings.Join(known, ", ")
		}
	}
	j.refuseWithHint(value.head, advice, "unknown key")
}

// elsewhere says where a key stands that was found in n, which is what the piece of the
// schema at a URL describes: deeper, or in the job around it.
func (j *judge) elsewhere(n *node, name, schemaURL string) string {
	in := func(piece string) bool { return slices.Contains(j.properties(piece), name) }
	beside := func(key string) bool { return slices.Contains(j.properties(schemaURL), key) }
	for _, deeper := range []struct{ at, advice string }{
		{"/properties/where", "filters stand below where"},
		{"/properties/budget", "it stands below budget"},
		{"/properties/read", "it stands below read"},
		{"/properties/read/properties/where", "filters stand below where, and that below read"},
	} {
		if in(schemaURL + deeper.at) {
			return deeper.advice
		}
	}
	switch {
	case beside(string(VerbSearch)) && beside("stop_after"):
		return j.below(n, name)
	case beside("top_per_item") && name == "where":
		return "it stands below enrich, for all that is fetched"
	case beside("stop_when"), beside("read"), beside("fetch") && name != "enrich":
		if in(oneOff) {
			return "it stands in the job, beside what it does"
		}
	}
	return ""
}

// below says where a key stands that was found in a job, but is one of what it does.
func (j *judge) below(job *node, name string) string {
	in := func(piece string) bool { return slices.Contains(j.properties(piece), name) }
	for _, e := range job.entries {
		switch verb := e.key.text; {
		case !isVerb(verb):
		case in(oneOff + "/properties/" + verb):
			return "it stands below " + verb
		case verb == string(VerbScan) && in("#/definitions/scan/properties/read"):
			return "it stands below read, and that below scan"
		default:
			return ""
		}
	}
	if in("#/definitions/search") {
		return "it stands below what the job does, such as search"
	}
	return ""
}

// find follows a location of the schema's errors down from n.
func (n *node) find(location []string) *node {
	for _, step := range location {
		if i, err := strconv.Atoi(step); err == nil && n.kind == list {
			n = n.items[i]
			continue
		}
		n = n.get(step)
	}
	return n
}

// part is the piece of the schema that a URL with a JSON pointer names.
func (j *judge) part(schemaURL string) map[string]any {
	_, pointer, _ := strings.Cut(schemaURL, "#")
	at := j.schema
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if step, _ = url.PathUnescape(step); step == "" {
			continue
		}
		m, _ := at.(map[string]any)
		at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
	}
	m, _ := at.(map[string]any)
	if ref, ok := m["$ref"].(string); ok {
		return j.part(ref)
	}
	return m
}

// word is the title of the piece of the schema at a URL: what a value there wants.
func (j *judge) word(schemaURL string) string {
	title, _ := j.part(schemaURL)["title"].(string)
	return title
}

// properties are the keys that may stand in the mapping at a URL, those of later
// versions and those that only remove what `use` brought left out.
func (j *judge) properties(schemaURL string) []string {
	all, _ := j.part(schemaURL)["properties"].(map[string]any)
	var now []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p, _ := all[name].(map[string]any)
		if ref := p["$ref"]; ref != "#/definitions/later" && ref != "#/definitions/notShown" {
			now = append(now, name)
		}
	}
	return now
}

// example says what to add where a key is missing: the schema's first example, as
// YAML can be read from JSON.
func (j *judge) example(schemaURL, name string) string {
	examples, _ := j.part(schemaURL + "/properties/" + name)["examples"].([]any)
	if len(examples) == 0 {
		return ""
	}
	text, err := json.Marshal(examples[0])
	if err != nil {
		return ""
	}
	return "add " + name + ": " + string(text)
}
