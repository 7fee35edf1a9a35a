package schema

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
)

// Drift is counted by name, and the number of names and the length of an example are bounded.
func TestDriftIsCountedByName(t *testing.T) {
	d := newDecoder(t)
	body := hitWith(`"new":"` + strings.Repeat("é", 300) + `"`)
	for range 3 {
		if err := d.Decode(source(outlier.OpSearch), []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	drift := d.Drift()
	if len(drift) != 1 || drift[0].Count != 3 || drift[0].Op != outlier.OpSearch || drift[0].Path != "hits[].new" {
		t.Fatalf("drift %+v", drift)
	}
	if e := drift[0].Example; len(e) > maxExample || !utf8.ValidString(e) || !strings.HasPrefix(e, `"éé`) || !strings.HasSuffix(e, "é…") {
		t.Errorf("example %q", e)
	}
	var many []string
	for i := range 2 * maxDrifts {
		many = append(many, fmt.Sprintf(`"f%d":%d`, i, i))
	}
	if err := d.Decode(source(outlier.OpSearch), []byte(hitWith(strings.Join(many, ",")))); err != nil {
		t.Fatal(err)
	}
	if n := len(d.Drift()); n != maxDrifts {
		t.Errorf("%d names are kept, want %d", n, maxDrifts)
	}
	take(t, d)
}

func TestDriftIsReportedOnce(t *testing.T) {
	d, at := newDecoder(t), source(outlier.OpSearch).ObservedAt
	for range 2 {
		if err := d.Decode(source(outlier.OpSearch), []byte(hitWith(`"new":[1, 2]`))); err != nil {
			t.Fatal(err)
		}
		want := []Drift{{Op: outlier.OpSearch, Path: "hits[].new", Problem: "unknown", Count: 1, First: at, Last: at, Example: "[1, 2]"}}
		if diff := cmp.Diff(want, d.Drift()); diff != "" {
			t.Error(diff)
		}
	}
	if again := d.Drift(); len(again) > 0 {
		t.Errorf("drift %v was reported before", again)
	}
	take(t, d)
}

func TestDriftOfRefusedJSONIsCounted(t *testing.T) {
	at := source(outlier.OpSearch).ObservedAt
	for _, c := range []struct {
		body string
		want []Drift
	}{
		{hitWith(`"new":1`) + "}", nil},
		{`{"new":null,"hits":{"id":"x"}}`, []Drift{
			{outlier.OpSearch, "hits", "of the wrong type", 1, at, at, `{"id":"x"}`},
			{outlier.OpSearch, "new", "unknown", 1, at, at, "null"},
		}},
	} {
		d := newDecoder(t)
		if err := d.Decode(source(outlier.OpSearch), []byte(c.body)); err == nil {
			t.Errorf("%s was read", c.body)
		}
		if diff := cmp.Diff(c.want, d.Drift()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.body, diff)
		}
	}
}

func TestRowsAreCountedPerAnswer(t *testing.T) {
	d := newDecoder(t)
	counted := func(s Source, body string, want map[string]int64) {
		t.Helper()
		err := d.Decode(s, []byte(body))
		if diff := cmp.Diff(want, d.Counted()); diff != "" {
			t.Errorf("%s (%v, -want +got):\n%s", s.Op, err, diff)
		}
	}
	hits := map[string]int64{"outliers": 2, "outliers_history": 2}
	counted(source(outlier.OpSearch), example(t, outlier.OpSearch), hits)
	counted(source(outlier.OpSearch), example(t, outlier.OpSearch), hits)
	counted(source(outlier.OpComments), example(t, outlier.OpComments),
		map[string]int64{"comments": 3, "comments_history": 3, "comment_counts": 1, "comment_counts_history": 1})
	take(t, d)
	counted(source(outlier.OpSearch), example(t, outlier.OpSearch), hits)
	counted(source(outlier.OpSearch), example(t, outlier.OpSearch)+"}", map[string]int64{})
	counted(source(outlier.OpTrendingFormats), "[1,2,3]", map[string]int64{"trending_formats": 3})
	none := source(outlier.OpTranscript)
	none.Missing = true
	counted(none, "", map[string]int64{"missing": 1})
	take(t, d)
}
