package yamltree

import (
	"slices"
	"strings"
	"testing"
)

func TestCommandLinesAreSplitAtBlanks(t *testing.T) {
	for line, want := range map[string][]string{
		" op read op://vault/item/key ": {"op", "read", "op://vault/item/key"},
		`security find -s "my key" -w`:  {"security", "find", "-s", "my key", "-w"},
		`sh -c 'cat "a b" | head'`:      {"sh", "-c", `cat "a b" | head`},
		`a"b c"d '' "" \n $X * ~ ; # é`: {"ab cd", "", "", `\n`, "$X", "*", "~", ";", "#", "é"},
		"a\tb\n c":                      {"a", "b", "c"},
		`it's`:                          nil,
		`say "it's`:                     nil,
		"  ":                            nil,
		`"" x`:                          nil,
	} {
		got, err := splitWords(line)
		if !slices.Equal(got, want) || (err != nil) != (want == nil) {
			t.Errorf("%s: %q, %v, want %q", line, got, err, want)
		}
	}
}

// FuzzSplitWords: words that are quoted come back as they are.
func FuzzSplitWords(f *testing.F) {
	f.Add("op read", "a b", "")
	f.Add("it's", `"`, "é\t")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		want := []string{"x" + a, b, c}
		var line strings.Builder
		for _, word := range want {
			word = strings.ToValidUTF8(word, "")
			quote := "'"
			if strings.Contains(word, quote) {
				quote = `"`
			}
			if strings.Contains(word, quote) {
				t.Skip("no quotes fit")
			}
			line.WriteString(" " + quote + word + quote)
		}
		got, err := splitWords(line.String())
		for i := range want {
			want[i] = strings.ToValidUTF8(want[i], "")
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", line.String(), got, err, want)
		}
		_, _ = splitWords(a + b)
	})
}
