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

// The published file lies outside the folder of the state and outlives it. If it is
// ahead of the private file, that one was lost or is an old copy, and perhaps the
// journal with it. The watermark is then the published file's, for what readers see
// the sink does hold: the owner of the journal compares the two, and refuses to go on
// if the journal is behind. If it is not, only the private file is, and is taken from
// the published one as soon as the sink is used. Until then nothing is changed.

// errForeign is the error for a DuckDB file without our marks; files of this program always have
// them.
var errForeign = errors.New("another program made this DuckDB file")

// compare asks the published file how far it has come. One that is of no use does not
// stop a sink whose private file knows better: it will be replaced. But beside a
// private file that is new it may be all there is of what was bought.
func (s *Sink) compare(ctx context.Context) error {
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

// shown is the published file's watermark. Another program that has the file open for
// writing, or was killed while it had, leaves a lock or a log that is in the way; a
// copy has neither.
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

// markOf returns the watermark in a file that is not attached.
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

// # A private file that is damaged
//
// DuckDB writes some blocks of its metadata in their place, and only then the header that stands for
// them. A kill or a power cut can come between the parts of such a write, and the block does not have its
// checksum then: the whole file cannot be opened, in about one of 600 kills while it is written. Nothing
// in it is lost: a file that was published is never written in that way, and what it lacks is in the
// journal. So a damaged private file is deleted.

// giveUp removes a damaged private file, so that the sink goes on from the published one when it is
// opened next.
func (s *Sink) giveUp(damage error) error {
	if s.options.Log != nil {
		s.options.Log.Warn("damaged DuckDB file removed; the published one and the journal have what it had",
			"file", s.options.Private, "err", damage)
	}
	s.copies = nil
	return errors.Join(s.abandon(nil), s.options.discardSpare(), remove(s.options.Private),
		remove(s.options.Private+".wal"))
}

// restore replaces the private file by the published one, if that is ahead.
func (s *Sink) restore(ctx context.Context) error {
	if s.ahead == 0 {
		return nil
	}
	if err := s.abandon(nil); err != nil {
		return err
	}
	if err := copyOver(s.options.Published, s.options.Private, 0o600); err != nil {
		return fmt.Errorf("restore %s from %s: %w", s.options.Private, s.options.Published, err)
	}
	if err := s.declared(ctx); err != nil {
		return err
	}
	s.ahead = 0
	return nil
}
