//go:build iceberg

package iceberg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go/catalog"
)

// looks is how often a lake is looked at while a batch is on its way into it, and lookAgain the time between.
const (
	looks     = 20
	lookAgain = 250 * time.Millisecond
)

// Look finds what the lake has of a writer, without changing anything, and copies the rows into the folder
// dir. Before the first write there is nothing to look at: the error is [fs.ErrNotExist] then.
func Look(ctx context.Context, o Options, dir string) (_ *Found, err error) {
	s, err := openToLook(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	f, err := s.look(ctx)
	if err != nil {
		return nil, s.explain(err)
	}
	for _, t := range slices.Concat(o.Tables, o.Ops) {
		if err := s.tables[t].copyTo(ctx, filepath.Join(dir, t.FileName()+".parquet"), f); err != nil {
			return nil, s.explain(fmt.Errorf("read table %s: %w", t.Name, err))
		}
	}
	return f, nil
}

// Probe reads the catalog, and one table with its files.
func Probe(ctx context.Context, o Options) error {
	s, err := openToLook(ctx, o)
	if err != nil {
		return err
	}
	l := s.tables[o.Tables[0]]
	if err = l.load(ctx); err == nil {
		_, err = l.find(ctx)
	}
	return errors.Join(s.explain(err), s.Close())
}

// openToLook opens a lake that is there.
func openToLook(ctx context.Context, o Options) (*Sink, error) {
	if !strings.Contains(o.Catalog, "://") {
		if _, err := os.Stat(o.Catalog); err != nil {
			return nil, err
		}
	}
	p, err := openPlace(ctx, o)
	if err != nil {
		return nil, err
	}
	s := newSink(o, p)
	there, err := p.CheckTableExists(ctx, s.writers.id())
	if errors.Is(err, catalog.ErrNoSuchNamespace) || err == nil && !there {
		err = fmt.Errorf("namespace %s of the lake %s: %w", o.Namespace, p.name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, errors.Join(s.explain(err), p.close())
	}
	return s, nil
}

// look loads all tables as they are between two batches, if there is such a moment.
func (s *Sink) look(ctx context.Context) (*Found, error) {
	for look := 0; ; look++ {
		s.forget()
		f := &Found{Waiting: map[string]bool{}, files: map[string]string{}}
		for _, t := range slices.Concat(s.options.Tables, s.options.Ops) {
			if err := s.tables[t].load(ctx); err != nil {
				return nil, err
			}
		}
		var err error
		if f.Watermark, err = s.Watermark(ctx); err != nil {
			return nil, err
		}
		if f.OpsVersion, err = s.OpsVersion(ctx); err != nil {
			return nil, err
		}
		for _, t := range s.options.Tables {
			if s.tables[t].mark(watermarkName) > f.Watermark {
				f.Waiting[t.Name] = true
			}
		}
		if len(f.Waiting) == 0 || look == looks {
			return f, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lookAgain):
		}
	}
}

// copyTo writes the rows of this writer into a Parquet file, if there are any.
func (l *lakeTable) copyTo(ctx context.Context, path string, f *Found) (err error) {
	if err := l.look(ctx); err != nil || len(l.own.data) == 0 {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out, err := pqarrow.NewFileWriter(l.of.Stored(), file, l.encoding(l.of.Stored()), pqarrow.NewArrowWriterProperties())
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.files[l.of.Name] = path
	err = l.each(ctx, func(rows arrow.RecordBatch) error {
		if rows.NumRows() == 0 {
			return nil
		}
		return out.WriteBuffered(rows)
	})
	err = errors.Join(err, out.Close())
	if closed := file.Close(); closed != nil && !errors.Is(closed, os.ErrClosed) { // by the writer
		err = errors.Join(err, closed)
	}
	return err
}
