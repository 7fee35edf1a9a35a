package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
)

// schemaPart is a definition of the schema.
func schemaPart(t *testing.T, definition string) map[string]any {
	t.Helper()
	var doc struct{ Definitions map[string]map[string]any }
	if err := json.Unmarshal(Schema(), &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Definitions[definition]
}

func properties(t *testing.T, definition string) map[string]any {
	t.Helper()
	p, _ := schemaPart(t, definition)["properties"].(map[string]any)
	return p
}

func TestTheSchemaInTheRootIsTheEmbeddedOne(t *testing.T) {
	root, err := os.ReadFile("../../jobs.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(root, Schema()) {
		t.Error("jobs.schema.json differs; copy sync/job/jobs.schema.json over it")
	}
}

// The table of filters is package outlier's. The schema describes the same filters to
// editors, each with the right form.
func TestTheSchemaHasTheFiltersOfTheInterface(t *testing.T) {
	have := properties(t, "where")
	delete(have, "use")
	for _, f := range new(outlier.Search).Fields()[5:] {
		name := snake(f.Name)
		p, found := have[name].(map[string]any)
		delete(have, name)
		if !found {
			t.Errorf("the schema lacks %s", name)
			continue
		}
		want := map[string]string{
			"*[]string": "textsFilter", "**bool": "yesNo",
			"*outlier.Range[int64]": "integers", "*outlier.Range[float64]": "numbers",
		}[fmt.Sprintf("%T", f.Value)]
		if _, text := f.Value.(*string); text && f.OneOf == nil {
			want = "textFilter"
		}
		if want != "" && cmp.Diff(p["allOf"], []any{map[string]any{"$ref": "#/definitions/" + want}}) != "" {
			t.Errorf("%s has not the form %s in the schema", name, want)
		}
		if f.OneOf != nil {
			sameWords(t, name, p["enum"], f.OneOf)
		}
	}
	for name := range have {
		t.Errorf("the schema has %s, the interface does not", name)
	}
}

func sameWords(t *testing.T, name string, enum any, want []string) {
	t.Helper()
	var got []string
	words, _ := enum.([]any)
	for _, w := range words {
		if s, ok := w.(string); ok {
			got = append(got, s)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-interface +schema)\n%s", name, diff)
	}
}

func TestTheSchemaHasTheWordsOfTheInterface(t *testing.T) {
	for _, f := range new(outlier.Search).Fields() {
		switch f.Name {
		case "sortBy":
			var want []string
			for _, by := range f.OneOf {
				want = append(want, snake(by), snake(by)+" desc", snake(by)+" asc")
				if camel(snake(by)) != by {
					t.Errorf("%s becomes %s and back %s", by, snake(by), camel(snake(by)))
				}
			}
			sameWords(t, "sort", schemaPart(t, "sort")["enum"], want)
		case "by":
			by, _ := properties(t, "search")["by"].(map[string]any)
			sameWords(t, "by", by["enum"], f.OneOf)
		}
	}
	var got []string
	for name, p := range properties(t, "enrich") {
		if name != "sort" && cmp.Diff(p, map[string]any{"$ref": "#/definitions/later"}) != "" {
			got = append(got, name)
		}
	}
	var want []string
	for _, op := range enrichments {
		want = append(want, string(op))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("enrich (-operations +schema)\n%s", diff)
	}
}

// The schema is the manual of the file, so it explains every key that can be used;
// and it words the mistakes, so every value has a title.
func TestTheSchemaExplainsEveryKey(t *testing.T) {
	for definition := range definitions(t) {
		for name, p := range properties(t, definition) {
			p := p.(map[string]any)
			ref, _ := p["$ref"].(string)
			target := schemaPart(t, strings.TrimPrefix(ref, "#/definitions/"))
			if p["description"] == nil && target["description"] == nil {
				t.Errorf("%s.%s has no description", definition, name)
			}
			if ref == "" && p["title"] == nil && p["allOf"] == nil {
				t.Errorf("%s.%s has no title", definition, name)
			}
		}
	}
}

func definitions(t *testing.T) map[string]any {
	t.Helper()
	var doc struct{ Definitions map[string]any }
	if err := json.Unmarshal(Schema(), &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Definitions
}

// Whoever copies an example out of the schema gets no mistake for it.
func TestTheSchemasExamplesHaveNoMistakes(t *testing.T) {
	frames := map[string]string{
		"where":  `{"version":1,"service":{"url":"sim://"},"filters":{"breakout":{}},"jobs":{"a":{"search":{"where":{%s}}}}}`,
		"search": `{"version":1,"service":{"url":"sim://"},"lists":{"topics":["x"]},"jobs":{"a":{"search":{%s},"budget":{"per_run":20}}}}`,
		"enrich": `{"version":1,"service":{"url":"sim://"},"jobs":{"a":{"search":{},"enrich":{%s}}}}`,
		"job":    `{"version":1,"service":{"url":"sim://"},"jobs":{"a":{"search":{},%s}}}`,
		"budget": `{"version":1,"service":{"url":"sim://"},"jobs":{"a":{"search":{}}},"budget":{"per_month":500,%s}}`,
		"sink":   `{"version":1,"service":{"url":"sim://"},"jobs":{"a":{"search":{}}},"sinks":[{%s}]}`,
	}
	for _, definition := range slices.Sorted(maps.Keys(frames)) {
		for name, p := range properties(t, definition) {
			examples, _ := p.(map[string]any)["examples"].([]any)
			for _, example := range examples {
				value, err := json.Marshal(example)
				if err != nil {
					t.Fatal(err)
				}
				if definition == "budget" && name == "per_month" {
					continue // the frame has it
				}
				text := fmt.Sprintf(frames[definition], fmt.Sprintf("%q: %s", name, value))
				if _, err := Parse("jobs.yaml", []byte(text), nothingSet); err != nil {
					t.Errorf("%s.%s: %v", definition, name, err)
				}
			}
		}
	}
}
