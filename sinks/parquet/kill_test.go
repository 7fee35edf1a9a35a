package parquet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/sinktest"
)

var errKilled = errors.New("killed")

// killer fails the nth change of the disk, and those after it. A file whose sync fails has lost its second
// half, as in a power cut.
type killer struct {
	dir  string
	n    int
	what string // the change that failed
}

func (k *killer) step(what string) error {
	if k.n--; k.n > 0 {
		return nil
	}
	if k.n < 0 {
		return errKilled
	}
	k.what = what
	if name, ok := strings.CutPrefix(what, "sync "); ok {
		path := filepath.Join(k.dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			if err := os.Truncate(path, info.Size()/2); err != nil {
				return err
			}
		}
	}
	return errKilled
}

// reader counts the keys of a table in a loop.
type reader struct {
	stop     context.CancelFunc
	done     sync.WaitGroup
	counted  atomic.Int64
	promised atomic.Int64 // number of keys that were published
}

func (w *world) read(table *schema.Table) *reader {
	ctx, stop := context.WithCancel(w.Context())
	r := &reader{stop: stop}
	r.done.Go(func() {
		db, err := database.Open(ctx, database.Options{})
		if err != nil {
			w.Error(err)
			return
		}
		defer db.Close()
		query := fmt.Sprintf("SELECT count(*), count(DISTINCT (%s)) FROM read_parquet(%s)", strings.Join(table.Key, ", "),
			database.Text(filepath.Join(w.dir, table.FileName(), "*.parquet")))
		for ctx.Err() == nil {
			promised := r.promised.Load()
			if promised == 0 {
				time.Sleep(time.Millisecond) // there may be no file yet
				continue
			}
			rows, err := db.Query(ctx, query)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				w.Errorf("a reader: %v", err)
				return
			}
			if n := rows[0][0].(int64); n != rows[0][1].(int64) || n < promised {
				w.Errorf("a reader found %d keys and %d different ones, and %d were published", n, rows[0][1], promised)
				return
			}
			r.counted.Add(1)
		}
	})
	return r
}

func (w *world) omit(more sinks.Omitted) {
	w.Helper()
	if err := w.warehouse.Omit(w.Context(), more); err != nil {
		w.Fatal(err)
	}
}

func (w *world) count(table *schema.Table) (n int64) {
	w.exec(func(db *database.DB) error {
		rows, err := db.Query(w.Context(), "SELECT count(*) FROM "+database.TableName(table))
		if err == nil {
			n = rows[0][0].(int64)
		}
		return err
	})
	return n
}

var everyStep = flag.Bool("every-step", false, "play each step and each case, not a sample")

// TestKillsAtEveryStep stops a process before each change of the disk in turn, while a reader counts. The next
// process must complete the copy.
func TestKillsAtEveryStep(t *testing.T) {
	stride := 30
	if *everyStep {
		stride = 1
	}
	j := sinktest.Sample(16).Only(few...)
	readings := int64(0)
	for n := 1 + testenv.Random(t).IntN(stride); ; n += stride {
		w := newWorld(t, few, sinktest.Ops())
		w.write(j, 8)
		w.publish()
		r := w.read(schema.Outliers)
		r.promised.Store(w.count(schema.Outliers))
		k := &killer{dir: w.dir, n: n}
		w.reopen(k.step)
		w.write(j, 12)
		w.omit(sinks.Omitted{UpTo: map[string]int64{"outliers_history": 10},
			Columns: map[string][]string{"outliers": {"title"}}})
		killed := w.copy.Publish(t.Context())
		if killed != nil && !errors.Is(killed, errKilled) {
			t.Fatal(killed)
		}
		w.looksWhole(k.what)
		w.reopen(func(string) error { return nil })
		w.publish()
		w.check()
		r.promised.Store(w.count(schema.Outliers))
		if err := os.RemoveAll(filepath.Join(w.dir, manifestFolder)); err != nil { // all parts are written again, and that is interrupted, too
			t.Fatal(err)
		}
		w.write(j, 16)
		k = &killer{dir: w.dir, n: n * 3}
		w.reopen(k.step)
		if err := w.copy.Publish(t.Context()); err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		w.reopen(func(string) error { return nil })
		w.publish()
		w.check()
		r.stop()
		r.done.Wait()
		readings += r.counted.Load()
		if t.Failed() {
			t.Fatalf("killed at step %d: %s", n, k.what)
		}
		if killed == nil {
			break
		}
	}
	if readings == 0 {
		t.Error("nothing was read meanwhile")
	}
}

// looksWhole checks that a check finds the files of a publication, also if it was interrupted.
func (w *world) looksWhole(when string) {
	w.Helper()
	f, err := Look(w.Context(), w.dir, filepath.Join(filepath.Dir(w.dir), "keep"), w.tables)
	if err != nil {
		w.Fatal(err)
	}
	damaged, err := f.Verify(w.Context())
	if problems := append(damaged, f.Problems...); err != nil || len(problems) > 0 {
		w.Errorf("after a kill at %q: %q, %v", when, problems, err)
	}
	if n := len(f.Paths(schema.Outliers)); n == 0 || f.Marks == (sinks.Marks{}) {
		w.Errorf("after a kill at %q: %d files, marks %v", when, n, f.Marks)
	}
}
