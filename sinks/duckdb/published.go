//go:build duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/duckdb/duckdb-go/v2"

	"outlierd/sinks/duckdb/database"
)

// The published file is outside the state's folder and outlives it. If it is ahead of the private file,
// the private file was lost or is an old copy, and perhaps the journal as well. [Sink.Watermark] then
// returns the watermark of the published file, because the sink does hold what readers see. The owner of
// the journal compares the two, and refuses to continue if the journal is behind. If it is not, only the
// private file is old, and it is replaced by a copy of the published one when the sink is next used.
// Until then nothing is changed.

// errForeign is the error for a DuckDB file without our marks table. Files of this program always have
// it.
var errForeign = errors.New("another program made this DuckDB file")

// compare reads the watermark of the published file. If the published file cannot be read, the sink
// continues as long as the private file has rows, and replaces the published file later. Beside an empty
// private file, the published one may be the only copy of paid data, so that is an error.
func (s *Sink) compare(ctx context.Context) error {
	if s.copies != nil { // the private file is as this sink left it, so only the other can be ahead
		if id, err := identify(s.options.Published); err == nil && id == s.copies.Published {
			return nil
		}
	}
	mark, err := s.mark(ctx, database.Journal)
	if err != nil {
		return err
	}
	shown, err := s.shown(ctx)
	switch {
	case errors.Is(err, errForeign):
		return fmt.Errorf("%s: %w: %s", s.options.Published, err, elsewhere)
	case err != nil && (mark == 0 || ctx.Err() != nil):
		return fmt.Errorf("%s cannot be read, and %s does not know what it holds: %w (if it may go: move it away)",
			s.options.Published, s.options.Private, err)
	case err == nil && shown > mark:
		s.ahead = shown
	}
	return nil
}

// shown returns the watermark of the published file. Another program that has the file open for writing,
// or was killed while it had, may leave a lock or a log that prevents reading. Then it reads a copy,
// which has neither.
func (s *Sink) shown(ctx context.Context) (int64, error) {
	mark, err := s.in.markOf(ctx, s.options.Published)
	if err == nil || errors.Is(err, errForeign) || ctx.Err() != nil {
		return mark, err
	}
	temp := filepath.Join(s.options.Temp, "published")
	if err := copyFile(s.options.Published, temp, 0o400); err != nil {
		return 0, errors.Join(err, remove(temp))
	}
	mark, err = s.in.markOf(ctx, temp)
	return mark, errors.Join(err, remove(temp))
}

// markOf returns the watermark of a file that is not attached.
func (in *instance) markOf(ctx context.Context, path string) (mark int64, err error) {
	if _, err := in.db.Exec(ctx, "ATTACH "+database.Text(path)+" AS published (READ_ONLY)"); err != nil {
		return 0, err
	}
	defer func() {
		_, detached := in.db.Exec(context.WithoutCancel(ctx), "DETACH published")
		err = errors.Join(err, detached)
	}()
	rows, err := in.db.Query(ctx, "SELECT id FROM published.outlierd.marks WHERE name = "+
		database.Text(database.Journal))
	if failed, ok := errors.AsType[*duckdb.Error](err); ok && failed.Type == duckdb.ErrorTypeCatalog {
		return 0, errForeign
	}
	if err != nil {
		return 0, err
	}
	if len(rows) == 1 {
		if mark, ok := rows[0][0].(int64); ok {
			return mark, nil
		}
	}
	return 0, errForeign
}

// # Damaged private files
//
// DuckDB overwrites some blocks of its metadata in place before it writes the header that makes them
// valid. After a kill or a power failure between the parts of such a write, the block's checksum does not
// match and the whole file cannot be opened: about one of 600 kills during a write. No data is lost:
// published files are never written that way, and the journal has everything that they lack. So a damaged
// private file is removed, as if an operator had deleted it.

// giveUp removes a damaged private file. The next open starts from the published one.
func (s *Sink) giveUp(damage error) error {
	if s.options.Log != nil {
		s.options.Log.Warn("damaged DuckDB file removed; the published one and the journal have what it had",
			"file", s.options.Private, "err", damage)
	}
	s.copies = nil
	return errors.Join(s.abandon(nil), s.options.discardSpare(), remove(s.options.Private),
		remove(s.options.Private+".wal"))
}

// restore replaces the private file by a copy of the published one if that is ahead.
func (s *Sink) restore(ctx context.Context) error {
	if s.ahead == 0 {
		return nil
	}
	if err := s.abandon(nil); err != nil {
		return err
	}
	if err := copyOver(s.options.Published, s.options.Private, 0o600); err != nil {
		return fmt.Errorf("restore %s from %s: %w: %s", s.options.Private, s.options.Published, err, rebuild)
	}
	if err := s.declared(ctx); err != nil {
		return err
	}
	s.ahead = 0
	return nil
}
