package duckdb_test

import (
	"flag"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/sinktest"
)

var (
	kills      = flag.Int("kills", 3, "how often TestKilledWriterLosesNothing kills the writer")
	everyBlock = flag.Bool("every-block", false, "damage each of the blocks in place of some by chance")
)

// TestKilledWriterLosesNothing kills a writer at moments drawn by chance, most of them
// while it publishes, vacuums or rebuilds, beside a reader that must not notice.
func TestKilledWriterLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("a process that ends races little; the ordinary run kills some")
	}
	for left := *kills; left > 0; left -= 50 {
		killWriter(t, min(left, 50))
	}
}

func killWriter(t *testing.T, times int) {
	dir, j := t.TempDir(), sinktest.Sample(journalLength)
	l := open(t, dir)
	l.Publish(t) // tables without rows
	l.Close(t)
	reader := spawn(t, "reader", dir)
	looks, damaged := make(chan int), 0
	go func() {
		n := 0
		for reader.out.Scan() {
			n++
		}
		looks <- n
	}()
	for range times {
		p := spawn(t, "writer", dir)
		acknowledged := p.watermark(t)
		for range rand.IntN(4) {
			acknowledged = p.watermark(t)
		}
		time.Sleep(rand.N(150 * time.Millisecond)) // as long as what follows takes
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for p.out.Scan() { // what it said before it died
			acknowledged = parseMark(t, p.out.Text())
		}
		p.Wait()
		if checkKilled(t, dir, acknowledged) {
			damaged++
		}
	}
	reader.in.Close()
	n := <-looks
	if err := reader.Wait(); err != nil {
		t.Fatalf("the reader failed after %d looks: %v %s", n, err, reader.errors)
	}
	l = open(t, dir)
	mark := l.Marks(t).Answers
	l.Publish(t)
	l.Check(t, j, mark)
	if file, err := os.Open(private(dir)); err != nil {
		t.Error(err)
	} else if err := database.Verify(file); err != nil {
		t.Error(err)
	}
	t.Logf("%d kills, after %d of which the warehouse was damaged; %d answers, %d looks", times, damaged, mark, n)
}

// checkKilled looks at what a killed writer left, and reports whether its file was damaged. Then it lacks what was not
// published.
func checkKilled(t *testing.T, dir string, acknowledged int64) (damaged bool) {
	t.Helper()
	o, told := sinktest.Options(dir), &strings.Builder{}
	o.Published, o.Log = published(dir), slog.New(slog.NewTextHandler(told, nil))
	l := sinktest.Open(openCopy).With(t, dir, o)
	defer l.Close(t)
	mark := l.Marks(t).Answers
	damaged = strings.Contains(told.String(), "damaged warehouse removed")
	if mark < acknowledged && !damaged {
		t.Errorf("watermark %d, but %d was acknowledged", mark, acknowledged)
	}
	return damaged
}
