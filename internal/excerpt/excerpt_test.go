package excerpt

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestLongTextIsCutBetweenCharacters(t *testing.T) {
	for _, tt := range []struct {
		name, got, want string
	}{
		{"runes, short enough", Runes("höhe", 4), "höhe"},
		{"runes, one too many", Runes("höhen", 4), "höh…"},
		{"runes, more bytes than characters", Runes("ééé", 3), "ééé"},
		{"runes, one", Runes("ab", 1), "…"},
		{"bytes, short enough", Bytes("höhe", 5, "…"), "höhe"},
		{"bytes, between characters", Bytes("aéébcd", 7, "…"), "aé…"},
		{"bytes, within a character", Bytes("aéébcd", 5, "…"), "a…"},
		{"bytes of a slice", string(Bytes([]byte("aéébcd"), 5, ">")), "aé>"},
		{"prefix, within a character", Prefix("aéb", 2), "a"},
		{"prefix of nothing", Prefix("ab", 0), ""},
		{"no characters at all", Prefix("\x80\x80\x80\x80\x80\x80", 5), "\x80"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}

// An excerpt is never too long and never splits a character.
func TestExcerptKeepsLimitAndCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, most := rapid.String().Draw(t, "s"), rapid.IntRange(len(Mark), 20).Draw(t, "most")
		for name, cut := range map[string]string{"Runes": Runes(s, most), "Bytes": Bytes(s, most, Mark)} {
			size := utf8.RuneCountInString
			if name == "Bytes" {
				size = func(s string) int { return len(s) }
			}
			kept := strings.TrimSuffix(cut, Mark)
			if size(cut) > most || !utf8.ValidString(cut) || !strings.HasPrefix(s, kept) {
				t.Fatalf("%s(%q, %d) is %q", name, s, most, cut)
			}
			if size(s) <= most && cut != s {
				t.Fatalf("%s(%q, %d) is %q, which was short enough", name, s, most, cut)
			}
		}
	})
}
