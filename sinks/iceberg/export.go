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

// loadRetries is the number of retries while a batch is being written, and retryDelay the time between
// them.
const (
	loadRetries = 20
	retryDelay  = 250 * time.Millisecond
)

// Export finds the data of a writer in the lake, without changing anything, and copies its rows into
// Parquet files in the folder dir, one per table. The error is [fs.ErrNotExist] if the lake was never
// written to.
func Export(ctx context.Context, o Options, dir string) (_ *Copy, err error) {
	s, err := openToRead(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	f, err := s.loadAll(ctx)
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

// Probe checks that the lake is readable: it reads the catalog, and the manifests of one table.
func Probe(ctx context.Context, o Options) error {
	s, err := openToRead(ctx, o)
	if err != nil {
		return err
	}
	l := s.tables[o.Tables[0]]
	if err = l.load(ctx); err == nil {
		_, err = l.find(ctx)
		err = lost(err)
	}
	return errors.Join(s.explain(err), s.Close())
}

// openToRead opens a lake without creating anything. The error is [fs.ErrNotExist] if it does not
// exist.
func openToRead(ctx context.Context, o Options) (*Sink, error) {
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
	exists, err := p.CheckTableExists(ctx, s.writers.id())
	if errors.Is(err, catalog.ErrNoSuchNamespace) || err == nil && !exists {
		err = fmt.Errorf("namespace %s of the lake %s: %w", o.Namespace, p.name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, errors.Join(s.explain(p.plain(err)), p.close())
	}
	return s, nil
}

// loadAll loads all tables, and loads them again while a batch is being written. If the batch does not
// end, the result has the tables that are ahead in Waiting.
func (s *Sink) loadAll(ctx context.Context) (*Copy, error) {
	for try := 0; ; try++ {
		s.forget()
		f := &Copy{Waiting: map[string]bool{}, files: map[string]string{}}
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
			mark, err := s.tables[t].mark(watermarkName)
			if err != nil {
				return nil, err
			}
			if mark > f.Watermark {
				f.Waiting[t.Name] = true
			}
		}
		if len(f.Waiting) == 0 || try == loadRetries {
			return f, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(retryDelay):
		}
	}
}

// copyTo writes the rows of this writer into a Parquet file and adds its path to f. It creates no file
// if there are no rows.
func (l *lakeTable) copyTo(ctx context.Context, path string, f *Copy) (err error) {
	if err := l.refresh(ctx); err != nil || len(l.own.data) == 0 {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out, err := pqarrow.NewFileWriter(l.of.Stored(), file, l.encoding(l.of.Stored()),
		pqarrow.NewArrowWriterProperties())
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
	if closed := file.Close(); closed != nil && !errors.Is(closed, os.ErrClosed) { // out.Close closes it
		err = errors.Join(err, closed)
	}
	return err
}
