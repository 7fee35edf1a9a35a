package job

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
}

func TestTheManualsExamplesHaveNoMistakes(t *testing.T) {
	env := func(name string) (string, bool) {
		if name == "OUTLIERD_URL" {
			return "https://service.example", true
		}
		return environment(name)
	}
	for _, page := range []string{"README.md", "docs/jobs.md"} {
		text, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(page)))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i, part := range strings.Split(string(text), "```") {
			yaml, found := strings.CutPrefix(part, "yaml\nversion: 1\n")
			if i%2 == 0 || !found {
				continue
			}
			n++
			if _, err := Parse("jobs.yaml", []byte("version: 1\n"+yaml), env); err != nil {
				t.Errorf("%s, example %d:\n%v", page, n, err)
			}
		}
		if n == 0 {
			t.Errorf("%s has no example that begins with version: 1", page)
		}
	}
}
