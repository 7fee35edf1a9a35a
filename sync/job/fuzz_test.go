package job

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"outlierd/outlier"
	"outlierd/sync/yamltree"
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
	f.Add([]byte(including + "jobs: {}\n"))
	f.Add([]byte(keyed(`"${command: sh -c 'touch ran'}"`)))
	f.Fuzz(func(t *testing.T, src []byte) {
		config, err := Parse("jobs.yaml", src, environment)
		if err == nil {
			if len(config.Jobs) == 0 || len(config.Sinks) == 0 || config.Timezone == nil || config.Service.URL == "" {
				t.Fatalf("a config without mistakes lacks something: %+v", config)
			}
			for _, j := range config.Jobs {
				obeys(t, &j)
			}
			return
		}
		found, ok := errors.AsType[yamltree.Mistakes](err)
		if !ok || len(found) == 0 {
			t.Fatalf("the error is %v", err)
		}
		lines := strings.Count(string(src), "\n") + 1
		for _, m := range found {
			if m.File != "jobs.yaml" {
				continue // it is included
			}
			if m.Line < 1 || m.Line > lines || m.Column < 1 {
				t.Errorf("%v is outside the file", m)
			}
		}
		if text := err.Error(); strings.Contains(text, secret) && !strings.Contains(string(src), secret) {
			t.Errorf("the mistakes show a value from outside:\n%s", text)
		}
	})
}

// obeys resolves a job whose SQL finds nothing, and holds it against the interface.
func obeys(t *testing.T, spec *Spec) {
	got, err := spec.Resolve(nothingKnown())
	if err != nil && !onlyRunsKnow(spec) {
		t.Fatalf("job %s cannot be resolved: %v", spec.Name, err)
	}
	for _, ask := range got.Asks {
		if ask.Query.Op() == outlier.OpTrendingFormats {
			continue
		}
		known := map[string]bool{"findBy": true}
		for _, f := range (&template{Op: ask.Query.Op()}).fields() {
			known[f.Name], known[f.Name+"From"], known[f.Name+"To"] = true, true, true
		}
		for name, values := range ask.Query.Params() {
			if !known[name] || len(values) == 0 {
				t.Fatalf("job %s sends %s = %q", spec.Name, name, values)
			}
		}
		if !json.Valid([]byte(ask.Watermark)) {
			t.Fatalf("the watermark of %s is %s", spec.Name, ask.Watermark)
		}
	}
}

// onlyRunsKnow reports whether a job has values that are not in its file.
func onlyRunsKnow(spec *Spec) bool {
	outside := func(s Source) bool { return s.File != "" || s.SQL != "" }
	for _, s := range spec.ask.From {
		if outside(s) {
			return true
		}
	}
	return slices.ContainsFunc(spec.Loops, func(l Loop) bool { return outside(l.Source) })
}
