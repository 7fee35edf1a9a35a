//go:build iceberg

package iceberg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"

	"outlierd/sinks"
	"outlierd/sinks/parquet"
)

// Rebuild replaces all data of a writer in the lake. fill writes and publishes all rows into a Parquet
// sink in the local folder dir. These rows then replace the rows of the writer, in one commit per
// table. The old rows are removed from all snapshots, and their files are deleted, immediately. After
// an error or a kill each table has either its old rows or its new ones; rebuild again to replace all
// of them.
func Rebuild(ctx context.Context, o Options, dir string, fill func(s sinks.Sink, published string) error) (err error) {
	local, err := parquet.Open(parquet.Options{Dir: dir, Tables: o.Tables, Ops: o.Ops})
	if err != nil {
		return err
	}
	if err := errors.Join(fill(local, dir), local.Close()); err != nil {
		return err
	}
	made, err := parquet.ReadPublished(dir)
	if err != nil {
		return err
	}
	s, err := open(ctx, o, func(s *Sink) { s.rebuild = true })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.explain(s.replaceWith(ctx, dir, made))
}

// replaceWith replaces the rows of all tables by those of the published Parquet files in dir.
func (s *Sink) replaceWith(ctx context.Context, dir string, made *parquet.Published) error {
	for _, t := range slices.Concat(s.options.Tables, s.options.Ops) {
		l := s.tables[t]
		if err := l.load(ctx); err != nil {
			return err
		}
		in := &dailyWriter{table: l, open: map[string]*fileWriter{}}
		err := l.copyFrom(ctx, dir, made.Tables[t.FileName()], in)
		if err != nil {
			return fmt.Errorf("table %s: %w", t.Name, errors.Join(err, in.abandon()))
		}
		if err := l.replaceAll(ctx, in.done, made.Watermark); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	if err := s.set(ctx, watermarkName, made.Watermark); err != nil {
		return err
	}
	if err := s.set(ctx, opsName, made.OpsVersion); err != nil {
		return err
	}
	for _, t := range slices.Concat(s.options.Tables, s.options.Ops) {
		if err := s.tables[t].expire(ctx, 0, 1); err != nil {
			return fmt.Errorf("table %s: remove what was replaced: %w", t.Name, err)
		}
	}
	return nil
}

// copyFrom copies Parquet files into data files. It ends the data files after each folder, so that only
// the files of one partition are open.
func (l *lakeTable) copyFrom(ctx context.Context, dir string, files []parquet.File, in *dailyWriter) error {
	for i, f := range files {
		name := filepath.Join(dir, l.of.FileName(), f.Name)
		if err := eachOf(ctx, name, in.put); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if i+1 == len(files) || filepath.Dir(files[i+1].Name) != filepath.Dir(f.Name) {
			if err := in.close(); err != nil {
				return err
			}
		}
	}
	return nil
}

func eachOf(ctx context.Context, name string, each func(arrow.RecordBatch) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	in, err := file.NewParquetReader(f)
	if err != nil {
		return err
	}
	rows, err := pqarrow.NewFileReader(in, pqarrow.ArrowReadProperties{BatchSize: 8192}, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	for g := range in.NumRowGroups() {
		err := eachRecord(ctx, rows, nil, g, 0, func(_ int64, some arrow.RecordBatch) error { return each(some) })
		if err != nil {
			return err
		}
	}
	return nil
}

// dailyWriter writes rows into a file for each day.
type dailyWriter struct {
	table *lakeTable
	open  map[string]*fileWriter // by the name of the day
	done  []iceberg.DataFile     // closed files
}

func (w *dailyWriter) put(rows arrow.RecordBatch) error {
	whole, err := w.table.conform(rows)
	if err != nil {
		return err
	}
	defer whole.Release()
	for _, d := range w.table.split(whole) {
		if err := w.putDay(whole, d); err != nil {
			return err
		}
	}
	return nil
}

func (w *dailyWriter) putDay(rows arrow.RecordBatch, d daily) error {
	some, err := sinks.Pick(context.Background(), rows, d.rows)
	if err != nil {
		return err
	}
	defer some.Release()
	name := dayName(d.day)
	to := w.open[name]
	if to == nil {
		if to, err = w.table.create(iceberg.EntryContentData, d.day, w.table.fields); err != nil {
			return err
		}
		w.open[name] = to
	}
	if err := to.put(some); err != nil || to.counted.n < mostOfFile {
		return err
	}
	return w.end(name)
}

// end closes the file of a day.
func (w *dailyWriter) end(name string) error {
	file, err := w.open[name].close()
	delete(w.open, name)
	if err == nil {
		w.done = append(w.done, file)
	}
	return err
}

// close closes all files.
func (w *dailyWriter) close() error {
	for _, name := range sortedKeys(w.open) {
		if err := w.end(name); err != nil {
			return err
		}
	}
	return nil
}

// abandon deletes all files, also closed ones.
func (w *dailyWriter) abandon() error {
	var errs []error
	for _, to := range w.open {
		errs = append(errs, to.abandon())
	}
	for _, file := range w.done {
		errs = append(errs, w.table.files.Remove(file.FilePath()))
	}
	return errors.Join(errs...)
}
