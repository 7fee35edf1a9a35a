package yamltree

import (
	"testing"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	known := []string{"schedule", "search", "every", "enrich", "about", "budget", "stop_after"}
	for word, want := range map[string]string{
		"shedule":   "schedule",
		"scheduel":  "schedule",
		"schedules": "schedule",
		"serach":    "search",
		"stopafter": "stop_after",
		"evrey":     "every",
		"ver":       "", // two letters short of every
		"zzz":       "",
		"x":         "",
		"":          "",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestDistanceIsSymmetric(t *testing.T) {
	word := rapid.StringOfN(rapid.RuneFrom([]rune("abé")), 0, 8, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := []rune(word.Draw(t, "a")), []rune(word.Draw(t, "b"))
		d := editDistance(a, b)
		if d != editDistance(b, a) || (d == 0) != (string(a) == string(b)) || d > max(len(a), len(b)) {
			t.Fatalf("distance(%q, %q) = %d, and %d in the other order; want the same, at most the length of the longer one, "+
				"and 0 only for equal words", string(a), string(b), d, editDistance(b, a))
		}
	})
}
