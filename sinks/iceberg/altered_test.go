//go:build iceberg

package iceberg

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	deletesGone := func(t *testing.T, s *Sink) {
		paths := slices.Collect(maps.Keys(filesOf(t, s, schema.Outliers).deletes))
		for _, path := range paths {
			if err := os.Remove(pathOf(path)); err != nil {
				t.Fatal(err)
			}
		}
		if len(paths) == 0 {
			t.Fatal("no row was replaced")
		}
	}
	for name, c := range map[string]struct {
		alter func(t *testing.T, s *Sink)
		says  string
	}{
		"watermark of the sink":   {setMark(nil, "yesterday"), `table outlierd_writers was altered by another program: property outlierd.a.watermark must be a number of 0 or more, got "yesterday"`},
		"deletes were deleted":    {deletesGone, "bring the file back"},
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

// TestMetadataIsGone: without a file that leads to the rows of all writers nothing is written, also by a
// rebuild. The message says what to do, and that the lake was written to.
func TestMetadataIsGone(t *testing.T) {
	t.Parallel()
	journal := sinktest.Sample(6)
	for name, c := range map[string]struct {
		of   *schema.Table // nil for the table of writers
		gone string
	}{
		"newest metadata":                {schema.Outliers, "*.metadata.json"},
		"newest metadata of the writers": {nil, "*.metadata.json"},
		"manifest lists":                 {schema.Outliers, "snap-*.avro"},
		"manifests":                      {schema.Outliers, "*-m[0-9]*.avro"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openSink(t, dir, "a")
			fill(t, s, journal, 3)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			found, err := filepath.Glob(filepath.Join(dir, "lake", "outlierd", s.tableOf(c.of).name(), "metadata", c.gone))
			if err != nil || len(found) == 0 {
				t.Fatalf("no files %s: %v", c.gone, err)
			}
			for _, path := range found {
				if err := os.Rename(path, path+".away"); err != nil {
					t.Fatal(err)
				}
			}
			written := func() error {
				s, err := Open(t.Context(), options(dir, "a"))
				if err != nil {
					return err
				}
				b := journal.Batch(3, 6)
				defer sinktest.Release(b)
				return errors.Join(s.Write(t.Context(), b), s.Close())
			}
			rebuilt := func() error {
				return Rebuild(t.Context(), options(dir, "a"), t.TempDir(), func(to sinks.Sink, _ string) error {
					b := journal.Batch(0, 6)
					defer sinktest.Release(b)
					return errors.Join(to.Write(t.Context(), b), to.Publish(t.Context(), nil))
				})
			}
			o := options(dir, "a")
			o.Tables = []*schema.Table{schema.Outliers}
			for what, do := range map[string]func() error{
				"write": written, "rebuild": rebuilt, "probe": func() error { return Probe(t.Context(), o) },
				"read": func() error { _, err := Export(t.Context(), o, t.TempDir()); return err },
			} {
				err := do()
				if what == "probe" && c.of == nil { // which reads another table
					continue
				}
				if err == nil || !strings.Contains(err.Error(), "bring back the file or the newest catalog; or give the sink another `namespace`") ||
					errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrRebuild) {
					t.Errorf("%s: %v", what, err)
				}
			}
			for _, path := range found {
				if err := os.Rename(path+".away", path); err != nil {
					t.Fatal(err)
				}
			}
			if err := written(); err != nil {
				t.Errorf("after the files are back: %v", err)
			}
			suite.Check(t, dir, journal, 6)
		})
	}
}
