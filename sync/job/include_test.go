package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outlierd/sync/yamltree"
)

// folderOf writes files into a new folder, which becomes the working one. A name with -> is a symbolic link.
func folderOf(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		link, target, isLink := strings.Cut(name, " -> ")
		err := os.MkdirAll(filepath.Dir(link), 0o700)
		switch {
		case isLink:
			err = errors.Join(err, os.Symlink(target, link))
		case strings.HasSuffix(name, "/"):
			err = errors.Join(err, os.MkdirAll(name, 0o700))
		default:
			err = errors.Join(err, os.WriteFile(name, []byte(text), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

const including = "version: 1\nservice: {url: \"sim://\"}\ninclude: jobs.d/*.yaml\n"

// Included files and the job file are one file: jobs may use the lists, filters and notifications of all of
// them.
func TestIncludedFilesJoinJobFile(t *testing.T) {
	folderOf(t, map[string]string{
		"jobs.yaml": including + "lists: {langs: [en, de]}\nnotify: {team: {webhook: \"\"}}\n" +
			"jobs: {main: {search: {query: x, where: {use: strong}}, after: tea}}\n",
		"jobs.d/b.yaml":                 "jobs: {tea: {search: {query: y, where: {language: {list: langs}}}, notify: [team, mine]}}\nnotify: {mine: {webhook: \"\"}}\n",
		"jobs.d/a.yaml":                 "filters: {strong: {z_score: 2..}}\njobs:\n  coffee: {channels: {id: {file: ids.txt}}}\n",
		"jobs.d/empty.yaml":             "# nothing\n",
		"jobs.d/.#lock.yaml":            "hidden: [\n",
		"jobs.d/notes.txt":              "not: [read\n",
		"jobs.d/below/c.yaml":           "not: [read\n",
		"jobs.d/z.yaml -> ../elsewhere": "",
		"elsewhere":                     "questions: {best: select 1}\n",
	})
	c, err := Load("jobs.yaml", nothingSet)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, j := range c.Jobs {
		names = append(names, fmt.Sprintf("%s at %s", j.Name, j.At))
	}
	want := []string{"main at jobs.yaml:6:8", "coffee at jobs.d/a.yaml:3:3", "tea at jobs.d/b.yaml:1:8"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("jobs (-want +got)\n%s", diff)
	}
	if got := c.Job("coffee").ask.From["id"].File; got != filepath.Join(c.Dir, "ids.txt") {
		t.Errorf("a path in an included file means %s", got)
	}
	if len(c.Questions) != 1 || c.Questions[0].At.File != "jobs.d/z.yaml" || len(c.Targets) != 2 {
		t.Errorf("questions %v, targets %v", c.Questions, c.Targets)
	}
	if m := (yamltree.Mistakes{c.Mistake(c.Job("tea").At, "jobs.tea: no", "")}).Error(); !strings.HasPrefix(m, "jobs.d/b.yaml:1:8: ") || !strings.Contains(m, "1 | jobs: {tea") {
		t.Errorf("a mistake that is found later is %s", m)
	}
	if got := c.Files(); got != "jobs.yaml with 4 included files" {
		t.Errorf("the files are %s", got)
	}
	once, err := c.Once(OneOff{Keys: Keys{"search.query": {"x"}, "search.where.use": {"strong"}}})
	if err != nil || once.ask.Params.Get("zScoreFrom") == "" {
		t.Errorf("a one-off request with an included filter: %v, %v", once, err)
	}
}

// TestMistakesInIncludedFiles: each names the file, line and column, and what to do.
func TestMistakesInIncludedFiles(t *testing.T) {
	const job = "jobs: {tea: {search: {query: x}}}\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"two files with one job": {map[string]string{"jobs.yaml": including, "jobs.d/a.yaml": job, "jobs.d/b.yaml": "# b\n" + job},
			"jobs.d/b.yaml:2:8: jobs.tea: duplicate key, first at jobs.d/a.yaml:1:8"},
		"a job of the job file": {map[string]string{"jobs.yaml": including + job, "jobs.d/a.yaml": job},
			"jobs.d/a.yaml:1:8: jobs.tea: duplicate key, first at jobs.yaml:4:8"},
		"a wrong key": {map[string]string{"jobs.yaml": including + job, "jobs.d/a.yaml": "jobs:\n  b: {shedule: x, search: {query: x}}\n"},
			"jobs.d/a.yaml:2:7: jobs.b.shedule: unknown key; did you mean schedule?"},
		"a meaning that is wrong": {map[string]string{"jobs.yaml": including + job, "jobs.d/a.yaml": "jobs: {b: {after: tee, search: {query: x}}}\n"},
			"jobs.d/a.yaml:1:19: jobs.b.after: must be the name of a job, got \"tee\"; did you mean tea?"},
		"a setting": {map[string]string{"jobs.yaml": including + job, "jobs.d/a.yaml": "budget: {per_month: 5}\n"},
			"jobs.d/a.yaml:1:1: budget: an included file has only alerts, filters, jobs, lists, notify, questions, reports; move it to jobs.yaml"},
		"an include": {map[string]string{"jobs.yaml": including + job, "jobs.d/a.yaml": "include: b.yaml\n"},
			"jobs.d/a.yaml:1:1: include: an included file has only"},
		"an unknown key": {map[string]string{"jobs.yaml": including + job, "jobs.d/a.yaml": "jbos: {}\n"},
			"jobs.d/a.yaml:1:1: jbos: unknown key; did you mean jobs?"},
		"an unknown key of two files": {map[string]string{"jobs.yaml": including + job, "jobs.d/a.yaml": "jbos: 1\n", "jobs.d/b.yaml": "jbos: 2\n"},
			"jobs.d/b.yaml:1:1: jbos: unknown key; did you mean jobs?"},
		"a list": {map[string]string{"jobs.yaml": including + job, "jobs.d/a.yaml": "- tea\n"},
			"jobs.d/a.yaml:1:1: must be a mapping with alerts, filters"},
		"no YAML": {map[string]string{"jobs.yaml": including + job, "jobs.d/a.yaml": "jobs: {\n"},
			"jobs.d/a.yaml:2:1: not YAML"},
		"Latin 1": {map[string]string{"jobs.yaml": including + job, "jobs.d/a.yaml": "# caf\xe9\n"},
			"jobs.d/a.yaml:1:6: not UTF-8 text; save the file as UTF-8"},
		"an anchor of another file": {map[string]string{"jobs.yaml": including + "x-w: &w {z_score: 2..}\n" + job, "jobs.d/a.yaml": "filters: {a: *w}\n"},
			"jobs.d/a.yaml:1:14: not YAML: unknown anchor 'w' referenced"},
		"a folder": {map[string]string{"jobs.yaml": including + job, "jobs.d/a.yaml/": ""},
			"jobs.yaml:3:10: include: jobs.d/a.yaml is not a regular file"},
		"a broken link": {map[string]string{"jobs.yaml": including + job, "jobs.d/a.yaml -> nowhere": ""},
			"jobs.yaml:3:10: include: the file jobs.d/a.yaml does not exist"},
		"a link to itself": {map[string]string{"jobs.yaml": including + job, "jobs.d/a.yaml -> a.yaml": ""},
			"jobs.yaml:3:10: include: the file jobs.d/a.yaml cannot be read: too many levels of symbolic links"},
		"a missing file": {map[string]string{"jobs.yaml": "version: 1\nservice: {url: \"sim://\"}\ninclude: [jobs.d/*.yaml, team.yaml]\n" + job, "jobs.d/": ""},
			"jobs.yaml:3:26: include: the file team.yaml does not exist"},
		"a bad pattern": {map[string]string{"jobs.yaml": strings.Replace(including, "*", "'[a'", 1) + job},
			`include: "jobs.d/'[a'.yaml" is not a pattern: syntax error in pattern`},
		"a file for a folder": {map[string]string{"jobs.yaml": including + job, "jobs.d": ""},
			"jobs.yaml:3:10: include: no file is included: open jobs.d: not a directory"},
		"a variable that is not set": {map[string]string{"jobs.yaml": including + job, "jobs.d/a.yaml": "notify: {a: {webhook: \"${HOOK}\"}}\n"},
			"jobs.d/a.yaml:1:23: notify.a.webhook: the environment variable HOOK is not set"},
		"too much": {map[string]string{"jobs.yaml": including + job, "jobs.d/a.yaml": strings.Repeat("# x\n", 200_000), "jobs.d/b.yaml": strings.Repeat("# x\n", 200_000)},
			"jobs.yaml:3:10: include: the file and those that it includes have more than 1048576 bytes"},
		"an included file alone": {map[string]string{"jobs.yaml": job},
			"jobs.yaml:1:1: service is missing; add service: {\"url\":\"sim://\"}, or name the file that includes this one with --config"},
	} {
		t.Run(name, func(t *testing.T) {
			folderOf(t, c.files)
			_, err := Load("jobs.yaml", nothingSet)
			wants := 1
			if name == "an included file alone" || name == "an unknown key of two files" {
				wants = 2
			}
			found, ok := errors.AsType[yamltree.Mistakes](err)
			if !ok || len(found) != wants || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %d mistakes: %s", err, wants, c.want)
			}
		})
	}
}

// TestIncludedFolderMayBeEmpty but not missing, so that a folder that is gone for a moment removes no jobs.
func TestIncludedFolderMayBeEmpty(t *testing.T) {
	text := "jobs: {tea: {search: {query: x}}}\n"
	folderOf(t, map[string]string{"jobs.yaml": including + text, "self.yaml": strings.Replace(including, "jobs.d/*.yaml", "\"*.yaml\"", 1) + text})
	if _, err := Load("jobs.yaml", nothingSet); err == nil ||
		!strings.Contains(err.Error(), "jobs.yaml:3:10: include: the folder does not exist; an empty one is fine") {
		t.Errorf("without the folder: %v", err)
	}
	if err := errors.Join(os.Mkdir("jobs.d", 0o700), os.Remove("jobs.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"self.yaml", "./self.yaml"} { // the pattern names the file itself
		if c, err := Load(path, nothingSet); err != nil || len(c.Warnings) != 0 || len(c.Jobs) != 1 {
			t.Errorf("%s, which includes *.yaml: %v", path, err)
		}
	}
}

// TestEditsOfIncludedFilesAreSeen: a new file, a removed one, one under another name, and an edit.
func TestEditsOfIncludedFilesAreSeen(t *testing.T) {
	const text = "jobs: {tea: {search: {query: x}}}\n"
	for name, edit := range map[string]func() error{
		"edit":   func() error { return os.WriteFile("jobs.d/a.yaml", []byte(text+"# more\n"), 0o600) },
		"new":    func() error { return os.WriteFile("jobs.d/b.yaml", nil, 0o600) },
		"remove": func() error { return os.Remove("jobs.d/a.yaml") },
		"rename": func() error { return os.Rename("jobs.d/a.yaml", "jobs.d/b.yaml") },
	} {
		t.Run(name, func(t *testing.T) {
			folderOf(t, map[string]string{"jobs.yaml": including + "jobs: {x: {search: {query: x}}}\n", "jobs.d/a.yaml": text, "jobs.d/notes": ""})
			c, err := Load("jobs.yaml", nothingSet)
			if err != nil {
				t.Fatalf("before: %v", err)
			}
			if err := errors.Join(os.Remove("jobs.d/notes"), edit()); err != nil {
				t.Fatal(err)
			}
			after, err := Load("jobs.yaml", nothingSet)
			if err != nil || after.Fingerprint == c.Fingerprint {
				t.Errorf("the files are as before: %v", err)
			}
		})
	}
}

func TestThousandsOfIncludedFilesAreRead(t *testing.T) {
	folderOf(t, map[string]string{"jobs.yaml": including, "jobs.d/": ""})
	for n := range 2_000 {
		if err := os.WriteFile(fmt.Sprintf("jobs.d/%05d.yaml", n), fmt.Appendf(nil, "jobs: {j%05d: {search: {query: x}}}\n", n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load("jobs.yaml", nothingSet)
	if err != nil || len(c.Jobs) != 2_000 || c.Jobs[1_999].At.File != "jobs.d/01999.yaml" {
		t.Fatalf("%v", err)
	}
}

func TestUnreadableIncludedFileIsAMistake(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads every file")
	}
	folderOf(t, map[string]string{"jobs.yaml": including, "jobs.d/a.yaml": ""})
	for _, spoil := range []struct {
		path string
		mode fs.FileMode
	}{{"jobs.d/a.yaml", 0}, {"jobs.d", 0}} {
		if err := os.Chmod(spoil.path, spoil.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Load("jobs.yaml", nothingSet); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: %v", spoil.path, err)
		}
	}
	_ = os.Chmod("jobs.d", 0o700)
}
