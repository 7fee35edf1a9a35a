//go:build duckdb_arrow

package duckdb

import (
	"os"
	"testing"
	"time"

	"outlierd/sinks/sinktest"
)

// TestVacuumMakesAFileOfSmallBatchesAsSmallAsOneOfOneLoad writes the same answers at once and one by one.
func TestVacuumMakesAFileOfSmallBatchesAsSmallAsOneOfOneLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("many batches, which race little; the ordinary run writes them")
	}
	const answers = 50
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	load, small := filled(t, answers, answers, &now), filled(t, answers, 1, &now)
	before := map[string]any{}
	for _, question := range tellingQuestions {
		before[question] = answer(t, small, question)
	}
	large := fileSize(t, small)
	publishAt := func(at time.Time) {
		t.Helper()
		now, small.dirty = at, true
		if err := small.Publish(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	publishAt(now.Add(vacuumEvery - time.Second))
	if got := fileSize(t, small); got < large {
		t.Errorf("it was vacuumed within the week: %d bytes, %d before", got, large)
	}
	publishAt(now.Add(time.Second))
	t.Logf("small batches %d kB, vacuumed %d kB, one load %d kB", large>>10, fileSize(t, small)>>10, fileSize(t, load)>>10)
	if got, want := fileSize(t, small), fileSize(t, load); float64(got) > 1.05*float64(want) || got > large*4/5 {
		t.Errorf("%d bytes of %d are left, one load takes %d", got, large, want)
	}
	for question, want := range before {
		if got := answer(t, small, question); got != want {
			t.Errorf("%s: %v, before %v", question, got, want)
		}
	}
	if content(t, small.options.Private) != content(t, small.options.Published) {
		t.Error("the published file is not the private one")
	}
	if _, err := os.Stat(small.options.Private + ".vacuumed"); !os.IsNotExist(err) {
		t.Errorf("a file is left: %v", err)
	}
	f, err := os.Open(small.options.Private) // while it is open, no other file can get its inode
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	publishAt(now.Add(vacuumEvery))
	is, err := os.Stat(small.options.Private)
	was, errWas := f.Stat()
	if err != nil || errWas != nil || !os.SameFile(is, was) {
		t.Errorf("a file without free blocks was vacuumed, %v %v", err, errWas)
	}
}

// tellingQuestions have one answer each, which a copy of the file must give, too. The order of rows
// counts: of some tables the last row of a key is the one that stands.
var tellingQuestions = []string{
	"SELECT md5(string_agg(t::VARCHAR, chr(10) ORDER BY rowid)) FROM warehouse.main.outliers AS t",
	"SELECT md5(string_agg(t::VARCHAR, chr(10) ORDER BY rowid)) FROM warehouse.main.outliers_history AS t",
	"SELECT string_agg(name || id, ' ' ORDER BY name) FROM warehouse.outlierd.marks WHERE name <> 'vacuum'",
	`SELECT string_agg(concat_ws(' ', schema_name, table_name, column_name, data_type, comment), chr(10)
		ORDER BY schema_name, table_name, column_index) FROM duckdb_columns() WHERE database_name = 'warehouse'`,
	"SELECT string_agg(concat_ws(' ', schema_name, table_name, comment), chr(10) ORDER BY ALL) FROM duckdb_tables() WHERE database_name = 'warehouse'",
	`SELECT string_agg(concat_ws(' ', schema_name, view_name, comment, sql), chr(10) ORDER BY ALL) FROM duckdb_views()
		WHERE database_name = 'warehouse' AND NOT internal`,
}

// filled is a sink with so many answers, written some at a time, and published now and then.
func filled(t *testing.T, answers, each int64, now *time.Time) *Sink {
	t.Helper()
	o := whole(t.TempDir())
	o.now = func() time.Time { return *now }
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for lo := int64(0); lo < answers; lo += each {
		b := sinktest.Hits(lo, lo+each)
		err := s.Write(t.Context(), b)
		sinktest.Release(b)
		if err == nil && b.Hi%10 == 0 {
			err = s.Publish(t.Context(), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func fileSize(t *testing.T, s *Sink) int64 {
	t.Helper()
	info, err := os.Stat(s.options.Private)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func answer(t *testing.T, s *Sink, sql string) any {
	t.Helper()
	in, err := s.instance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := in.db.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	return rows[0][0]
}
