package check

import "testing"

// TestOlderRowsAreThoseOfTheSinkThatLacksTheFewest and of which all is published, if there is one.
func TestOlderRowsAreThoseOfTheSinkThatLacksTheFewest(t *testing.T) {
	t.Parallel()
	waits, fine, broken := Result{Waiting: []string{"outliers"}}, Result{}, Result{Problems: []string{"damaged"}}
	for name, c := range map[string]struct {
		sinks   []Sink
		results []Result
		want    string
	}{
		"the first":                 {[]Sink{{Name: "a", Mark: 5}, {Name: "b", Mark: 5}}, []Result{fine, fine}, "a"},
		"not one that is damaged":   {[]Sink{{Name: "a", Mark: 5}, {Name: "b", Mark: 5}}, []Result{broken, fine}, "b"},
		"not one that is behind":    {[]Sink{{Name: "a", Mark: 4}, {Name: "b", Mark: 5}}, []Result{fine, fine}, "b"},
		"not one that waits":        {[]Sink{{Name: "a", Mark: 5}, {Name: "b", Mark: 5}}, []Result{waits, fine}, "b"},
		"one that waits, at worst":  {[]Sink{{Name: "a", Mark: 5}}, []Result{waits}, "a"},
		"not one that lacks rows":   {[]Sink{{Name: "a", Mark: 5, Lacks: 3}, {Name: "b", Mark: 5}}, []Result{fine, waits}, "b"},
		"one that lacks, at worst":  {[]Sink{{Name: "a", Mark: 5, Lacks: 3}, {Name: "b", Mark: 4}}, []Result{fine, fine}, "a"},
		"the one that lacks fewest": {[]Sink{{Name: "a", Mark: 5, Lacks: 3}, {Name: "b", Mark: 5, Lacks: 2}}, []Result{fine, fine}, "b"},
	} {
		if got := (&Check{}).like(5, c.sinks, c.results); got.Name != c.want {
			t.Errorf("%s: %q, want %q", name, got.Name, c.want)
		}
	}
}
