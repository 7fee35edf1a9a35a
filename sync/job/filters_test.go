package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"outlierd/outlier"
)

// The table of filters is package outlier's, and the table of all other keys is the JSON Schema. From them -update
// writes what the schema says of filters and the tables of the manual.

// jobs.schema.json has the filters of the table of parameters.
func TestSchemaListsTableFilters(t *testing.T) {
	search, channels := filtersOf(outlier.OpSearch), filtersOf(outlier.OpFindChannels)
	text := Schema()
	text = withProperties(t, text, "where", filterProperties(search, ", null"))
	text = withProperties(t, text, "channelWhere", filterProperties(channels, ""))
	text = withProperties(t, text, "enrichWhere", hitProperties(search))
	writtenAs(t, "jobs.schema.json", text)
}

func TestManualHasTheTablesOfKeys(t *testing.T) {
	const page = "../../docs/jobs.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]string{
		"filters":          filterTable(filtersOf(outlier.OpSearch)),
		"channel filters":  filterTable(filtersOf(outlier.OpFindChannels)),
		"filters of hits":  keyList(outlier.HitParams(outlier.OpSearch)),
		"filters of finds": keyList(outlier.HitParams(outlier.OpFindChannels)),
	}
	for _, definition := range []string{"service", "budget", "jobBudget", "table", "privacy", "daemon", "mcp", "assistantBudget", "receiver", "mail", "alert", "report", "backup"} {
		tables["keys of "+definition] = keyTable(t, definition)
	}
	for name, table := range tables {
		place := regexp.MustCompile(`(?s)(<!-- ` + name + ` -->).*?(<!-- / -->)`)
		if !place.Match(text) {
			t.Fatalf("docs/jobs.md has no place for the table %q", name)
		}
		text = place.ReplaceAll(text, []byte("${1}"+strings.ReplaceAll(table, "$", "$$")+"${2}"))
	}
	writtenAs(t, page, text)
}

// writtenAs compares a file with what was generated for it, or writes it.
func writtenAs(t *testing.T, file string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(file)
	switch {
	case err != nil:
		t.Fatal(err)
	case bytes.Equal(got, want):
	case *update:
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the table of filters; -update writes it", file)
	}
}

func filtersOf(op outlier.Operation) (filters []outlier.Param) {
	for _, p := range op.Params() {
		if p.Role == outlier.Filter {
			filters = append(filters, p)
		}
	}
	return filters
}

// withProperties returns the schema with other properties in a definition.
func withProperties(t *testing.T, schema []byte, definition string, properties []string) []byte {
	t.Helper()
	place := regexp.MustCompile(`(?s)(\n    "` + definition + `": \{.*?\n      "properties": \{\n).*?(\n      \})`)
	if !place.Match(schema) {
		t.Fatalf("the schema has no properties of %s", definition)
	}
	text := strings.ReplaceAll(strings.Join(properties, ",\n"), "$", "$$")
	return place.ReplaceAll(schema, []byte("${1}"+text+"${2}"))
}

// filterProperties describes the filters of a search. If none is ", null", ~ removes one that `use` included.
func filterProperties(filters []outlier.Param, null string) []string {
	var all []string
	published := "channelPublishedAt"
	if null != "" {
		published = "publishedAt"
		all = append(all, refersTo("use", "use"))
	}
	for _, f := range filters {
		if f.Form == outlier.Instants {
			all = append(all, refersTo(snakeCase(f.Name), published))
			continue
		}
		all = append(all, filterProperty(f, null))
	}
	return all
}

// hitProperties describes the filters of hits: those of searches that hits show, and ~ for the others.
func hitProperties(search []outlier.Param) []string {
	all := []string{refersTo("use", "use")}
	var described []string
	for _, op := range []outlier.Operation{outlier.OpSearch, outlier.OpFindChannels} {
		definition := map[outlier.Operation]string{outlier.OpSearch: "where", outlier.OpFindChannels: "channelWhere"}[op]
		for _, f := range outlier.HitParams(op) {
			key := snakeCase(f.Name)
			switch {
			case slices.Contains(described, key):
				continue
			case f.Form == outlier.Instants:
				all = append(all, refersTo(key, "hitPublishedAt"))
			case slices.ContainsFunc(filtersOf(op), func(of outlier.Param) bool { return of.Name == f.Name }):
				all = append(all, refersTo(key, definition+"/properties/"+key))
			default:
				all = append(all, filterProperty(f, ", null"))
			}
			described = append(described, key)
		}
	}
	for _, f := range search {
		if key := snakeCase(f.Name); !slices.Contains(described, key) {
			all = append(all, refersTo(key, "notShown"))
		}
	}
	return all
}

func refersTo(key, definition string) string {
	return fmt.Sprintf(`        %q: {"$ref": "#/definitions/%s"}`, key, definition)
}

func filterProperty(f outlier.Param, null string) string {
	lines := []string{`"description": ` + inJSON(f.Doc)}
	if f.OneOf != nil {
		lines = append([]string{`"title": ` + inJSON(wordsOf(f, ""))}, lines...)
		types := `"string"`
		if null != "" {
			types = `["string", "null"]`
		}
		lines = append(lines, `"x-filled": true, "type": `+types, `"enum": [`+quotedWords(f.OneOf)+null+`]`)
	} else {
		forms := map[outlier.Form]string{outlier.Text: "textFilter", outlier.Texts: "textsFilter", outlier.Flag: "yesNo",
			outlier.Integers: "integers", outlier.Numbers: "numbers"}
		lines = append([]string{`"allOf": [{"$ref": "#/definitions/` + forms[f.Form] + `"}]`}, lines...)
	}
	if f.Example != "" {
		var example any
		if err := yaml.Unmarshal([]byte(f.Example), &example); err != nil {
			panic(err)
		}
		lines = append(lines, `"examples": [`+inJSON(example)+`]`)
	}
	return fmt.Sprintf("        %q: {\n          %s\n        }", snakeCase(f.Name), strings.Join(lines, ",\n          "))
}

// inJSON encodes a value with a blank after each comma.
func inJSON(value any) string {
	if list, ok := value.([]any); ok {
		var texts []string
		for _, text := range list {
			texts = append(texts, text.(string))
		}
		return "[" + quotedWords(texts) + "]"
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}

func quotedWords(words []string) string { return `"` + strings.Join(words, `", "`) + `"` }

// wordsOf lists the words that a filter accepts, each between marks.
func wordsOf(f outlier.Param, mark string) string {
	last := len(f.OneOf) - 1
	return mark + strings.Join(f.OneOf[:last], mark+", "+mark) + mark + " or " + mark + f.OneOf[last] + mark
}

func filterTable(filters []outlier.Param) string {
	var b strings.Builder
	b.WriteString("\n| Key | Form | |\n|---|---|---|\n")
	forms := map[outlier.Form]string{
		outlier.Text: "text", outlier.Texts: "texts", outlier.Flag: "`true` or `false`", outlier.Integers: "range, whole",
		outlier.Numbers: "range", outlier.Instants: "[dates](#published_at)",
	}
	for _, f := range filters {
		form := forms[f.Form]
		if f.OneOf != nil {
			form = wordsOf(f, "`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", snakeCase(f.Name), form, f.Doc)
	}
	return b.String()
}

// keyTable describes the keys of a definition of the schema, in its order.
func keyTable(t *testing.T, definition string) string {
	t.Helper()
	section := regexp.MustCompile(`(?s)\n    "` + definition + `": \{.*?\n    \}`).
		Find(Schema()[bytes.Index(Schema(), []byte("\"definitions\"")):])
	var b strings.Builder
	b.WriteString("\n| Key | |\n|---|---|\n")
	for _, m := range regexp.MustCompile(`\n        "(\w+)": \{`).FindAllSubmatch(section, -1) {
		key := describedKey(t, properties(t, definition)[string(m[1])])
		doc, _ := key["description"].(string)
		if value, given := key["default"]; given {
			doc = strings.Replace(doc, fmt.Sprintf("Default: %v", value), fmt.Sprintf("Default: `%v`", value), 1)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", m[1], inMarkdown(doc))
	}
	return b.String()
}

// describedKey returns a property, or what it refers to.
func describedKey(t *testing.T, property any) map[string]any {
	t.Helper()
	key, _ := property.(map[string]any)
	if ref, ok := key["$ref"].(string); ok {
		return schemaPart(t, strings.TrimPrefix(ref, "#/definitions/"))
	}
	return key
}

// inMarkdown marks names of keys and variables in a description that are not marked.
func inMarkdown(doc string) string {
	parts := strings.Split(doc, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = regexp.MustCompile(`\b[a-z]+(?:_[a-z]+)+\b|\{\{.*?\}\}|\$\{.*?\}|query\S*=\S*[^,. ]|sim://`).
			ReplaceAllString(parts[i], "`$0`")
	}
	return strings.Join(parts, "`")
}

func keyList(filters []outlier.Param) string {
	var keys []string
	for _, f := range filters {
		keys = append(keys, "`"+snakeCase(f.Name)+"`")
	}
	return strings.Join(keys, ", ")
}
