package yamltree

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// filler returns Variables with a few variables, and files in a temporary folder.
func filler(t *testing.T) Variables {
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
	return Variables{Dir: dir, Env: func(name string) (string, bool) {
		value, set := map[string]string{"A": "alpha", "B_2": "beta", "EMPTY": "", "TRICKY": "${A} $${A} :-"}[name]
		return value, set
	}}
}

// expanded returns a text with its references expanded.
func expanded(v Variables, text string) (string, error) {
	f := New("jobs.yaml", nil, slices.Clone)
	n := &Node{Kind: Text, Raw: text, Text: text, file: f}
	(&Schema{Types: texts{"string"}}).Check(n, v)
	if found := f.Mistakes(); len(found) > 0 {
		return "", found
	}
	return n.Text, nil
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
		"${file:" + v.Dir + "/key}": "from-file",
	} {
		if got, err := expanded(v, text); err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", text, got, err, want)
		}
	}
}

func TestErrorsNameTheReference(t *testing.T) {
	v := filler(t)
	for text, want := range map[string]string{
		"${NONE}":            "the environment variable NONE is not set",
		"${EMPTY}":           "the environment variable EMPTY is empty",
		"${A":                "without its closing brace",
		"${}":                "${} is neither",
		"${1A}":              "${1A} is neither",
		"${A-x}":             "${A-x} is neither",
		"${NONE:-${A}}":      "the default of ${NONE} must not contain",
		"${file:none}":       "the file none does not exist",
		"${file:}":           "is not a regular file",
		"${file:.:-x}":       "is not a regular file",
		"${file:pipe}":       "is not a regular file",
		"${file:/dev/zero}":  "is not a regular file",
		"${file:large}":      "the file large has more than 65536 bytes",
		"${file:key/x:-now}": "the file key/x cannot be read: not a directory",
	} {
		if got, err := expanded(v, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %q with %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestTextWithoutBracesIsUnchanged(t *testing.T) {
	v := filler(t)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.ReplaceAll(rapid.String().Draw(t, "text"), "${", "")
		if got, err := expanded(v, text); err != nil || got != text {
			t.Fatalf("%q became %q (%v)", text, got, err)
		}
		if got, err := expanded(v, "$${"+text); err != nil || got != "${"+text {
			t.Fatalf("$${%s became %q (%v)", text, got, err)
		}
	})
}
