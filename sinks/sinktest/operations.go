package sinktest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outlierd/schema"
	"outlierd/sinks"
)

// Here are the promises about the operations tables, which follow the state.

// runs are rows of an operations table; a status tells versions of a row apart.
func runs(mark int64, status ...string) sinks.Ops {
	var rows []Row
	for i, s := range status {
		row := variant(schema.OpsRuns, i)
		row["id"], row["status"] = mark+1+int64(i), s
		rows = append(rows, row)
	}
	return sinks.Ops{Part: schema.Part{Table: schema.OpsRuns, Rows: Record(schema.OpsRuns.Schema(), rows)}}
}

// Runs are the runs above the mark up to hi, of which those up to final are final.
func Runs(mark, hi, final int64) sinks.Ops {
	var rows []Row
	for id := mark + 1; id <= hi; id++ {
		row := variant(schema.OpsRuns, int(id))
		row["id"] = id
		rows = append(rows, row)
	}
	return sinks.Ops{Part: schema.Part{Table: schema.OpsRuns, Rows: Record(schema.OpsRuns.Schema(), rows)}, Mark: final}
}

func operations(t *testing.T, k Sink) {
	dir := t.TempDir()
	s := k.Open(t, dir)
	defer func() { closeSink(t, s) }()
	var final []Row // rows that must stay as they are
	for _, step := range []struct {
		told []string // statuses of the rows above the mark
		mark int64    // afterwards
	}{
		{[]string{"open"}, 0},
		{[]string{"open", "open", "ok"}, 0},
		{[]string{"ok", "open", "ok"}, 1},
		{[]string{"failed", "ok", "open", "open"}, 3},
		{[]string{"ok", "ok"}, 5},
		{nil, 5},
	} {
		before, err := s.OpsMark(t.Context(), schema.OpsRuns)
		if err != nil {
			t.Fatal(err)
		}
		told := runs(before, step.told...)
		told.Mark = step.mark
		publish(t, s, told)
		all := Rows(told.Part.Rows)
		if diff := cmp.Diff(lines(slices.Concat(final, all)), lines(k.rows(t, dir, schema.OpsRuns))); diff != "" {
			t.Errorf("told %v above %d (-want +got):\n%s", step.told, before, diff)
		}
		final = append(final, all[:step.mark-before]...)
		told.Part.Rows.Release()
		closeSink(t, s)
		s = k.Open(t, dir)
		if mark, err := s.OpsMark(t.Context(), schema.OpsRuns); err != nil || mark != step.mark {
			t.Errorf("mark = %d, %v; want %d", mark, err, step.mark)
		}
	}
}

func markBack(t *testing.T, k Sink) {
	s := k.Open(t, t.TempDir())
	defer closeSink(t, s)
	told := runs(0, "ok", "ok")
	defer told.Part.Rows.Release()
	told.Mark = 2
	publish(t, s, told)
	told.Mark = 1
	if err := s.Publish(t.Context(), []sinks.Ops{told}); err == nil {
		t.Error("mark 1 was accepted after 2")
	}
}
