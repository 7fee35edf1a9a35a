package job

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outlierd/sync/yamltree"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// secret is what must never be seen in a message.
const secret = "CANARY-4711"

// environment is what the files in testdata find set.
func environment(name string) (string, bool) {
	value, set := map[string]string{
		"OUTLIERD_KEY":   secret,
		"OUTLIERD_TOKEN": secret + secret,
		"READ_TOKEN":     "read" + secret + secret,
		"SECRET":         secret,
		"BAD_KEY":        secret + " " + secret,
		"EMPTY":          "",
	}[name]
	return value, set
}

func nothingSet(string) (string, bool) { return "", false }

func TestMistakesMatchGoldenFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/mistakes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of mistakes: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse("jobs.yaml", src, environment)
			if err == nil {
				t.Fatal("no mistake was found")
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden", err.Error())
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestMistakesHideKeysAndExternalValues(t *testing.T) {
	files, _ := filepath.Glob("testdata/mistakes/*.golden")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, hidden := range []string{"CANARY", "4711", "hunter2", "\x1b", "\u202e"} {
			if strings.Contains(string(text), hidden) {
				t.Errorf("%s shows %q", file, hidden)
			}
		}
	}
}

func TestMistakesStandInOrderAndOnce(t *testing.T) {
	src, err := os.ReadFile("testdata/mistakes/types.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Parse("jobs.yaml", src, nothingSet)
	found, ok := errors.AsType[yamltree.Mistakes](err)
	if !ok {
		t.Fatalf("the error is %T, not Mistakes", err)
	}
	for i := 1; i < len(found); i++ {
		a, b := found[i-1], found[i]
		if a.Line > b.Line || a.Line == b.Line && a.Column >= b.Column {
			t.Errorf("%v stands before %v", a, b)
		}
	}
}

// A value that the message of a mistake advises causes no other mistake.
func TestWhatIsAdvisedIsNoMistake(t *testing.T) {
	for _, c := range []struct{ part, value, advised string }{
		{"pages: %s", `"3"`, "3"},
		{"pages: %s", `"0"`, ""},
		{"pages: %s", `"1000001"`, ""},
	} {
		file := func(value string) []byte {
			return []byte(head + "jobs: {a: {search: {query: x, " + strings.Replace(c.part, "%s", value, 1) + "}}}\n")
		}
		_, err := Parse("jobs.yaml", file(c.value), nothingSet)
		found, ok := errors.AsType[yamltree.Mistakes](err)
		if !ok || len(found) != 1 {
			t.Fatalf("%s with %s: %v", c.part, c.value, err)
		}
		var advised []string
		for _, word := range strings.Fields(found[0].Hint) {
			if strings.ContainsAny(word, "0123456789") {
				advised = append(advised, word)
			}
		}
		if got := strings.Join(advised, " "); got != c.advised {
			t.Errorf("%s with %s: %q is advised, want %q", c.part, c.value, got, c.advised)
		}
		for _, value := range advised {
			if _, err := Parse("jobs.yaml", file(value), nothingSet); err != nil {
				t.Errorf("%s with %s is advised and refused:\n%v", c.part, value, err)
			}
		}
	}
}

func TestLimitsHold(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"size", strings.Repeat("# comment\n", 200_000), "more than the limit of 1048576"},
		{"values", "a: [" + strings.Repeat("x,", 100_001) + "]", "more than 100000 values, counting each use of an alias; move long lists into files"},
		{"brackets", strings.Repeat("[", 5_000) + strings.Repeat("]", 5_000), "nested more than 64 levels"},
		{"braces", strings.Repeat("{a: ", 5_000) + strings.Repeat("}", 5_000), "nested more than 64 levels"},
		{"more brackets", strings.Repeat("[", 1_000_000), "not YAML"},
		{"lists in lists", strings.Repeat("- ", 10_000), "nested more than 64 levels"},
		{"indentation", staircase(200), "nested more than 64 levels"},
		{"aliases", laughs(), "more than 100000 values"},
		{"aliases in aliases", ladder(80), "nested more than 64 levels"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("jobs.yaml", []byte(c.src), nothingSet)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.300v, want something with %q", err, c.want)
			}
		})
	}
}

// staircase is a file in which every key stands deeper than the one before.
func staircase(steps int) string {
	var b strings.Builder
	for i := range steps {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// laughs is ten lines that mean 9⁹ values.
func laughs() string {
	b := strings.Builder{}
	b.WriteString("x-0: &a0 x\n")
	for i := 1; i < 10; i++ {
		before, now := string(rune('0'+i-1)), string(rune('0'+i))
		b.WriteString("x-" + now + ": &a" + now + " [" + strings.Repeat("*a"+before+", ", 9) + "]\n")
	}
	return b.String() + "jobs: *a9\n"
}

// ladder is a chain of anchors, each of which holds the one before.
func ladder(rungs int) string {
	b := strings.Builder{}
	b.WriteString("x-0: &a0 x\n")
	for i := 1; i < rungs; i++ {
		b.WriteString("x-" + letters(i) + ": &a" + letters(i) + " {a: *a" + letters(i-1) + "}\n")
	}
	return b.String()
}

func letters(n int) string {
	if n == 0 {
		return "0"
	}
	return strings.Repeat("i", n)
}

func TestUnreadableFileIsMistake(t *testing.T) {
	dir := t.TempDir()
	_, err := Load(filepath.Join(dir, "jobs.yaml"), nothingSet)
	if _, ok := errors.AsType[yamltree.Mistakes](err); !ok || !strings.Contains(err.Error(), "outlierd init") {
		t.Errorf("a missing file gives %v", err)
	}
	_, err = Load(dir, nothingSet)
	if _, ok := errors.AsType[yamltree.Mistakes](err); !ok {
		t.Errorf("a folder gives %v", err)
	}
}

// TestExcerptsHidePasswordInAddress that was written where the key belongs.
func TestExcerptsHidePasswordInAddress(t *testing.T) {
	for url, shown := range map[string]string{
		"'https://me:hunter2@service.example'":     "'https://********@service.example'",
		"https://me:my hunter2@service.example":    "https://********@service.example",
		"https://me:a/hunter2@service.example":     "https://********@service.example",
		"me:hunter2@service.example":               "********@service.example",
		"'https://service.example/?key=hunter2'":   "'https://service.example/?********'",
		"'https://service.example/v1#hunter2' # x": "'https://service.example/v1#********' # x",
	} {
		_, err := Parse("jobs.yaml", []byte("version: 1\nservice:\n  url: "+url+"\nbudget: {per_month: 9}\njobs: {a: {search: {}}}\n"), nothingSet)
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "url: "+shown+"\n") {
			t.Errorf("%s: got %v", url, err)
		}
	}
	for to, shown := range map[string]string{
		"s3://AKIA:hunt/er2@bucket/copies": "s3://********@bucket/copies",
		"s3://bucket/copies?token=hunter2": "s3://bucket/copies?********",
	} {
		_, err := Parse("jobs.yaml", []byte("version: 1\nservice: {url: \"sim://\"}\nbackup:\n  to: "+to+"\njobs: {a: {search: {}}}\n"), nothingSet)
		if err == nil || strings.Contains(err.Error(), "er2") || !strings.Contains(err.Error(), "to: "+shown+"\n") {
			t.Errorf("%s: got %v", to, err)
		}
	}
}

// TestExcerptsShowAlertKey, which names columns, and no other key.
func TestExcerptsShowAlertKey(t *testing.T) {
	const alert = "alerts:\n  news:\n    sql: select 1\n    key: [video_id]\n    notyfi: team\n"
	for text, want := range map[string]string{
		alert: "|     key: [video_id]\n",
		"notify:\n  team: {webhook: hunter2}\n" + alert:                                     "|     key: [video_id]\n",
		alert + "service:\n  key: hunter2\n  urll: x\n":                                     "|   key: ********\n",
		"alerts:\n  news: {}\n  service: {key: hunter2}\n":                                  "|   service: {key: ********\n",
		"service: {url: \"sim://\"}\nalerts:\n  news:\n    token: hunter2\n    notyfi: x\n": "|     token: ********\n",
	} {
		_, err := Parse("jobs.yaml", []byte("version: 1\njobs: {a: {search: {}}}\n"+text), nothingSet)
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
