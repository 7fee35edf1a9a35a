package job

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever the file holds, Parse ends, either with a Config that is whole or with
// mistakes that stand inside the file and show nothing from outside it.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/mistakes/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "testdata/design.yaml", "../../jobs.yaml", "example.yaml") {
		src, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		config, err := Parse("jobs.yaml", src, environment)
		if err == nil {
			if len(config.Jobs) == 0 || len(config.Sinks) == 0 || config.Timezone == nil || config.Service.URL == "" {
				t.Fatalf("a config without mistakes lacks something: %+v", config)
			}
			for _, j := range config.Jobs {
				if wrong := j.Search.Template.Check(); len(wrong) > 0 || j.Search.Pages < 1 {
					t.Fatalf("job %s asks for what the interface forbids: %v", j.Name, wrong)
				}
			}
			return
		}
		found, ok := errors.AsType[Mistakes](err)
		if !ok || len(found) == 0 {
			t.Fatalf("the error is %v", err)
		}
		lines := strings.Count(string(src), "\n") + 1
		for _, m := range found {
			if m.Line < 1 || m.Line > lines || m.Column < 1 {
				t.Errorf("%v is outside the file", m)
			}
		}
		if text := err.Error(); strings.Contains(text, secret) && !strings.Contains(string(src), secret) {
			t.Errorf("the mistakes show a value from outside:\n%s", text)
		}
	})
}
