//go:build iceberg

package iceberg

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/sinktest"
)

// TestAlteredByOthers: what another program has changed is named, with what to do, and a rebuild repairs it.
func TestAlteredByOthers(t *testing.T) {
	t.Parallel()
	journal := sinktest.Sample(6)
	setMark := func(of *schema.Table, to string) func(t *testing.T, s *Sink) {
		return func(t *testing.T, s *Sink) {
			l := s.writers
			if of != nil {
				l = s.tables[of]
			}
			err := l.commit(t.Context(), func(*table.Transaction) (iceberg.Properties, error) {
				return iceberg.Properties{s.property(watermarkName): to}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	dataOf := func(t *testing.T, s *Sink, change func(path string) error) {
		for path := range filesOf(t, s, schema.Outliers).data {
			if err := change(pathOf(path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		alter func(t *testing.T, s *Sink)
		says  string
	}{
		"watermark of the sink":   {setMark(nil, "yesterday"), `table outlierd_writers was altered by another program: property outlierd.a.watermark must be a number of 0 or more, got "yesterday"`},
		"negative watermark":      {setMark(nil, "-4"), `got "-4"`},
		"watermark without text":  {setMark(nil, ""), `got ""`},
		"watermark of a table":    {setMark(schema.Outliers, "1e6"), `table outliers was altered by another program: property outlierd.a.watermark`},
		"long text":               {setMark(nil, strings.Repeat("9", 1<<10)), `999…"`},
		"data files were deleted": {func(t *testing.T, s *Sink) { dataOf(t, s, os.Remove) }, "bring the file back"},
		"data files were cut":     {func(t *testing.T, s *Sink) { dataOf(t, s, func(p string) error { return os.Truncate(p, 100) }) }, "bring the file back"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openSink(t, dir, "a")
			fill(t, s, journal, 3)
			other := openSink(t, dir, "b")
			fill(t, other, journal, 6)
			c.alter(t, s)
			if err := errors.Join(s.Close(), other.Close()); err != nil {
				t.Fatal(err)
			}

			s = openSink(t, dir, "a")
			at, err := s.Watermark(t.Context())
			if err == nil {
				b := journal.Batch(at, 6)
				err = s.Write(t.Context(), b)
				sinktest.Release(b)
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || !errors.Is(err, ErrRebuild) || !strings.Contains(err.Error(), "outlierd rebuild iceberg") {
				t.Errorf("error %v, want %q and the remedy", err, c.says)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}

			err = Rebuild(t.Context(), options(dir, "a"), t.TempDir(), func(to sinks.Sink, _ string) error {
				b := journal.Batch(0, 6)
				defer sinktest.Release(b)
				return errors.Join(to.Write(t.Context(), b), to.Publish(t.Context(), nil))
			})
			if err != nil {
				t.Fatalf("rebuild: %v", err)
			}
			suite.Check(t, dir, journal, 6)
			others := suite
			others.Read = readAs("b")
			others.Check(t, dir, journal, 6)
		})
	}
}
