//go:build iceberg

package iceberg

import (
	"strings"
	"testing"
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
