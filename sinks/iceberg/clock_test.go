//go:build iceberg

package iceberg

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/schema"
	"outlierd/sinks/sinktest"
)

// TestClocksDiffer: a writer whose clock is more than a minute behind that of another writer returns an
// error and writes nothing. It continues when its clock is set.
func TestClocksDiffer(t *testing.T) {
	t.Parallel()
	dir, journal := t.TempDir(), sinktest.Sample(4)
	for _, c := range []struct {
		instance string
		behind   time.Duration
		hi       int64
		says     string
	}{
		{"a", 0, 2, ""},
		{"b", 2 * time.Minute, 2, "a machine whose clock is"},
		{"b", 25 * time.Hour, 2, "give the sink another `namespace`"},
		{"b", 50 * time.Second, 4, ""},
		{"a", 0, 4, ""},
	} {
		s := openSink(t, dir, c.instance)
		s.now = func() time.Time { return time.Now().Add(-c.behind) }
		at, err := s.Watermark(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b := journal.Batch(at, c.hi)
		err = s.Write(t.Context(), b)
		if err == nil && c.says != "" || err != nil && (c.says == "" || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s, %v behind: got %v, want %q", c.instance, c.behind, err, c.says)
		}
		sinktest.Release(b)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, table := range sinktest.Tables() {
		for _, instance := range []string{"a", "b"} {
			k := sinktest.Sink{Open: suite.Open, Read: func(t testing.TB, dir string, of *schema.Table) []arrow.RecordBatch {
				return readTable(t, dir, instance, of)
			}}
			k.CheckTable(t, dir, table, journal, 4)
		}
	}
}

// TestClocksOfTwoMachines has two writers take turns for ten days, one of which has a clock that is two
// minutes behind: for the library and the catalog, too. Its commits are refused within a minute of those of
// the other, and succeed after that. Both have all their rows, and old snapshots expire.
func TestClocksOfTwoMachines(t *testing.T) {
	const behind = 2 * time.Minute
	dir, journal := t.TempDir(), sinktest.Sample(10)
	// turn writes and publishes by a machine with a clock of its own, since each bubble has one.
	turn := func(instance string, at, skew time.Duration, hi int64) (err error) {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(at - skew)
			w := &writerOfWeeks{instance: instance}
			if w.sink, err = Open(t.Context(), options(dir, instance)); err != nil {
				return
			}
			err = w.turn(t, journal, hi, hi)
			w.stop(t)
			touchNew(t, dir)
		})
		return err
	}
	for i := range int64(10) {
		now := time.Duration(i+1) * 24 * time.Hour
		if err := turn("a", now, 0, i+1); err != nil {
			t.Fatalf("day %d: %v", i, err)
		}
		err := turn("b", now+30*time.Second, behind, i+1)
		if err == nil || !strings.Contains(err.Error(), "a machine whose clock is 1m30s ahead of this one's") {
			t.Errorf("day %d: 30 s after the other's commit: %v", i, err)
		}
		if err := turn("b", now+70*time.Second, behind, i+1); err != nil {
			t.Errorf("day %d: 70 s after the other's commit: %v", i, err)
		}
	}
	for _, instance := range []string{"a", "b"} {
		k := sinktest.Sink{Read: readAs(instance)}
		k.Check(t, dir, journal, 10)
	}
	s := openSink(t, dir, "a")
	defer s.Close()
	for _, of := range sinktest.Tables() {
		l := s.tables[of]
		if err := l.load(t.Context()); err != nil {
			t.Fatal(err)
		}
		log := l.snapshotLog()
		if len(log) < 2 {
			continue
		}
		oldest, newest := time.UnixMilli(log[0].TimestampMs), time.UnixMilli(log[len(log)-1].TimestampMs)
		if newest.Sub(oldest) > kept.age+time.Hour {
			t.Errorf("table %s has snapshots from %v to %v", l.name(), oldest, newest)
		}
	}
}
