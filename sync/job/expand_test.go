package job

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// filler fills in from a few variables and from files in a folder of its own.
func filler(t *testing.T) variables {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"key":     "from-file\n",
		"windows": "from-file\r\n",
		"two":     "one\ntwo\n\n",
		"empty":   "",
		"large":   strings.Repeat("x", maxSecret+1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	return variables{dir: dir, env: func(name string) (string, bool) {
		value, set := map[string]string{"A": "alpha", "B_2": "beta", "EMPTY": "", "TRICKY": "${A} $${A} :-"}[name]
		return value, set
	}}
}

func TestVariablesAndFilesAreFilledIn(t *testing.T) {
	v := filler(t)
	for text, want := range map[string]string{
		"":                          "",
		"plain":                     "plain",
		"${A}":                      "alpha",
		"x${A}y${B_2}z":             "xalphaybetaz",
		"${A:-other}":               "alpha",
		"${NONE:-other}":            "other",
		"${NONE:-}":                 "",
		"${EMPTY:-other}":           "other",
		"${NONE:-sim://}":           "sim://",
		"${NONE:-a:-b}":             "a:-b",
		"$${A}":                     "${A}",
		"$${A} ${A}":                "${A} alpha",
		"$A $5 $$":                  "$A $5 $$",
		"${TRICKY}":                 "${A} $${A} :-",
		"${file:key}":               "from-file",
		"${file:windows}":           "from-file",
		"${file:two}":               "one\ntwo\n",
		"${file:empty}":             "",
		"${file:none:-other}":       "other",
		"${file:/none/at/all:-}":    "",
		"${file:" + v.dir + "/key}": "from-file",
	} {
		if got, err := v.fill(text); err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", text, got, err, want)
		}
	}
}

func TestWhatCannotBeFilledInIsNamed(t *testing.T) {
	v := filler(t)
	for text, want := range map[string]string{
		"${NONE}":            "the environment variable NONE is not set",
		"${EMPTY}":           "the environment variable EMPTY is set to nothing",
		"${A":                "without its closing brace",
		"${}":                "${} is neither",
		"${1A}":              "${1A} is neither",
		"${A-x}":             "${A-x} is neither",
		"${NONE:-${A}}":      "the default of ${NONE} holds another",
		"${file:none}":       "the file none does not exist",
		"${file:}":           "is not a regular file",
		"${file:.:-x}":       "is not a regular file",
		"${file:pipe}":       "is not a regular file",
		"${file:/dev/zero}":  "is not a regular file",
		"${file:large}":      "the file large has more than 65536 bytes",
		"${file:key/x:-now}": "the file key/x cannot be read: not a directory",
	} {
		if got, err := v.fill(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %q with %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestTextWithoutBracesStaysAsItIs(t *testing.T) {
	v := filler(t)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.ReplaceAll(rapid.String().Draw(t, "text"), "${", "")
		if got, err := v.fill(text); err != nil || got != text {
			t.Fatalf("%q became %q (%v)", text, got, err)
		}
		if got, err := v.fill("$${" + text); err != nil || got != "${"+text {
			t.Fatalf("$${%s became %q (%v)", text, got, err)
		}
	})
}

// A word without quotes takes its type from what is filled in, a quoted one is text.
func TestFilledInValuesHaveTheTypeOfTheirWords(t *testing.T) {
	env := func(name string) (string, bool) {
		value, set := map[string]string{"N": "12", "YES": "true", "NULL": "~"}[name]
		return value, set
	}
	config, err := Parse("jobs.yaml", []byte(`
version: 1
service:
  url: sim://
  allow_http: ${YES}
budget:
  per_month: ${N}
jobs:
  a:
    about: ${NULL}
    search:
      query: "${N}"
      pages: ${N}
`), env)
	if err != nil {
		t.Fatal(err)
	}
	if got := *config.Budget.PerMonth; got != 12 || !config.Service.AllowHTTP {
		t.Errorf("per_month is %d, allow_http %v", got, config.Service.AllowHTTP)
	}
	if a := config.Jobs[0]; a.About != "~" || a.Pages != 12 || asks(t, &a)[0].Queries[0] != "12" {
		t.Errorf("the job is %+v", a)
	}
}

func TestKeys(t *testing.T) {
	parse := func(service string) (*Config, error) {
		return Parse("jobs.yaml", []byte("version: 1\nservice: "+service+"\nbudget: {per_month: 9}\njobs: {a: {search: {}}}\n"), environment)
	}
	for _, service := range []string{
		`{url: "https://x.example", key: "${OUTLIERD_KEY}"}`,
		`{url: "https://x.example", key: "${OUTLIERD_KEY:-}"}`,
	} {
		config, err := parse(service)
		if err != nil || config.Service.Key.IsZero() {
			t.Errorf("%s: %v", service, err)
		}
	}
	for _, service := range []string{
		`{url: "sim://", key: "${file:/no/such/file:-}"}`,
		`{url: "sim://", key: ""}`,
	} {
		config, err := parse(service)
		if err != nil || !config.Service.Key.IsZero() {
			t.Errorf("%s: %v", service, err)
		}
	}
	for service, want := range map[string]string{
		`{url: "https://x.example", key: ""}`:                    "the key is empty",
		`{url: "https://x.example", key: "${NONE:-}"}`:           `"${NONE:-}": the key is empty`,
		`{url: "https://x.example", key: abc}`:                   "clear text",
		`{url: "https://x.example", key: 12345}`:                 "clear text",
		`{url: "https://x.example", key: "${NONE:-abc}"}`:        "clear text",
		`{url: "https://x.example", key: "a${OUTLIERD_KEY}"}`:    "clear text",
		`{url: "sim://", key: abc}`:                              "clear text",
		`{url: "sim://", key: "${OUTLIERD_KEY}"}`:                "sim:// takes no key",
		`{url: "https://x.example"}`:                             "key is missing",
		`{url: "http://x.example", key: "${OUTLIERD_KEY}"}`:      "clear text; use https",
		`{url: "https://u:p@x.example", key: "${OUTLIERD_KEY}"}`: "user and password",
	} {
		_, err := parse(service)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s gives %v, want %q", service, err, want)
		}
	}
}
