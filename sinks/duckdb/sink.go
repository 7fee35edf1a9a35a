//go:build duckdb_arrow

package duckdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
)

var _ sinks.Sink = (*Sink)(nil)

// Sink is a [sinks.Sink]. After an error it discards its instance and everything it has in memory, and
// reads from the file what was committed: whether a failed COMMIT took effect is unknown until then.
type Sink struct {
	options Options
	in      *instance // nil until needed
	most    int64     // maximum memory of DuckDB, in bytes
	dirty   bool      // the private file may hold rows that the published one lacks
	ahead   int64     // the published file's watermark while the private file is behind it; else 0
	copies  *copies   // known copies of the private file; nil if unknown

	fingerprint string // of the declarations, which the private file has when Open returns

	changes map[*schema.Table]*sinks.Changes
	parents map[*schema.Table]*sinks.Parents
}

// Open creates missing declarations in the private file, and publishes it if there is no published file,
// so that readers find all tables before the first row. It checks both files before it writes anything,
// and finds out whether the published one is ahead.
func Open(ctx context.Context, o Options) (*Sink, error) {
	for _, path := range []*string{&o.Private, &o.Published, &o.Temp} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return nil, fmt.Errorf("open DuckDB sink: %w", err)
		}
		*path = abs
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.now == nil {
		o.now = time.Now
	}
	s := &Sink{
		options: o, dirty: true, fingerprint: database.Fingerprint(slices.Concat(o.Tables, o.Ops)),
	}
	s.forget()
	s.loadCopies()
	s.measure()
	if err := s.withRoom(func() error { return s.open(ctx) }); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// measure determines how much memory DuckDB may use.
func (s *Sink) measure() {
	if s.options.machine == nil {
		s.options.machine = database.Memory
	}
	var size int64
	if info, err := os.Stat(s.options.Private); err == nil {
		size = info.Size()
	}
	r := roomFor(s.options.machine(), size)
	s.most = cmp.Or(s.options.Memory, r.most)
	s.options.limit = min(max(r.first, s.options.first), s.most)
}

func (o Options) check() error {
	if err := checkFile(o.Private, rebuild); err != nil {
		return err
	}
	if err := checkFile(o.Published, elsewhere); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.Private), 0o700); err != nil {
		return fmt.Errorf("folder of the DuckDB writer's file: %w", err)
	}
	if err := os.MkdirAll(o.Temp, 0o700); err != nil {
		return fmt.Errorf("folder for DuckDB's temporary files: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(o.Published), 0o755); err != nil {
		return fmt.Errorf("folder of the published DuckDB file: %w", err)
	}
	return nil
}

func (s *Sink) open(ctx context.Context) error {
	err := s.publishBlank()
	if err == nil {
		err = s.declared(ctx)
	}
	if database.Damaged(err) {
		if err = s.giveUp(err); err == nil {
			err = s.declared(ctx)
		}
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(s.options.Published); os.IsNotExist(err) {
		return s.swap(ctx)
	} else if err != nil {
		return err
	}
	if err := s.compare(ctx); err != nil {
		return err
	}
	return writable(filepath.Dir(s.options.Published))
}

// declared creates missing declarations in the private file. That is the slowest part of a start, so it
// is skipped for a file that this version has written and that has not changed since.
func (s *Sink) declared(ctx context.Context) error {
	in, err := s.instance(ctx)
	if err != nil {
		return err
	}
	if in.has == s.fingerprint || s.copies != nil && s.copies.Declared == s.fingerprint {
		return nil
	}
	if err := in.db.Declare(ctx, slices.Concat(s.options.Tables, s.options.Ops)); err != nil {
		if _, other := errors.AsType[*database.TypeError](err); other {
			err = fmt.Errorf("%w: %s", err, rebuild)
		}
		return fmt.Errorf("%s: %w", s.options.Private, err)
	}
	return nil
}

// Name implements [sinks.Sink].
func (s *Sink) Name() string { return "duckdb" }

// Watermark implements [sinks.Sink].
func (s *Sink) Watermark(ctx context.Context) (int64, error) {
	mark, err := s.mark(ctx, database.Journal)
	return max(mark, s.ahead), err
}

// OpsVersion implements [sinks.Sink].
func (s *Sink) OpsVersion(ctx context.Context) (int64, error) {
	if err := s.restore(ctx); err != nil {
		return 0, err
	}
	return s.mark(ctx, database.Operations)
}

func (s *Sink) mark(ctx context.Context, name string) (int64, error) {
	in, err := s.instance(ctx)
	if err != nil {
		return 0, err
	}
	rows, err := in.db.Query(ctx, "SELECT id FROM warehouse.outlierd.marks WHERE name = "+database.Text(name))
	if err != nil {
		return 0, s.abandon(fmt.Errorf("read mark %s of %s: %w", name, s.options.Private, err))
	}
	if len(rows) != 1 {
		return 0, fmt.Errorf("%s has %d marks named %s instead of one: %s", s.options.Private, len(rows), name, rebuild)
	}
	return rows[0][0].(int64), nil
}

// Close implements [sinks.Sink].
func (s *Sink) Close() error {
	if s.in == nil {
		return nil
	}
	err := s.in.db.Close()
	s.in = nil
	return err
}

// instance returns the running instance with the private file attached. It starts one if there is none.
func (s *Sink) instance(ctx context.Context) (*instance, error) {
	if s.in == nil {
		db, err := database.Open(ctx, database.Options{
			Memory: s.options.limit, Threads: s.options.Threads, Temp: s.options.Temp,
		})
		if err != nil {
			return nil, err
		}
		s.in = &instance{db: db}
		if err := db.RecordWrites(ctx, s.options.recordPath()); err != nil {
			return nil, s.abandon(err)
		}
	}
	if s.in.attached {
		return s.in, nil
	}
	if err := s.checkPrivate(); err != nil {
		return nil, err
	}
	if err := s.in.attach(ctx, s.options.Private, s.options.blankOf); err != nil {
		return nil, s.abandon(err)
	}
	return s.in, nil
}

// abandon discards the instance after err, and returns err.
func (s *Sink) abandon(err error) error {
	s.forget()
	return errors.Join(err, s.Close())
}

func (s *Sink) forget() {
	s.changes = map[*schema.Table]*sinks.Changes{}
	s.parents = map[*schema.Table]*sinks.Parents{}
}
