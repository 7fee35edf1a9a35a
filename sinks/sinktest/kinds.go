package sinktest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/schema"
	"outlierd/sinks"
)

// This file has a test for each kind of table, with a journal that is written in batches of several
// sizes.

// journalOf returns a journal with the given rows of each answer. The answers are a day apart.
func journalOf(table *schema.Table, answers ...[]Row) Journal {
	var j Journal
	for i, rows := range answers {
		a := Answer{
			ID: int64(i + 1), At: start.AddDate(0, 0, i),
			Rows: map[*schema.Table][]Row{}, Gone: map[*schema.Table][]Row{},
		}
		for _, row := range rows {
			a.add(table, row)
		}
		j = append(j, a)
	}
	return j
}

// expect writes a journal in batches of several sizes, and compares columns of the published rows, sorted.
func (open Open) expect(t *testing.T, j Journal, table *schema.Table, columns, want []string) {
	t.Helper()
	for _, batches := range splits(t, int64(len(j))) {
		l := open.Line(t, t.TempDir())
		var lo int64
		for _, hi := range batches {
			l.Write(t, j, lo, hi)
			lo = hi
		}
		l.Publish(t)
		var got []string
		for _, row := range l.Copy.Read(t, table) {
			got = append(got, key(row, columns))
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("batches %v (-want +got):\n%s", batches, diff)
		}
		l.Close(t)
	}
}

func lastObservationWins(t *testing.T, open Open) {
	video := func(id, title string) Row { return Row{"video_id": id, "title": title} }
	j := journalOf(schema.Outliers,
		[]Row{video("a", "first"), video("b", "only"), video("a", "second")},
		[]Row{video("a", "third")})
	want := []string{`"a"|"third"|3|`, `"b"|"only"|1|`}
	open.expect(t, j, schema.Outliers, []string{"video_id", "title", sinks.TimesSeen}, want)
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

func replacedWhole(t *testing.T, open Open) {
	event := func(video string, position int64, text string) Row {
		return Row{"video_id": video, "position": position, "text": text}
	}
	j := journalOf(schema.TranscriptEvents,
		[]Row{event("a", 0, "one"), event("a", 1, "two"), event("a", 2, "three")},
		[]Row{event("b", 0, "other")},
		[]Row{event("a", 0, "uno"), event("a", 1, "dos")})
	want := []string{`"a"|0|"uno"|`, `"a"|1|"dos"|`, `"b"|0|"other"|`}
	open.expect(t, j, schema.TranscriptEvents, []string{"video_id", "position", "text"}, want)
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

// splits returns ways to divide n answers into batches, each as the ends of the batches: one batch, a batch
// for each answer, and two others at random; all if there are at most four, or if -rapid.checks is set.
func splits(t *testing.T, n int64) [][]int64 {
	all := everySplit(n)
	last := len(all) - 1
	if checksAreSet() || last <= 3 {
		return all
	}
	i, j := 1+rand.IntN(last-1), 1+rand.IntN(last-1)
	t.Logf("batches at random: %v, %v", all[i], all[j])
	return [][]int64{all[0], all[i], all[j], all[last]}
}

func everySplit(n int64) (all [][]int64) {
	for cuts := range 1 << (n - 1) {
		var his []int64
		for hi := int64(1); hi < n; hi++ {
			if cuts>>(hi-1)&1 == 1 {
				his = append(his, hi)
			}
		}
		all = append(all, append(his, n))
	}
	return all
}

func onlyChanges(t *testing.T, open Open) {
	channel := func(id string, title any) Row {
		row := Row{"channel_id": id}
		if title != nil {
			row["title"] = title
		}
		return row
	}
	j := journalOf(schema.ChannelsHistory,
		[]Row{channel("a", "x"), channel("b", nil), channel("a", "x")},
		[]Row{channel("a", "y"), channel("b", nil)},
		[]Row{channel("a", "x"), channel("b", "")})
	want := []string{`"a"|"x"|1|`, `"a"|"x"|3|`, `"a"|"y"|2|`, `"b"|""|3|`, `"b"|<nil>|1|`}
	open.expect(t, j, schema.ChannelsHistory, []string{"channel_id", "title", sinks.ResponseID}, want)
}

func logGrows(t *testing.T, open Open) {
	format := func(position int64, value string) Row { return Row{"position": position, "value": value} }
	j := journalOf(schema.TrendingFormats,
		[]Row{format(0, `{"a":1}`), format(1, `null`), format(1, `null`)},
		[]Row{format(0, `{"a":1}`)},
		[]Row{format(0, `[]`)})
	want := []string{"0|\"[]\"|3|", "0|\"{\\\"a\\\":1}\"|1|", "0|\"{\\\"a\\\":1}\"|2|", "1|\"null\"|1|", "1|\"null\"|1|"}
	open.expect(t, j, schema.TrendingFormats, []string{"position", "value", sinks.ResponseID}, want)
}
