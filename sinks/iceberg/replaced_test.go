//go:build iceberg

package iceberg

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outlierd/sinks"
	"outlierd/sinks/sinktest"
)

// TestCatalogFileIsReplacedWhileItIsOpen by an older copy, or removed: a sink that stays open notices it at its
// next use, and then fills the catalog that readers see.
func TestCatalogFileIsReplacedWhileItIsOpen(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(older []byte, path string) error{
		"by an older copy": func(older []byte, path string) error { return os.WriteFile(path, older, 0o644) },
		"by nothing":       func([]byte, string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, journal := t.TempDir(), sinktest.Sample(8)
			o := options(dir, "a")
			first := openSink(t, dir, "a")
			fill(t, first, journal, 2)
			if err := first.Close(); err != nil { // and with it the log of SQLite is in the file
				t.Fatal(err)
			}
			older, err := os.ReadFile(o.Catalog)
			if err != nil {
				t.Fatal(err)
			}
			s := sinks.Reopening("iceberg", func(ctx context.Context) (sinks.Sink, error) { return Open(ctx, o) }, nil)
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			b := journal.Batch(2, 5)
			if err := s.Write(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			sinktest.Release(b)
			files, err := filepath.Glob(o.Catalog + "*")
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range files {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			if err := replace(older, o.Catalog); err != nil {
				t.Fatal(err)
			}
			if err := s.Publish(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "removed or replaced while it was open") {
				t.Errorf("publish: %v", err)
			}
			at, err := s.Watermark(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if at > 2 {
				t.Errorf("the watermark is %d, which only the catalog had that is gone", at)
			}
			b = journal.Batch(at, 8)
			if err := s.Write(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			sinktest.Release(b)
			suite.Check(t, dir, journal, 8)
		})
	}
}
