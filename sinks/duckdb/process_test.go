//go:build duckdb_arrow

package duckdb

import (
	"bufio"
	"context"
	"database/sql/driver"
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
	"time"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/parquet"
	"outlierd/sinks/sinktest"
	"outlierd/testenv"
)

// The tests of this file need another process: the test binary itself, told by a
// variable what to be.
const role = "OUTLIERD_SINKTEST_ROLE"

func TestMain(m *testing.M) {
	roles := map[string]func(dir string) error{"writer": beWriter, "reader": beReader, "holder": beHolder, "borrower": beBorrower}
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

// journalLength is long enough that no writer reaches its end before it is killed.
const journalLength = 400

// beWriter writes and publishes single answers to both sinks, and says each watermark after Write has
// returned. By its clock a month passes now and then, so that it vacuums, too; to Parquet all days of
// the journal are over, so that each publication compacts.
func beWriter(dir string) error {
	ctx, o := context.TODO(), options(dir)
	now := time.Now()
	o.now = func() time.Time { now = now.AddDate(0, rand.IntN(6)/5, 0); return now }
	one, err := Open(ctx, o)
	if err != nil {
		return err
	}
	other, err := parquet.Open(parquetOptions(dir))
	if err != nil {
		return errors.Join(err, one.Close())
	}
	both, j := []sinks.Sink{one, other}, sinktest.Sample(journalLength)
	for id := range int64(journalLength) {
		if err = writeBoth(ctx, both, j, id); err != nil {
			break
		}
	}
	return errors.Join(err, one.Close(), other.Close())
}

// writeBoth writes and publishes the answer after id where it is lacking.
func writeBoth(ctx context.Context, both []sinks.Sink, j sinktest.Journal, id int64) error {
	wrote := false
	for _, s := range both {
		mark, err := s.Watermark(ctx)
		if err != nil {
			return err
		}
		if mark > id {
			continue
		}
		b := j.Batch(id, id+1)
		err = s.Write(ctx, b)
		sinktest.Release(b)
		if err != nil {
			return err
		}
		wrote = true
	}
	if !wrote {
		return nil
	}
	fmt.Println(id + 1)
	for _, i := range rand.Perm(len(both)) {
		if err := both[i].Publish(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func parquetOptions(dir string) parquet.Options {
	return parquet.Options{Dir: filepath.Join(dir, "parquet"), Tables: sinktest.Tables(), Ops: sinktest.Ops()}
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
		if err := lookAtFiles(dir, j, last); err != nil {
			return fmt.Errorf("look %d: %w", looks, err)
		}
		last = mark
		fmt.Println(mark)
		select {
		case <-ended:
			return nil
		default:
		}
	}
}

func look(dir string, j sinktest.Journal) (mark int64, err error) {
	ctx := context.TODO()
	in, err := database.Open(ctx, database.Options{Temp: filepath.Join(dir, "reader")})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if _, err := in.Exec(ctx, "ATTACH "+database.Text(filepath.Join(dir, "outliers.duckdb"))+" AS warehouse (READ_ONLY)"); err != nil {
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
	return mark, nil
}

// lookAtFiles reads the Parquet files of a history, as a glob finds them, and checks that each of the
// answers before one that was published is there once and whole. In the moment in which the files of a
// day become one, those that were listed are gone, and DuckDB's glob may pass over the day; that is
// read again, as docs/querying.md says.
func lookAtFiles(dir string, j sinktest.Journal, published int64) error {
	files := filepath.Join(dir, "parquet", schema.OutliersHistory.FileName(), "*", "*.parquet")
	if some, err := filepath.Glob(files); err != nil || len(some) == 0 {
		return err
	}
	ctx := context.TODO()
	in, err := database.Open(ctx, database.Options{Temp: filepath.Join(dir, "reader")})
	if err != nil {
		return err
	}
	defer in.Close()
	for range 20 {
		var rows [][]driver.Value
		rows, err = in.Query(ctx, "SELECT _response_id, count(*) FROM read_parquet("+database.Text(files)+") GROUP BY ALL")
		if err != nil {
			continue
		}
		found := map[int64]int64{}
		for _, row := range rows {
			found[row[0].(int64)] = row[1].(int64)
		}
		for _, a := range j {
			want, n := int64(len(a.Rows[schema.OutliersHistory])), found[a.ID]
			switch {
			case n == 0 && want > 0 && a.ID < published:
				err = fmt.Errorf("answer %d has no rows in Parquet", a.ID)
			case n != 0 && n != want:
				return fmt.Errorf("answer %d has %d rows in Parquet, want %d", a.ID, n, want)
			}
		}
		if err == nil {
			return nil
		}
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

func TestReaderInAnotherProcessSeesWholeBatches(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	p := spawn(t, "reader", dir)
	j := sinktest.Sample(journalLength)
	for lo := int64(0); lo < 24; lo += 2 {
		write(t, s, j, lo, lo+2)
		if err := s.Publish(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		p.says(t)
	}
	p.in.Close()
	looks, last := 12, ""
	for p.out.Scan() {
		looks, last = looks+1, p.out.Text()
	}
	if err := p.Wait(); err != nil {
		t.Fatalf("the reader failed: %v %s", err, p.errors)
	}
	t.Logf("%d looks, the last at watermark %s", looks, last)
}

func write(t *testing.T, s sinks.Sink, j sinktest.Journal, lo, hi int64) {
	t.Helper()
	b := j.Batch(lo, hi)
	defer sinktest.Release(b)
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// beHolder keeps the private file open until its input ends.
func beHolder(dir string) error {
	s, err := Open(context.TODO(), options(dir))
	if err != nil {
		return err
	}
	if _, err := s.Watermark(context.TODO()); err != nil {
		return err
	}
	fmt.Println("holding")
	io.Copy(io.Discard, os.Stdin)
	return s.Close()
}

func TestPrivateFileInUseNamesItsHolder(t *testing.T) {
	dir := t.TempDir()
	p := spawn(t, "holder", dir)
	p.says(t)
	_, err := Open(t.Context(), options(dir))
	want := fmt.Sprintf("PID %d", p.Process.Pid)
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "warehouse.duckdb") {
		t.Errorf("error %v does not say %q", err, want)
	}
	p.in.Close()
	if err := p.Wait(); err != nil {
		t.Fatalf("%v %s", err, p.errors)
	}
	open(t, dir).Close()
}
