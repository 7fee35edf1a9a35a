//go:build duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"outlierd/sinks"
)

// rebuildMemory is what DuckDB begins a rebuild with. Each checkpoint compresses the rows at the end of
// every table again, and with this much memory there are a quarter as many.
const rebuildMemory = 256 << 20

// Rebuild creates both files again beside the old ones, which it does not open, and puts them in their
// places once fill has written and published everything there. Readers keep the old published file until
// then. After an error, or a kill, the old files are as they were: a kill between the two renames
// leaves the new private file with the old published one, which the next publication replaces.
func Rebuild(ctx context.Context, o Options, fill func(s sinks.Sink, published string) error) error {
	for _, path := range []string{o.Private, o.Published} {
		// All else may be replaced, also a damaged file. Opening a pipe may never end.
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a DuckDB file but a %s: move it away, and rebuild again",
				path, describe(info.Mode()))
		}
	}
	made := o
	made.Private, made.Published = o.Private+".rebuild", o.Published+".rebuild"
	made.first = rebuildMemory
	clean := func() error {
		errs := []error{made.discardSpare(), remove(made.recordPath())}
		for _, path := range []string{made.Private, made.Published} {
			errs = append(errs, remove(path), remove(path+".wal"), remove(path+".new"), remove(path+".new.wal"))
		}
		return errors.Join(errs...)
	}
	if err := clean(); err != nil {
		return fmt.Errorf("remove what an earlier rebuild left: %w", err)
	}
	s, err := Open(ctx, made)
	if err == nil {
		err = fill(s, made.Published)
		if err == nil {
			err = s.behind(ctx, o.Published)
		}
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		return errors.Join(err, clean())
	}
	// The old spare may hold what the journal no longer has.
	err = errors.Join(put(made.Private, o.Private), put(made.Published, o.Published), o.discardSpare(), clean())
	if err != nil {
		return fmt.Errorf("put the rebuilt DuckDB files in place: %w", err)
	}
	return nil
}

// behind refuses to take the place of a published file that holds more answers, or is another
// program's. One that cannot be read has nothing to lose.
func (s *Sink) behind(ctx context.Context, published string) error {
	mark, err := s.Watermark(ctx)
	if err != nil {
		return err
	}
	shown, err := s.in.markOf(ctx, published)
	if errors.Is(err, errForeign) {
		return fmt.Errorf("%s: %w: %s", published, err, elsewhere)
	}
	if err == nil && shown > mark {
		return fmt.Errorf("%s holds answers up to %d, but the journal ends at %d: it is left as it is",
			published, shown, mark)
	}
	return nil
}

// put moves a finished file over another one and removes that one's log, which belongs to the
// replaced file.
func put(from, to string) error {
	if err := remove(to + ".wal"); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(to))
}
