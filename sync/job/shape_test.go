package job

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
)

// schemaPart is a definition of the schema.
func schemaPart(t *testing.T, definition string) map[string]any {
	t.Helper()
	all, err := schemaDefinitions()
	if err != nil {
		t.Fatal(err)
	}
	return all[definition]
}

var schemaDefinitions = sync.OnceValues(func() (map[string]map[string]any, error) {
	var doc struct{ Definitions map[string]map[string]any }
	err := json.Unmarshal(Schema(), &doc)
	return doc.Definitions, err
})

func properties(t *testing.T, definition string) map[string]any {
	t.Helper()
	p, _ := schemaPart(t, definition)["properties"].(map[string]any)
	return p
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

// The schema has the sort orders, modes, prices and other words of the interface.
func TestSchemaListsInterfaceValues(t *testing.T) {
	sorts := func(op outlier.Operation) (want []string) {
		for _, by := range sortsOf(op) {
			want = append(want, snakeCase(by), snakeCase(by)+" desc", snakeCase(by)+" asc")
			if camelCase(snakeCase(by)) != by {
				t.Errorf("%s becomes %s and back %s", by, snakeCase(by), camelCase(snakeCase(by)))
			}
		}
		return want
	}
	sameWords(t, "sort", schemaPart(t, "sort")["enum"], sorts(outlier.OpSearch))
	channels, _ := properties(t, "findChannels")["sort"].(map[string]any)
	sameWords(t, "sort of channels", channels["enum"], sorts(outlier.OpFindChannels))
	for _, f := range append(outlier.OpSearch.Params(), outlier.OpStartScan.Params()...) {
		switch f.Name {
		case "by":
			sameWords(t, "by", schemaPart(t, "by")["enum"], f.OneOf)
		case "mode":
			mode, _ := properties(t, "scan")["mode"].(map[string]any)
			sameWords(t, "mode", mode["enum"], f.OneOf)
		}
	}
	prices, _ := properties(t, "service")["prices"].(map[string]any)["properties"].(map[string]any)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(outlier.DocumentedPrices())), slices.Sorted(maps.Keys(prices))); diff != "" {
		t.Errorf("prices (-interface +schema)\n%s", diff)
	}
	var got []string
	for name, p := range properties(t, "enrich") {
		if name != "sort" && name != "where" && cmp.Diff(p, map[string]any{"$ref": "#/definitions/later"}) != "" {
			got = append(got, name)
		}
	}
	var want []string
	for op := range fetches {
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
			at, key, deeper := strings.Cut(strings.TrimPrefix(ref, "#/definitions/"), "/properties/")
			target := schemaPart(t, at)
			if deeper {
				target, _ = properties(t, at)[key].(map[string]any)
			}
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

// Every parameter of the interface is a key of the verb that sends it.
func TestSchemaHasParametersOfEveryVerb(t *testing.T) {
	named := map[string]string{"sortBy": "sort", "sortOrder": "sort", "findBy": "channel_id"}
	for _, c := range []struct {
		verb, where string
		op          outlier.Operation
	}{
		{"search", "where", outlier.OpSearch},
		{"related", "where", outlier.OpRelated},
		{"scan", "", outlier.OpStartScan},
		{"findChannels", "channelWhere", outlier.OpFindChannels},
	} {
		keys, filters := properties(t, c.verb), properties(t, c.where)
		for _, f := range (&template{Op: c.op}).fields() {
			name := first(named[f.Name], snakeCase(f.Name))
			if keys[name] == nil && filters[name] == nil {
				t.Errorf("%s cannot be given %s", c.verb, f.Name)
			}
		}
	}
}

// An example of the schema, copied into a job file, is no mistake.
func TestTheSchemasExamplesHaveNoMistakes(t *testing.T) {
	const head = `{"version":1,"service":{"url":"sim://"},"lists":{"topics":["x"]},"notify":{"team":{"webhook":""}},`
	const coffee = `"coffee":{"search":{},"budget":{"per_run":20}}`
	frames := map[string]string{
		"service":      `{"version":1,"service":{"url":"sim://",%s},"jobs":{"a":{"search":{}}}}`,
		"budget":       head + `"jobs":{` + coffee + `},"budget":{%s}}`,
		"defaults":     head + `"jobs":{` + coffee + `},"defaults":{%s}}`,
		"daemon":       head + `"jobs":{` + coffee + `},"daemon":{%s}}`,
		"receiver":     `{"version":1,"service":{"url":"sim://"},"jobs":{"a":{"search":{}}},"notify":{"team":{"webhook":"",%s}}}`,
		"mail":         `{"version":1,"service":{"url":"sim://"},"jobs":{"a":{"search":{}}},"notify":{"m":{"mail":{"server":"x","from":"a@b.example","to":"a@b.example",%s}}}}`,
		"alert":        head + `"jobs":{` + coffee + `},"alerts":{"a":{"key":"x","sql":"select 1","notify":"team",%s}}}`,
		"sink":         head + `"jobs":{` + coffee + `},"sinks":[{%s}]}`,
		"where":        head + `"filters":{"breakout":{}},"jobs":{"a":{"search":{"where":{%s}}}}}`,
		"channelWhere": head + `"jobs":{"a":{"find_channels":{"where":{%s}}}}}`,
		"search":       head + `"jobs":{"a":{"search":{%s},"budget":{"per_run":20}}}}`,
		"related":      head + `"jobs":{"a":{"related":{"title":"y",%s},"budget":{"per_run":20}}}}`,
		"scan":         head + `"jobs":{"a":{"scan":{"query":"y",%s}}}}`,
		"findChannels": head + `"jobs":{"a":{"find_channels":{%s},"budget":{"per_run":20}}}}`,
		"channels":     head + `"jobs":{"a":{"channels":{"id":"UC1234567890abcdefghijkl",%s}}}}`,
		"videos":       head + `"jobs":{"a":{"videos":{"id":"dQw4w9WgXcQ",%s}}}}`,
		"enrich":       head + `"jobs":{"a":{"search":{},"enrich":{%s}}}}`,
		"jobBudget":    head + `"jobs":{"a":{"search":{},"budget":{%s}}}}`,
		"stopWhen":     head + `"jobs":{"a":{"search":{"stop_when":{%s}}}}}`,
		"job":          head + `"jobs":{"a":{"search":{"query":"${topic}"},"for_each":{"topic":["x"]},%s},` + coffee + `}}`,
	}
	for _, definition := range slices.Sorted(maps.Keys(frames)) {
		for name, p := range properties(t, definition) {
			frame := frames[definition]
			if definition == "job" && (name == "jitter" || name == "quiet") {
				frame = strings.Replace(frame, `"search":{"query"`, `"every":"6h","search":{"query"`, 1)
			}
			if definition == "job" && name == "at_least" {
				frame = strings.Replace(head, "{", `{"budget":{"per_month":200},`, 1) + `"jobs":{"a":{"schedule":"auto at 06:30",` +
					`"search":{"query":"x","sort":"published_at desc"},%s}}}`
			}
			for _, example := range examples(t, p) {
				if text, _ := example.(string); strings.HasPrefix(text, "az://") && !hasAzure {
					continue // refused by a program without the build tag
				}
				exampleParses(t, frame, definition+"."+name, example)
			}
		}
	}
}

// examples are those of a property, or of what it refers to.
func examples(t *testing.T, property any) []any {
	t.Helper()
	p, _ := property.(map[string]any)
	if ref, ok := p["$ref"].(string); ok {
		p = schemaPart(t, strings.TrimPrefix(ref, "#/definitions/"))
	}
	all, _ := p["examples"].([]any)
	return all
}

// exampleParses puts an example into its frame. What the frame gives already, or what
// a job can have only one of, the example replaces.
func exampleParses(t *testing.T, frame, place string, example any) {
	t.Helper()
	value, err := json.Marshal(example)
	if err != nil {
		t.Fatal(err)
	}
	switch place {
	case "receiver.healthchecks", "receiver.command", "receiver.mail":
		frame = strings.Replace(frame, `"webhook":"",`, "", 1)
	case "mail.user", "mail.password":
		return // one needs the other, and the password a variable
	case "mail.server", "mail.from", "mail.to", "alert.key", "alert.sql", "alert.notify":
		frame = regexp.MustCompile(`"`+place[strings.Index(place, ".")+1:]+`":"[^"]*",(.*%s)`).ReplaceAllString(frame, "$1")
	case "service.url", "service.key", "receiver.webhook":
		return // the frame has the one, and cannot have the other
	case "daemon.token", "daemon.read_token":
		return // needs a variable or a file that holds one
	case "job.search", "job.related", "job.scan", "job.channels", "job.videos", "job.find_channels", "job.trending_formats":
		frame = strings.Replace(frame, `"search":{"query":"${topic}"},"for_each":{"topic":["x"]},`, "", 1)
	case "job.for_each":
		frame = strings.Replace(frame, `"for_each":{"topic":["x"]},`, "", 1)
	case "related.title":
		frame = strings.Replace(frame, `"title":"y",`, "", 1)
	case "scan.query", "scan.channel_id":
		frame = strings.Replace(frame, `"query":"y",`, "", 1)
	case "channels.id", "videos.id":
		frame = regexp.MustCompile(`"id":"[^"]*",`).ReplaceAllString(frame, "")
	case "budget.reserve":
		frame = strings.Replace(frame, `"budget":{%s}`, `"budget":{"per_month":500,%s}`, 1)
	case "sink.compact":
		frame = strings.Replace(frame, `{%s}`, `{"parquet":"p",%s}`, 1)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rivals.txt"), []byte("UC1234567890abcdefghijkl\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, name, _ := strings.Cut(place, ".")
	text := fmt.Sprintf(frame, fmt.Sprintf("%q: %s", name, value))
	if _, err := Parse(filepath.Join(dir, "jobs.yaml"), []byte(text), nothingSet); err != nil {
		t.Errorf("%s: %s: %v", place, value, err)
	}
}

// first is the first of two texts that says something.
func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
