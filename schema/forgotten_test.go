package schema

import (
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"outlierd/outlier"
)

// TestRowsOfARedactedAnswer: the rows of a redacted answer are those of the answer without
// the rows about the id, with their ranks, and nothing counts as drift.
func TestRowsOfARedactedAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{11}`), 1, 12, rapid.ID).Draw(t, "ids")
		gone := rapid.SliceOfN(rapid.Bool(), len(ids), len(ids)).Draw(t, "gone")
		var hits []string
		for _, id := range ids {
			hits = append(hits, `{"id":"`+id+`","snippet":{"title":"of `+id+`"},"statistics":{"viewCount":7}}`)
		}
		body := `{"hits":[` + strings.Join(hits, ",") + `],"pagination":{"total":99,"from":0,"size":40},"time":"2026-11-22T00:00:00Z"}`
		forgotten := func(id string) bool { return gone[slices.Index(ids, id)] }
		clean, _, err := outlier.Redact([]byte(body), func(_, text []byte) bool {
			return slices.Contains(ids, string(text)) && forgotten(string(text))
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var want [][]string
		for _, row := range idsAndRanks(t, body) {
			if !forgotten(row[0]) {
				want = append(want, row)
			}
		}
		if diff := cmp.Diff(want, idsAndRanks(t, string(clean))); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// idsAndRanks are the rows of a page of hits. What is drift fails the test.
func idsAndRanks(t *rapid.T, body string) (rows [][]string) {
	d := NewDecoder(memory.DefaultAllocator)
	if err := d.Decode(source(outlier.OpSearch), []byte(body)); err != nil {
		t.Fatal(err)
	}
	if drift := d.Drift(); len(drift) > 0 {
		t.Errorf("drift %v in %s", drift, body)
	}
	for _, p := range d.Take() {
		defer p.Release()
		if p.Table != OutliersHistory {
			continue
		}
		for i := range int(p.Rows.NumRows()) {
			row := []string{}
			for _, name := range []string{"video_id", "title", "rank"} {
				row = append(row, p.Rows.Column(p.Rows.Schema().FieldIndices(name)[0]).ValueStr(i))
			}
			rows = append(rows, row)
		}
	}
	return rows
}
