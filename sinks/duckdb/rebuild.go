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

// rebuildMemory is DuckDB's initial memory for a rebuild. Each checkpoint compresses the last rows of
// every table again, and this much memory needs a quarter of the checkpoints.
const rebuildMemory = 256 << 20

// Rebuild makes both files again beside the old ones, without opening those, and replaces them once fill
// has written and published everything. Readers keep the old published file until then. After an error or
// a kill, the old files are unchanged. A kill or an error between the two renames leaves the new private file
// with the old published one, which the next publication replaces. The other order would let the old private
// file be published over the new one.
func Rebuild(ctx context.Context, o Options, fill func(s sinks.Sink, published string) error) error {
	for _, path := range []string{o.Private, o.Published} {
		// Anything else may be replaced, including a damaged file. Opening a pipe might block forever.
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
	err = o.discardSpare() // it may hold rows that the journal no longer has
	if err == nil {
		err = put(made.Private, o.Private)
	}
	if err == nil {
		err = put(made.Published, o.Published)
	}
	if err := errors.Join(err, clean()); err != nil {
		return fmt.Errorf("put the rebuilt DuckDB files in place: %w", err)
	}
	return nil
}

// behind returns an error if the published file holds more answers than the rebuilt one, or belongs to
// another program. A file that cannot be read may be replaced.
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

// put moves a finished file over another one, whose log it removes.
func put(from, to string) error {
	if err := remove(to + ".wal"); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(to))
}
