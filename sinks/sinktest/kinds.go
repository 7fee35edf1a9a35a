package sinktest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/schema"
	"outlierd/sinks"
)

// This file has examples of what is not obvious about the kinds of tables, beside the model.

// journalOf returns a journal with the given rows of each answer. The answers are a day apart.
func journalOf(table *schema.Table, answers ...[]Row) Journal {
	var j Journal
	for i, rows := range answers {
		a := answer(int64(i+1), start.AddDate(0, 0, i))
		for _, row := range rows {
			a.add(table, row)
		}
		j = append(j, a)
	}
	return j
}

// expect writes a journal in one batch and in a batch for each answer, and compares columns of the published rows,
// sorted.
func (open Open) expect(t *testing.T, j Journal, table *schema.Table, columns, want []string) {
	t.Helper()
	n := int64(len(j))
	for _, size := range []int64{1, n} {
		l := open.Line(t, t.TempDir())
		for lo := int64(0); lo < n; lo += size {
			l.Write(t, j, lo, lo+size)
		}
		l.Publish(t)
		var got []string
		for _, row := range l.Copy.Read(t, table) {
			got = append(got, key(row, columns))
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("batches of %d answers (-want +got):\n%s", size, diff)
		}
		l.Close(t)
	}
}

// grows: the previous value is of an earlier day, also if a key is seen twice a day, and whatever the
// batches.
func grows(t *testing.T, open Open) {
	video := func(id string, views any) Row { return Row{"video_id": id, "view_count": views} }
	j := journalOf(schema.Outliers,
		[]Row{video("a", int64(1)), video("b", int64(10)), video("c", nil)},
		[]Row{video("a", int64(2)), video("c", int64(5))},
		[]Row{video("a", int64(3)), video("a", int64(4))},
		[]Row{video("b", nil)},
		[]Row{video("a", int64(5))})
	j[1].At = j[0].At.Add(time.Minute) // two searches on one day
	for _, row := range j[1].Rows[schema.Outliers] {
		row[sinks.ObservedAt] = j[1].At
	}
	columns := []string{"video_id", "view_count", "previous_view_count", schema.PreviousSeenAt}
	at := func(i int) string { return fmt.Sprintf("%#v|", j[i].At) }
	want := []string{`"a"|5|4|` + at(2), `"b"|<nil>|10|` + at(0), `"c"|5|<nil>|<nil>|`}
	open.expect(t, j, schema.Outliers, columns, want)
}

// deletedIdentities: comments are deleted when an answer no longer has them, and missing ids when an answer
// has them.
func deletedIdentities(t *testing.T, open Open) {
	comment := func(video, text string) Row { return Row{"video_id": video, "comment_key": text, "text": text} }
	j := journalOf(schema.Comments,
		[]Row{comment("a", "one"), comment("a", "two"), comment("b", "other")},
		nil,
		[]Row{comment("b", "another")},
		[]Row{comment("c", "first")},
		nil)
	j[1].delete(schema.Comments, Row{"video_id": "a"})
	j[2].delete(schema.Comments, Row{"video_id": "never there"})
	j[4].delete(schema.Comments, Row{"video_id": "c"})
	j[4].delete(schema.Comments, Row{"video_id": "a"})
	want := []string{`"b"|"another"|`}
	open.expect(t, j, schema.Comments, []string{"video_id", "text"}, want)

	missing := func(id string) Row { return Row{"endpoint": "transcript", "id": id} }
	j = journalOf(schema.Missing,
		[]Row{missing("a"), missing("b"), missing("c")},
		[]Row{missing("a")},
		[]Row{missing("d")},
		[]Row{missing("b")})
	j[2].delete(schema.Missing, Row{"endpoint": "transcript", "id": "a"})
	j[2].delete(schema.Missing, Row{"endpoint": "transcript", "id": "b"})
	j[2].delete(schema.Missing, Row{"endpoint": "comments", "id": "c"})
	want = []string{`"b"|1|4|1|`, `"c"|1|1|1|`, `"d"|1|3|3|`} // b is missing again, in the part of its first answer
	open.expect(t, j, schema.Missing, []string{"id", sinks.TimesSeen, sinks.ResponseID, schema.FirstResponseID}, want)
}
