//go:build duckdb_arrow

package duckdb

import (
	"errors"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/sinktest"
)

func TestRoomFollowsMachineAndFile(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(56 << 20))
	for _, c := range []struct{ memory, file, first, most int64 }{ // MB
		{128, 0, 56, 56},
		{256, 50, 56, 56},
		{512, 50, 56, 178},
		{16384, 50, 56, 8114},
		{16384, 2048, 88, 8114},
		{512, 1 << 20, 178, 178},
	} {
		if got, want := roomFor(c.memory<<20, c.file<<20), (room{c.first << 20, c.most << 20}); got.first>>20 != c.first || got.most>>20 != c.most {
			t.Errorf("memory %d, file %d: %d, want %d", c.memory, c.file, got, want)
		}
	}
	debug.SetMemoryLimit(400 << 20) // as GOMEMLIMIT does
	if got := roomFor(1000<<20, 0).most >> 20; got != 325 {
		t.Errorf("beside a heap of 250 MB: %d MB", got)
	}
	debug.SetMemoryLimit(math.MaxInt64)
	if got := roomFor(1024<<20, 0).most >> 20; got != 334 {
		t.Errorf("without GOMEMLIMIT: %d MB", got)
	}
}

func TestParseMemory(t *testing.T) {
	for text, want := range map[string]int64{"512MB": 512 << 20, "2GB": 2 << 30, "64m": 64 << 20, "1 G": 1 << 30, "1TB": 1 << 40} {
		if got, err := ParseMemory(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"512", "GB", "-1GB", "1PB", "80%", "4MB", "1GBGB", "99999999999999GB"} {
		if _, err := ParseMemory(text); err == nil || !strings.Contains(err.Error(), MemoryVariable) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestEveryLackOfMemoryIsRecognized(t *testing.T) {
	for _, text := range []string{
		"Out of Memory Error: could not allocate block of size 256.0 KiB (60.9 MiB/61.0 MiB used)",
		`TransactionContext Error: Failed to commit: Checkpoint failed for database "warehouse". The database has been invalidated. ` +
			"Original error: failed to pin block of size 256.0 KiB (60.7 MiB/61.0 MiB used)",
		"IO Error: Failed to allocate block of 262144 bytes (bad allocation)",
		"Out of Memory Error: failed to allocate data of size 16.0 MiB (60.0 MiB/61.0 MiB used)",
		"Out of Memory Error: Failed to change memory limit to 1000000: could not free up enough memory for the new limit",
		"std::bad_alloc",
	} {
		if !database.OutOfMemory(errors.New(text)) {
			t.Errorf("%q was not recognized", text)
		}
	}
	for _, text := range []string{"", "Constraint Error: Duplicate key", "IO Error: No space left on device"} {
		if database.OutOfMemory(errors.New(text)) {
			t.Errorf("%q is no lack of memory", text)
		}
	}
}

// cramped opens a sink with all tables that begins with too little memory for a batch.
func cramped(t *testing.T, o Options) *Sink {
	t.Helper()
	o.Tables = schema.Tables()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.options.limit = 2 << 20
	if err := s.abandon(nil); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBatchThatNeedsMoreMemoryGetsIt(t *testing.T) {
	dir := t.TempDir()
	s := cramped(t, options(dir))
	if err := fillCramped(t, s, 10); err != nil {
		t.Fatal(err)
	}
	if s.options.limit <= 2<<20 {
		t.Error("it did not need more: the test shows nothing")
	}
	if mark, err := s.Watermark(t.Context()); err != nil || mark != 10 {
		t.Errorf("watermark %d, %v", mark, err)
	}
}

func fillCramped(t *testing.T, s sinks.Sink, hi int64) error {
	t.Helper()
	b := sinktest.Warehouse(0, hi)
	defer sinktest.Release(b)
	if err := s.Write(t.Context(), b); err != nil {
		return err
	}
	return s.Publish(t.Context(), nil)
}

func TestLackOfMemorySaysWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		options func(*Options)
		want    []string
	}{
		"of the machine": {func(o *Options) {}, []string{"2MB", "512MB of this machine", "give it 1024MB", MemoryVariable + "=4MB"}},
		"of the setting": {func(o *Options) { o.Memory = 2 << 20 }, []string{"2MB that " + MemoryVariable, "set it to 4MB"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t.TempDir())
			o.machine = func() int64 { return 512 << 20 }
			s := cramped(t, o)
			c.options(&s.options)
			s.most = 2 << 20
			err := fillCramped(t, s, 10)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v does not say %q", err, want)
				}
			}
			s.most, s.options.limit = 64<<20, 64<<20 // it was given more
			if err := s.abandon(nil); err != nil {
				t.Fatal(err)
			}
			if err := fillCramped(t, s, 10); err != nil {
				t.Errorf("with more memory: %v", err)
			}
		})
	}
}

func TestLongTextsFitIntoLittleMemory(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.machine = func() int64 { return 256 << 20 }
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var lo int64
	for range 3 { // a batch of four is as large as batches get
		var rows []sinktest.Row
		for id := lo + 1; id <= lo+4; id++ {
			rows = append(rows, sinktest.Row{"video_id": strings.Repeat("v", int(id)), "transcript": strings.Repeat("a long transcript ", 2<<20/18),
				sinks.ResponseID: id, "_run_id": "run", "_job": "job"})
		}
		b := sinks.Batch{Lo: lo, Hi: lo + 4, Parts: []schema.Part{{Table: schema.Transcripts, Rows: sinktest.Record(schema.Transcripts.Schema(), rows)}}}
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		sinktest.Release(b)
		lo = b.Hi
	}
	if err := s.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := results(t, dir, "SELECT count(*)::BIGINT AS n FROM transcripts WHERE len(transcript) > 2000000"); len(got) != 1 || got[0]["n"] != int64(12) {
		t.Errorf("%v", got)
	}
}

func TestLogOfAFileThatWasMovedAwayIsNotReplayedIntoTheNewOne(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(6)
	s := open(t, dir)
	write(t, s, j, 0, 3)
	log, err := os.ReadFile(private(options(dir)) + ".wal")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{private(options(dir)), published(options(dir))} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(private(options(dir))+".wal", log, 0o600); err != nil {
		t.Fatal(err)
	}
	marked(t, dir, 0)
	saw(t, dir, j, 6)
	suite.Check(t, dir, j, 6)
}
