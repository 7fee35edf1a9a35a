package schema

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
)

// TestAnswersListRemovedRows: an empty list of comments ends the comments that were there, and
// an answer with rows that there was none.
func TestAnswersListRemovedRows(t *testing.T) {
	none := []string(nil)
	comments := []string{"comments: " + someVideo + " by 7"}
	there := func(op outlier.Operation, id string) []string {
		return []string{fmt.Sprintf("missing: %s %s by 7", op, id)}
	}
	item := func(inside string) string {
		return `{"ids":["` + someVideo + `"],"items":[{"id":"` + someVideo + `"` + inside + `}]}`
	}
	for name, tt := range map[string]struct {
		op      outlier.Operation
		body    string
		missing bool
		want    []string
	}{
		"no comments":           {outlier.OpComments, item(`,"comments":[],"statistics":{"count":0}`), false, append(comments, there(outlier.OpComments, someVideo)...)},
		"comments":              {outlier.OpComments, item(`,"comments":[{"text":"x"}],"statistics":{"count":1}`), false, there(outlier.OpComments, someVideo)},
		"none that can be read": {outlier.OpComments, item(`,"comments":["x"]`), false, there(outlier.OpComments, someVideo)},
		"null":                  {outlier.OpComments, item(`,"comments":null`), false, there(outlier.OpComments, someVideo)},
		"not told":              {outlier.OpComments, item(``), false, there(outlier.OpComments, someVideo)},
		"no video":              {outlier.OpComments, `{"ids":[],"items":[]}`, false, none},
		"a video without an id": {outlier.OpComments, `{"ids":[],"items":[{"comments":[]}]}`, false, none},
		"not there":             {outlier.OpComments, ``, true, none},
		"details":               {outlier.OpDetails, item(``), false, there(outlier.OpDetails, someVideo)},
		"details of another":    {outlier.OpDetails, `{"items":[{"id":"aaaaaaaaaaa"}]}`, false, none},
		"half an answer":        {outlier.OpComments, item(`,"comments":[]`)[:60], false, none},
		"a transcript":          {outlier.OpTranscript, item(`,"events":[{"text":"x"}]`), false, there(outlier.OpTranscript, someVideo)},
		"a search":              {outlier.OpSearch, `{"hits":[{"id":"` + someVideo + `"}]}`, false, none},
	} {
		d := newDecoder(t)
		s := source(tt.op)
		s.Response, s.Missing = 7, tt.missing
		_ = d.Decode(s, []byte(tt.body)) // what cannot be read tells nothing
		var got []string
		for _, p := range d.Take() {
			t.Cleanup(p.Release)
			if p.Gone == nil {
				continue
			}
			for i := range int(p.Gone.NumRows()) {
				row := p.Table.Name + ":"
				for c := range int(p.Gone.NumCols()) - 1 {
					row += " " + p.Gone.Column(c).ValueStr(i)
				}
				got = append(got, row+" by "+p.Gone.Column(int(p.Gone.NumCols())-1).ValueStr(i))
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
