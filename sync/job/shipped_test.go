package job

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShippedFilesHaveNoMistakes(t *testing.T) {
	if _, err := Parse("jobs.yaml", Example(), nothingSet); err != nil {
		t.Errorf("the file that init writes:\n%v", err)
	}
	config, err := Load("../../jobs.yaml", nothingSet)
	if err != nil {
		t.Fatalf("jobs.yaml in the root:\n%v", err)
	}
	if !config.Service.Simulated() {
		t.Errorf("jobs.yaml in the root runs against %s", config.Service.URL)
	}
	for i := range config.Jobs {
		if order := config.StrongestAgain(&config.Jobs[i]); order != "" {
			t.Errorf("%s in the root's jobs.yaml is ordered by %s, and buys the same hits again", config.Jobs[i].Name, order)
		}
	}
}

// Every YAML in the manual is a file without mistakes whose jobs can be resolved. One
// that does not begin as a file does shows a part of it.
func TestTheManualsExamplesHaveNoMistakes(t *testing.T) {
	env := func(name string) (string, bool) {
		if name == "OUTLIERD_URL" {
			return "https://service.example", true
		}
		return environment(name)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"rivals.txt": "UC1234567890abcdefghijkl # one\n",
		"rivals.csv": "name,channel\none,UC1234567890abcdefghijkl\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "jobs.d"), 0o700); err != nil { // which an example includes
		t.Fatal(err)
	}
	for _, page := range []string{"README.md", "docs/jobs.md", "docs/writing-jobs.md", "docs/budget.md", "docs/notifications.md"} {
		manual, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(page)))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i, part := range strings.Split(string(manual), "```") {
			yaml, found := strings.CutPrefix(part, "yaml\n")
			if i%2 == 0 || !found {
				continue
			}
			n++
			config, err := Parse(filepath.Join(dir, "jobs.yaml"), []byte(completed(yaml)), env)
			if err != nil {
				t.Errorf("%s, example %d:\n%v", page, n, err)
				continue
			}
			for i := range config.Jobs {
				must(t, &config.Jobs[i], nothingKnown())
			}
		}
		if n == 0 {
			t.Errorf("%s has no example", page)
		}
	}
}

// completed is a part of a file with what every file needs.
func completed(yaml string) string {
	if !strings.HasPrefix(yaml, "version: 1\n") {
		yaml = "version: 1\nservice: {url: \"sim://\"}\n" + yaml
	}
	if !strings.Contains(yaml, "\njobs:") {
		yaml += "jobs: {a: {search: {query: x}}}\n"
	}
	return yaml
}

// The manual has a word for every key that the schema has.
func TestTheManualNamesEveryKey(t *testing.T) {
	manual, err := os.ReadFile("../../docs/jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	for definition := range definitions(t) {
		for name, p := range properties(t, definition) {
			later := cmp.Equal(p, map[string]any{"$ref": "#/definitions/later"})
			if !later && !regexp.MustCompile(`\b`+name+`\b`).Match(manual) {
				t.Errorf("%s.%s is not in docs/jobs.md", definition, name)
			}
		}
	}
}
