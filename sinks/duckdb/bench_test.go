//go:build duckdb_arrow

package duckdb

import (
	"testing"

	"outlierd/sinks/sinktest"
)

// BenchmarkOpen opens and closes a sink that is in order, and beside it asks the
// published file alone, which is part of opening.
func BenchmarkOpen(b *testing.B) {
	o := whole(b.TempDir())
	s, err := Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	batch := sinktest.Hits(0, 250)
	defer sinktest.Release(batch)
	if err := s.Write(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
	if err := s.Publish(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			s, err := Open(b.Context(), o)
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("asking", func(b *testing.B) {
		s, err := Open(b.Context(), o)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		for b.Loop() {
			if err := s.compare(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
