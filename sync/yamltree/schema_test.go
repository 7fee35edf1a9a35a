package yamltree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"outlierd/internal/testenv"
)

func TestSchemasWithBadKeywordsAreRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"minimum": 0.5}`, "minimum"},
		{`{"enum": [1]}`, "enum"},
		{`{"properties": {"a": {"$ref": "#/definitions/a"}}}`, "nothing at #/definitions/a"},
		{`{"properties": {"a": {"$ref": "#/items/a"}}}`, "nothing at #/items/a"},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, c.want) {
					t.Errorf("%s: %s, want a message with %q", c.text, got, c.want)
				}
			}()
			MustParseSchema([]byte(c.text), nil)
		}()
	}
}

// The schema of job files is also read by editors. A library stands in for them here: it must agree with
// Check on what is valid, for every part of the schema and many values, of which each run takes a third.
func TestCheckAgreesWithALibrary(t *testing.T) {
	library, doc, schema := jobSchema(t)
	values, random := samples(doc), testenv.Random(t)
	for at, part := range parts(doc, schema, "") {
		reference := library(at)
		for _, text := range values {
			if random.IntN(3) == 0 {
				agree(t, part, reference, text)
			}
		}
	}
}

// Check agrees with a library on whole files and on random changes of them.
func TestCheckAgreesOnChangedFiles(t *testing.T) {
	library, doc, schema := jobSchema(t)
	reference := library("")
	files, err := filepath.Glob("../job/testdata/mistakes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	var bases []any // without mistakes, so that a change shows
	for _, name := range append(files, "../job/testdata/design.yaml", "../job/example.yaml", "../../jobs.yaml") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		agree(t, schema, reference, string(text))
		if root := tree(string(text)); root != nil && reference.Validate(value(root)) == nil {
			bases = append(bases, value(root))
		}
	}
	values := samples(doc)
	rapid.Check(t, func(t *rapid.T) {
		changed := change(t, rapid.SampledFrom(bases).Draw(t, "file"), values)
		text, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		agree(t, schema, reference, string(text))
	})
}

// jobSchema returns the schema of job files three times: the parts of it as a library compiles them, as data,
// and as we read it.
func jobSchema(t *testing.T) (library func(at string) *jsonschema.Schema, doc any, schema *Schema) {
	t.Helper()
	text, err := os.ReadFile("../job/jobs.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if doc, err = jsonschema.UnmarshalJSON(bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	const url = "embedded:///jobs.schema.json"
	c := jsonschema.NewCompiler()
	if err := c.AddResource(url, doc); err != nil {
		t.Fatal(err)
	}
	return func(at string) *jsonschema.Schema { return c.MustCompile(url + "#" + at) }, doc, MustParseSchema(text, nil)
}

// parts returns all parts of a schema by their JSON pointers.
func parts(doc any, s *Schema, at string) map[string]*Schema {
	all := map[string]*Schema{}
	m, ok := doc.(map[string]any)
	if !ok || s == nil {
		return all
	}
	all[at] = s
	below := func(keyword string, doc any, s *Schema) { maps.Copy(all, parts(doc, s, at+"/"+keyword)) }
	named := map[string]map[string]*Schema{"definitions": s.Definitions, "properties": s.Properties}
	for keyword, named := range named {
		docs, _ := m[keyword].(map[string]any)
		for name := range docs {
			below(keyword+"/"+name, docs[name], named[name])
		}
	}
	below("items", m["items"], s.Items)
	below("propertyNames", m["propertyNames"], s.Names)
	below("additionalProperties", m["additionalProperties"], s.Others)
	return all
}

// samples returns values as JSON: those that a schema has as examples and words, and those at the bounds of its
// keywords.
func samples(doc any) []string {
	all := map[string]bool{}
	var collect func(doc any)
	collect = func(doc any) {
		m, _ := doc.(map[string]any)
		for _, key := range []string{"examples", "enum"} {
			values, _ := m[key].([]any)
			for _, v := range values {
				text, _ := json.Marshal(v)
				all[string(text)] = true
			}
		}
		for _, part := range m {
			collect(part)
		}
	}
	collect(doc)
	for _, text := range []string{
		`~`, `true`, `FALSE`, `-1`, `0`, `+01`, `100`, `101`, `1000000`, `1000001`, `1000000000`, `1000000001`,
		`123456789012345678901234567890`, `-123456789012345678901234567890`, `0.5`, `1e3`, `0x10`,
		`"1"`, `""`, `x`, `X`, `1..2`, `on day 31`, `on day 32`, `90d5`, `9MB`, `:8080`,
		strings.Repeat("ä", 80), strings.Repeat("ä", 81), strings.Repeat("x", 8000), strings.Repeat("x", 8001),
		`[]`, `[x]`, `[X]`, `[""]`, `[5]`, `[~]`, `[[x]]`, `[true]`,
		`{}`, `{a: x}`, `{a: ~}`, `{a: []}`, `{a: {}}`, `{x-a: x}`, `{a: x, x-a: x}`, `{list: x}`, `{list: 1}`,
		`{A: x}`, `{A: [x]}`, `{1: x}`, `{"": x}`, "{" + strings.Repeat("ä", 81) + ": x}",
	} {
		all[text] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// change returns v with one change somewhere: another value, or a key that is gone, renamed or new.
func change(t *rapid.T, v any, values []string) any {
	other := func() any { return value(tree(rapid.SampledFrom(values).Draw(t, "value"))) }
	deeper := rapid.IntRange(0, 9).Draw(t, "how") // 0 to 2: here
	switch v := v.(type) {
	case []any:
		if deeper > 1 && len(v) > 0 {
			i := rapid.IntRange(0, len(v)-1).Draw(t, "item")
			items := slices.Clone(v)
			items[i] = change(t, v[i], values)
			return items
		}
	case map[string]any:
		if deeper > 1 && len(v) > 0 {
			m := maps.Clone(v)
			key := rapid.SampledFrom(slices.Sorted(maps.Keys(v))).Draw(t, "key")
			switch deeper {
			case 2:
				delete(m, key)
			case 3:
				m[key+"s"] = v[key]
			case 4:
				m[rapid.SampledFrom([]string{"enrich", "where", "Budget", "x-note", ""}).Draw(t, "new")] = other()
			default:
				m[key] = change(t, v[key], values)
			}
			return m
		}
	}
	return other()
}

// agree checks a text with both. It skips texts with other mistakes than those of a schema.
func agree(t rapid.TB, s *Schema, reference *jsonschema.Schema, text string) {
	t.Helper()
	root := tree(text)
	if root == nil {
		return
	}
	want := reference.Validate(value(root))
	s.Check(root, Variables{})
	if got := root.file.Mistakes(); (len(got) == 0) != (want == nil) {
		t.Errorf("%s\n%s\nCheck finds %v\na library finds %v", reference.Location, text, got, want)
	}
}

// tree returns the tree of a text, or nil if that has mistakes.
func tree(text string) *Node {
	f := New("jobs.yaml", []byte(text), slices.Clone)
	root := f.Parse()
	if len(f.Mistakes()) > 0 {
		return nil
	}
	return root
}

// value returns n in the types of encoding/json. A number that is not a whole number in digits becomes a
// fraction, which every "integer" of a schema refuses.
func value(n *Node) any {
	switch n.Kind {
	case Mapping:
		m := make(map[string]any, len(n.Entries))
		for _, e := range n.Entries {
			m[e.Key.Text] = value(e.Value)
		}
		return m
	case List:
		items := make([]any, len(n.Items))
		for i, item := range n.Items {
			items[i] = value(item)
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
