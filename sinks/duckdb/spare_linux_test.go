//go:build duckdb_arrow

package duckdb

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"outlierd/sinks/sinktest"
)

// turns publishes answers one by one, and says whether each publication went on from the spare.
func turns(t *testing.T, s *Sink, j sinktest.Journal, lo, hi int64) (taken []bool) {
	t.Helper()
	for ; lo < hi; lo++ {
		write(t, s, j, lo, lo+1)
		taken = append(taken, publishes(t, s))
	}
	return taken
}

// publishes publishes, and reports whether that went on from the spare file.
func publishes(t *testing.T, s *Sink) bool {
	t.Helper()
	spare := made(t, s.options.sparePath())
	if err := s.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if content(t, s.options.Private) != content(t, s.options.Published) {
		t.Fatal("the published file is not the private one")
	}
	return made(t, s.options.Published) == spare
}

// made is when a file was created, which tells it from a later one with the same inode.
func made(t *testing.T, path string) string {
	t.Helper()
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BTIME|unix.STATX_INO, &stat)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		t.Fatal(err)
	}
	return fmt.Sprint(stat.Ino, stat.Btime.Sec, stat.Btime.Nsec)
}

// tellsOpenings skips a test where publications always copy the whole file.
func tellsOpenings(t *testing.T, dir string) {
	t.Helper()
	f, err := os.CreateTemp(dir, "opened")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !lease(f) {
		t.Skip("this file system does not tell whether a file is open elsewhere")
	}
}

func TestPublicationsWriteIntoTheFileBeforeLast(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(12)
	tellsOpenings(t, dir)
	s := open(t, dir) // publishes tables without rows
	if diff := cmp.Diff([]bool{false, true, true, true}, turns(t, s, j, 0, 4)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir) // another process
	defer s.Close()
	if diff := cmp.Diff([]bool{true, true}, turns(t, s, j, 4, 6)); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	suite.Check(t, dir, j, 6)
}

// TestCheckpointsOfALongLogKeepTheInstance, up to a number of them, and the record of what it wrote to the
// private file: the next publication goes on from the spare.
func TestCheckpointsOfALongLogKeepTheInstance(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(maxCheckpoints+8)
	tellsOpenings(t, dir)
	s := open(t, dir)
	defer s.Close()
	turns(t, s, j, 0, 3)
	write(t, s, j, 3, 4)
	first, limit := s.in, s.options.limit
	s.options.limit = 4 // so that any log is a long one; it has no effect on the running instance
	lo := int64(4)
	for ; lo < 4+maxCheckpoints-1; lo++ {
		write(t, s, j, lo, lo+1)
		if s.in != first || s.in.attached {
			t.Fatalf("after %d checkpoints: instance kept %t, file attached %t", s.in.checkpoints, s.in == first, s.in.attached)
		}
	}
	write(t, s, j, lo, lo+1)
	if s.in != nil {
		t.Errorf("the instance remains after %d checkpoints", s.in.checkpoints)
	}
	s.options.limit = limit
	if !publishes(t, s) {
		t.Error("the whole file was copied after checkpoints")
	}
	suite.Check(t, dir, j, lo+1)
}

// TestWritesOfALostInstanceAreNotMissed: what it wrote to the private file is known only to itself, and it is
// discarded after an error. The whole file is then copied, and once more in place of the spare.
func TestWritesOfALostInstanceAreNotMissed(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(12)
	tellsOpenings(t, dir)
	s := open(t, dir)
	defer s.Close()
	turns(t, s, j, 0, 3)
	write(t, s, j, 3, 4)
	if err := s.detach(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.abandon(nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]bool{false, false, true}, turns(t, s, j, 4, 7)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	suite.Check(t, dir, j, 7)
}

func TestFileThatIsOpenAnywhereStaysAsItIs(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(12)
	tellsOpenings(t, dir)
	s := open(t, dir)
	defer s.Close()
	turns(t, s, j, 0, 3)
	reader, err := os.Open(s.options.Published) // as a program that copies files: without a lock
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	before := content(t, s.options.Published)
	if diff := cmp.Diff([]bool{true, false, true, true, true}, turns(t, s, j, 3, 8)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	after, err := io.ReadAll(reader)
	if err != nil || string(after) != before {
		t.Errorf("the open file has changed, %v", err)
	}
}

// TestSpareThatIsNotAsItWasLeftIsGivenUp, in three ways of six at random, or in all with -every-block.
func TestSpareThatIsNotAsItWasLeftIsGivenUp(t *testing.T) {
	ways := map[string]func(t *testing.T, s *Sink){
		"spare written by half": func(t *testing.T, s *Sink) { overwrite(t, s.options.sparePath()) },
		"published file edited": func(t *testing.T, s *Sink) {
			if err := os.Chmod(s.options.Published, 0o644); err != nil {
				t.Fatal(err)
			}
			overwrite(t, s.options.Published)
		},
		"private file written without our knowing": func(t *testing.T, s *Sink) {
			if err := os.Chtimes(s.options.Private, time.Time{}, time.Now()); err != nil {
				t.Fatal(err)
			}
		},
		"published file deleted": func(t *testing.T, s *Sink) {
			if err := os.Remove(s.options.Published); err != nil {
				t.Fatal(err)
			}
		},
		"killed before the record": func(t *testing.T, s *Sink) {
			if err := exchange(s.options.sparePath(), s.options.Published); err != nil {
				t.Fatal(err)
			}
		},
		"record damaged": func(t *testing.T, s *Sink) { overwrite(t, s.options.copiesPath()) },
	}
	names := slices.Collect(maps.Keys(ways)) // in random order
	if !*everyBlock {
		names = names[:3]
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			dir, j := t.TempDir(), sinktest.Sample(12)
			tellsOpenings(t, dir)
			s := open(t, dir)
			turns(t, s, j, 0, 3)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			ways[name](t, s)
			s = open(t, dir)
			defer s.Close()
			taken := turns(t, s, j, 3, 7)
			if !taken[3] {
				t.Errorf("went on from the spare: %v", taken)
			}
			suite.Check(t, dir, j, 7)
		})
	}
}

// overwrite changes some bytes in the midst of a file.
func overwrite(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("not of DuckDB"), info.Size()/2); err != nil {
		t.Fatal(err)
	}
}

// TestFileIsDeclaredOnceByAVersion and after anybody else has written to it, as declaring takes longer than
// all else at a start.
func TestFileIsDeclaredOnceByAVersion(t *testing.T) {
	for name, c := range map[string]struct {
		left     func(c *copies) // what the record says of the file that lacks a view
		declared bool
	}{
		"by another version":   {left: func(c *copies) { c.Declared = "another" }, declared: true},
		"by an earlier one":    {left: func(c *copies) { c.Declared = "" }, declared: true},
		"by this version":      {left: func(*copies) {}, declared: false},
		"then edited":          {left: func(c *copies) { c.Private.Changed-- }, declared: true},
		"then moved back here": {left: func(c *copies) { c.Private.Inode-- }, declared: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openWhole(t, dir)
			if s.copies == nil {
				t.Skip("this file system keeps no record of the copies")
			}
			known := *s.copies
			alter(t, s, "DROP VIEW warehouse.ops.query_yield")
			private, err := identify(s.options.Private)
			if err != nil {
				t.Fatal(err)
			}
			known.Private = private
			c.left(&known)
			s.copies = &known
			if err := s.saveCopies(); err != nil {
				t.Fatal(err)
			}
			if err := openWhole(t, dir).Publish(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			found := results(t, dir, "SELECT view_name FROM duckdb_views() WHERE view_name = 'query_yield'")
			if (len(found) == 1) != c.declared {
				t.Errorf("the view is there: %v, want %v", len(found) == 1, c.declared)
			}
		})
	}
}

// TestNewFileTakesNothingOfAnOldSpare: both files were deleted, but neither the spare nor its record, which
// says that the spare lacks DuckDB's headers alone.
func TestNewFileTakesNothingOfAnOldSpare(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(4)
	tellsOpenings(t, dir)
	s := open(t, dir)
	turns(t, s, j, 0, 4)
	s.copies.Since, s.copies.Behind = nil, spans{{From: 0, To: headersSize}}
	if err := errors.Join(s.saveCopies(), s.Close(), os.Remove(s.options.Private), os.Remove(s.options.Published)); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if content(t, s.options.Published) != content(t, s.options.Private) {
		t.Error("the published file is not a copy of the new private one")
	}
}
