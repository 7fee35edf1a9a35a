package warehouse_test

import (
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/sinktest"
	"outlierd/sinks/warehouse"
)

func TestRoomFollowsMachineAndFile(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(56 << 20))
	for _, c := range []struct{ memory, file, first, most int64 }{ // MB
		{128, 0, 56, 56},
		{256, 50, 56, 56},
		{512, 50, 96, 178},
		{16384, 50, 96, 8114},
		{16384, 2048, 128, 8114},
		{512, 1 << 20, 178, 178},
	} {
		if first, most := warehouse.RoomFor(c.memory<<20, c.file<<20); first>>20 != c.first || most>>20 != c.most {
			t.Errorf("memory %d, file %d: %d and %d, want %d and %d", c.memory, c.file, first>>20, most>>20, c.first, c.most)
		}
	}
	debug.SetMemoryLimit(400 << 20) // as GOMEMLIMIT does
	if _, most := warehouse.RoomFor(1000<<20, 0); most>>20 != 325 {
		t.Errorf("beside a heap of 250 MB: %d MB", most>>20)
	}
	debug.SetMemoryLimit(math.MaxInt64)
	if _, most := warehouse.RoomFor(1024<<20, 0); most>>20 != 334 {
		t.Errorf("without GOMEMLIMIT: %d MB", most>>20)
	}
}

// cramped returns a warehouse with all tables whose DuckDB has too little memory for a batch.
func cramped(t *testing.T, o warehouse.Options, most int64) *warehouse.Warehouse {
	t.Helper()
	o.Tables = schema.Tables()
	w := warehouse.New(o)
	w.SetMachine(512 << 20)
	t.Cleanup(func() { w.Close() })
	if _, err := w.Marks(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.SetMemory(2<<20, most)
	return w
}

func fillCramped(t *testing.T, w *warehouse.Warehouse) error {
	t.Helper()
	b := sinktest.Warehouse(0, 10)
	defer sinktest.Release(b)
	return w.Write(t.Context(), b)
}

func TestLargeBatchGetsMoreMemory(t *testing.T) {
	w := cramped(t, sinktest.Options(t.TempDir()), 512<<20)
	if err := fillCramped(t, w); err != nil {
		t.Fatal(err)
	}
	if w.Memory() <= 2<<20 {
		t.Error("it did not need more: the test shows nothing")
	}
	if marks, err := w.Marks(t.Context()); err != nil || marks.Answers != 10 {
		t.Errorf("watermark %d, %v", marks.Answers, err)
	}
}

func TestLackOfMemoryHasRemedy(t *testing.T) {
	for name, c := range map[string]struct {
		memory int64
		want   []string
	}{
		"of the machine": {0, []string{"2MB", "512MB of this machine", warehouse.MemoryVariable + "=4MB"}},
		"of the setting": {2 << 20, []string{"more than 2MB", warehouse.MemoryVariable + "=4MB"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := sinktest.Options(t.TempDir())
			cramped(t, o, 0) // made with enough
			o.Memory, o.Tables = c.memory, schema.Tables()
			w := warehouse.New(o)
			w.SetMachine(512 << 20)
			w.SetMemory(2<<20, 2<<20)
			err := fillCramped(t, w)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v does not say %q", err, want)
				}
			}
			w.SetMemory(64<<20, 64<<20) // it was given more
			if err := fillCramped(t, w); err != nil {
				t.Errorf("with more memory: %v", err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLongTextsFitIntoLittleMemory(t *testing.T) {
	l := sinktest.Open(open).Line(t, t.TempDir())
	defer l.Close(t)
	l.SetMachine(256 << 20)
	var lo int64
	for range 3 { // a batch of four is as large as batches get
		var rows []sinktest.Row
		for id := lo + 1; id <= lo+4; id++ {
			rows = append(rows, sinktest.Row{"video_id": strings.Repeat("v", int(id)), "transcript": strings.Repeat("a long transcript ", 2<<20/18),
				sinks.ResponseID: id, "_run_id": "run", "_job": "job"})
		}
		b := sinks.Batch{Lo: lo, Hi: lo + 4, Parts: []schema.Part{{Table: schema.Transcripts, Rows: sinktest.Record(schema.Transcripts.Schema(), rows)}}}
		if err := l.Warehouse.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		sinktest.Release(b)
		lo = b.Hi
	}
	if got := ask(t, l.Warehouse, "SELECT count(*) FROM warehouse.transcripts WHERE len(transcript) > 2000000"); got != int64(12) {
		t.Errorf("%v of 12 transcripts", got)
	}
}
