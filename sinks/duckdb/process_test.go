package duckdb_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"outlierd/internal/testenv"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/parquet"
	"outlierd/sinks/sinktest"
	"outlierd/sinks/warehouse"
)

// The tests of this file need another process: the test binary itself, told by a
// variable what to be.
const role = "OUTLIERD_SINKTEST_ROLE"

// ctx is that of the other processes.
var ctx = context.Background()

func TestMain(m *testing.M) {
	roles := map[string]func(dir string) error{"writer": beWriter, "reader": beReader, "holder": beHolder, "borrower": beBorrower, "filler": beFiller, "starved": beStarved, "narrow": beNarrow}
	what, dir, _ := strings.Cut(os.Getenv(role), ":")
	if what == "" {
		testenv.Prepare()
		os.Exit(m.Run())
	}
	if err := roles[what](dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// say tells the test something.
func say(what any) { fmt.Println(what) }

// process is another process and what it says, a line at a time.
type process struct {
	*exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	errors *strings.Builder
}

func spawn(t *testing.T, what, dir string) *process {
	t.Helper()
	p := &process{Cmd: exec.CommandContext(t.Context(), os.Args[0]), errors: &strings.Builder{}}
	p.Env = append(os.Environ(), role+"="+what+":"+dir)
	p.Stderr = p.errors
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// says reads the process's next line.
func (p *process) says(t *testing.T) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatalf("the process ended: %v %s", p.Wait(), p.errors)
	}
	return p.out.Text()
}

func (p *process) watermark(t *testing.T) int64 {
	t.Helper()
	return parseMark(t, p.says(t))
}

func parseMark(t *testing.T, line string) int64 {
	t.Helper()
	mark, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mark
}

// journalLength is long enough that no writer reaches its end before it is killed.
const journalLength = 400

// lineOf is the line of the other processes.
func lineOf(dir string) (*warehouse.Warehouse, *duckdb.Copy, warehouse.Options) {
	o := sinktest.Options(dir)
	w := warehouse.New(o)
	return w, duckdb.New(w, published(dir), o.Temp), o
}

// folderOf is the Parquet folder of the line.
func folderOf(w *warehouse.Warehouse, dir string) *parquet.Copy {
	return parquet.New(w, parquet.Options{Dir: filepath.Join(dir, "parquet")})
}

// beWriter writes and publishes single answers, as a file and as a folder, and says each watermark after Write has
// returned. Now and then it vacuums, leaves out more or rebuilds.
func beWriter(dir string) error {
	w, c, o := lineOf(dir)
	folder, j := folderOf(w, dir), sinktest.Sample(journalLength)
	for {
		marks, err := w.Marks(ctx)
		if err != nil || marks.Answers == journalLength {
			return errors.Join(err, w.Close())
		}
		if err := writeNext(w, j, marks.Answers, marks.Answers+1); err != nil {
			return err
		}
		say(marks.Answers + 1)
		switch rand.IntN(8) {
		case 0: // the last vacuum was long ago
			err = w.Run(ctx, func(db *database.DB) error {
				_, err := db.Exec(ctx, "UPDATE warehouse.outlierd.marks SET id = 1 WHERE name = 'vacuum'")
				return err
			})
		case 1:
			err = w.Omit(ctx, sinks.Omitted{UpTo: map[string]int64{"channels_history": marks.Answers, "trending_formats": marks.Answers - 1},
				Columns: map[string][]string{"outliers": {"title"}, "comments": {[]string{"text", "extra"}[rand.IntN(2)]}}})
		case 2:
			if err := w.Close(); err != nil {
				return err
			}
			err = warehouse.Rebuild(ctx, o, func(w *warehouse.Warehouse) error {
				if err := writeNext(w, j, 0, marks.Answers/2); err != nil || marks.Answers/2 == marks.Answers+1 {
					return err
				}
				return writeNext(w, j, marks.Answers/2, marks.Answers+1)
			})
		}
		if err == nil {
			err = w.WriteOps(ctx, sinktest.Runs(0, marks.Answers+1))
		}
		shown := sinks.Marks{}
		if err == nil {
			shown, err = c.Shows(ctx)
		}
		if err == nil && shown.Answers > marks.Answers+1 { // a damaged warehouse is filled again before it is published
			continue
		}
		if err == nil {
			err = c.Publish(ctx)
		}
		if err == nil {
			err = folder.Publish(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func writeNext(w *warehouse.Warehouse, j sinktest.Journal, lo, hi int64) error {
	b := j.Batch(lo, hi)
	defer sinktest.Release(b)
	return w.Write(ctx, b)
}

// beReader opens the published file again and again until its input ends, checks
// that it sees whole batches and never an older one, and says how often it looked.
func beReader(dir string) error {
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	j := sinktest.Sample(journalLength)
	last := int64(0)
	for looks := 1; ; looks++ {
		mark, err := look(dir, j)
		if err != nil {
			return fmt.Errorf("look %d: %w", looks, err)
		}
		if mark < last {
			return fmt.Errorf("look %d: watermark %d after %d", looks, mark, last)
		}
		last = mark
		say(mark)
		select {
		case <-ended:
			return nil
		default:
		}
	}
}

func look(dir string, j sinktest.Journal) (mark int64, err error) {
	in, err := database.Open(ctx, database.Options{Temp: filepath.Join(dir, "reader")})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if _, err := in.Exec(ctx, "ATTACH "+database.Text(published(dir))+" AS warehouse (READ_ONLY)"); err != nil {
		return 0, err
	}
	rows, err := in.Query(ctx, `SELECT (SELECT id FROM warehouse.outlierd.marks WHERE name = 'journal'),
		(SELECT count(*) FROM warehouse.main.outliers_history), (SELECT coalesce(sum(times_seen), 0)::BIGINT FROM warehouse.main.outliers),
		(SELECT count(*) FROM warehouse.main.transcript_events)`)
	if err != nil {
		return 0, err
	}
	mark = rows[0][0].(int64)
	for i, want := range []int{count(j, schema.OutliersHistory, mark), count(j, schema.Outliers, mark), len(j.Want(schema.TranscriptEvents, mark))} {
		if got := rows[0][i+1].(int64); got != int64(want) {
			return 0, fmt.Errorf("count %d is %d at watermark %d, want %d", i, got, mark, want)
		}
	}
	return mark, lookAtFolder(in, dir)
}

// lookAtFolder checks that a reader of the Parquet folder finds every key once.
func lookAtFolder(in *database.DB, dir string) error {
	files := filepath.Join(dir, "parquet", schema.Outliers.FileName(), "*.parquet")
	if found, err := filepath.Glob(files); err != nil || len(found) == 0 {
		return err // no table has had a row
	}
	rows, err := in.Query(ctx, "SELECT count(*), count(DISTINCT video_id) FROM read_parquet("+database.Text(files)+")")
	if err == nil && rows[0][0] != rows[0][1] {
		err = fmt.Errorf("%d rows of %d videos", rows[0][0], rows[0][1])
	}
	return err
}

// count counts observations.
func count(j sinktest.Journal, table *schema.Table, hi int64) (n int) {
	for _, a := range j[:hi] {
		n += len(a.Rows[table])
	}
	return n
}

// beHolder keeps the warehouse open until its input ends.
func beHolder(dir string) error {
	w, _, _ := lineOf(dir)
	if _, err := w.Marks(ctx); err != nil {
		return err
	}
	say("holding")
	io.Copy(io.Discard, os.Stdin)
	return w.Close()
}

func TestWarehouseInUseNamesItsHolder(t *testing.T) {
	dir := t.TempDir()
	p := spawn(t, "holder", dir)
	p.says(t)
	l := open(t, dir)
	_, err := l.Warehouse.Marks(t.Context())
	wantError(t, err, fmt.Sprintf("PID %d", p.Process.Pid), warehouse.Name)
	p.in.Close()
	if err := p.Wait(); err != nil {
		t.Fatalf("%v %s", err, p.errors)
	}
	l.Marks(t)
}
