package term

import (
	"testing"
)

func TestWidthAsATerminalCounts(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "abc": 3, "é": 1, "e\u0301": 1, "コ": 2, "ｶ": 1, "한": 2, "☕": 2, "⚡": 2, "🎥": 2, "→": 1, "—": 1, "…": 1, "█": 1,
		"👨\u200d👩": 4, "a\u200bb": 2, "Ａ": 2, "𠀀": 2, "🇩🇪": 2,
	} {
		if got := Width(text); got != want {
			t.Errorf("width(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestClippedTextFits(t *testing.T) {
	for _, test := range []struct {
		text    string
		columns int
		want    string
	}{
		{"espresso", 8, "espresso"}, {"espresso", 7, "espres…"}, {"コーヒー", 8, "コーヒー"}, {"コーヒー", 7, "コーヒ…"}, {"コーヒー", 6, "コー…"},
		{"a\x1b[2J", 9, "a\ufffd[2J"}, {"espresso", 1, "…"}, {"espresso", 0, ""}, {"espresso", -1, ""},
	} {
		if got := Clip(test.text, test.columns); got != test.want || Width(got) > max(0, test.columns) {
			t.Errorf("clip(%q, %d) = %q, want %q", test.text, test.columns, got, test.want)
		}
	}
}
