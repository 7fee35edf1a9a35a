//go:build iceberg

package iceberg

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/sinks/sinktest"
	"outlierd/testenv"
)

var (
	lakeWeeks = flag.Int("lake-weeks", 1, "how many seeds of TestWeeksOfSeveralWriters are played")
	lakeSeed  = flag.Uint64("lake-seed", 0, "the first seed of TestWeeksOfSeveralWriters; 0 for one by chance")
)

// TestWeeksOfSeveralWriters has three writers fill a lake for three weeks of virtual time. They write,
// are stopped before a commit, start again, and are away for days, in an order by chance. In the end each
// has exactly its own rows, and no snapshot but a table's only one is older than a week.
func TestWeeksOfSeveralWriters(t *testing.T) {
	first := *lakeSeed
	if first == 0 {
		first = rand.Uint64N(1 << 32)
	}
	log.SetOutput(io.Discard) // the library's
	for seed := first; seed < first+uint64(*lakeWeeks); seed++ {
		t.Run(fmt.Sprintf("lake-seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playWeeks(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func TestMain(m *testing.M) {
	testenv.Prepare()
	if what, dir, child := strings.Cut(os.Getenv(replaceVariable), " "); child {
		replaceRows(what, dir)
		return
	}
	os.Exit(m.Run())
}

// writerOfWeeks is a writer of TestWeeksOfSeveralWriters.
type writerOfWeeks struct {
	instance string
	sink     *Sink // nil while it does not run
	away     time.Time
}

func playWeeks(t *testing.T, chance *rand.Rand) {
	const answers = 12
	dir, journal := t.TempDir(), sinktest.Sample(answers)
	writers := []*writerOfWeeks{{instance: "a"}, {instance: "b"}, {instance: "c"}}
	defer func() {
		for _, w := range writers {
			w.stop(t)
		}
	}()
	end := time.Now().Add(21 * 24 * time.Hour)
	for time.Now().Before(end) {
		time.Sleep(time.Duration(1+chance.IntN(18)) * time.Hour)
		w := writers[chance.IntN(len(writers))]
		if time.Now().Before(w.away) {
			continue
		}
		if w.sink == nil {
			w.sink = openSink(t, dir, w.instance)
		}
		stop := -1
		if chance.IntN(4) == 0 {
			stop = chance.IntN(12)
		}
		w.sink.step = func(string) error {
			if stop--; stop == -1 {
				return errStopped
			}
			return nil
		}
		err := w.turn(t, journal, chance.Int64N(3), answers)
		if err != nil && !errors.Is(err, errStopped) {
			t.Fatalf("%s, writer %s: %v", time.Now().Format(time.DateTime), w.instance, err)
		}
		if err != nil || chance.IntN(6) == 0 {
			w.stop(t)
		}
		if chance.IntN(8) == 0 {
			w.away = time.Now().Add(time.Duration(1+chance.IntN(6)) * 24 * time.Hour)
		}
		touchNew(t, dir)
	}
	for range 2 { // two days on which all of them run
		time.Sleep(4 * 24 * time.Hour)
		for _, w := range writers {
			w.stop(t)
			w.sink = openSink(t, dir, w.instance)
			if err := w.turn(t, journal, answers, answers); err != nil {
				t.Fatalf("writer %s: %v", w.instance, err)
			}
			touchNew(t, dir)
		}
	}
	for _, w := range writers {
		found := suite
		found.Read = readAs(w.instance)
		found.Check(t, dir, journal, answers)
	}
	w := writers[0]
	for _, of := range append(sinktest.Tables(), sinktest.Ops()...) {
		l := w.sink.tables[of]
		if err := l.reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if log := l.snapshotLog(); len(log) > 1 && time.Since(time.UnixMilli(log[0].TimestampMs)) > kept.age {
			t.Errorf("table %s has a snapshot of %v", l.name(), time.UnixMilli(log[0].TimestampMs))
		}
	}
}

// turn writes some answers and publishes.
func (w *writerOfWeeks) turn(t *testing.T, journal sinktest.Journal, some, most int64) error {
	at, err := w.sink.Watermark(t.Context())
	if err != nil {
		return err
	}
	if hi := min(at+some, most); hi > at {
		b := journal.Batch(at, hi)
		defer sinktest.Release(b)
		if err := w.sink.Write(t.Context(), b); err != nil {
			return err
		}
	}
	return w.sink.Publish(t.Context(), nil)
}

func (w *writerOfWeeks) stop(t *testing.T) {
	if w.sink == nil {
		return
	}
	if err := w.sink.Close(); err != nil {
		t.Error(err)
	}
	w.sink = nil
}

// touchNew gives files that were written by the real clock the virtual time.
func touchNew(t *testing.T, dir string) {
	now := time.Now()
	err := filepath.WalkDir(filepath.Join(dir, "lake"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil || !info.ModTime().After(now) {
			return err
		}
		return os.Chtimes(path, now, now)
	})
	if err != nil {
		t.Fatal(err)
	}
}
