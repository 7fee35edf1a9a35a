package parquet

import (
	"errors"
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/sinktest"
)

var errKilled = errors.New("killed")

// killer fails the nth change of the disk, and those after it unless once is set.
// A file whose sync fails has lost its second half, as in a power cut.
type killer struct {
	dir  string
	n    int
	once bool
	what string // the change that failed
}

func (k *killer) step(what string) error {
	k.n--
	if k.n > 0 || k.n < 0 && k.once {
		return nil
	}
	if k.n == 0 {
		k.what = what
	}
	if name, ok := strings.CutPrefix(what, "sync "); ok && k.n == 0 {
		path := filepath.Join(k.dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			if err := os.Truncate(path, info.Size()/2); err != nil {
				return err
			}
		}
	}
	return errKilled
}

// perform brings s from its watermark to the end of the journal, with a
// publication after every batch of two answers.
func perform(t *testing.T, s *Sink, j sinktest.Journal) error {
	lo, err := s.Watermark(t.Context())
	for err == nil && lo < int64(len(j)) {
		b := j.Batch(lo, min(lo+2, int64(len(j))))
		err = s.Write(t.Context(), b)
		sinktest.Release(b)
		lo = b.Hi
		if err == nil {
			err = publishRuns(t, s, lo)
		}
	}
	if err != nil {
		return err
	}
	return publishRuns(t, s, lo)
}

// publishRuns tells of runs 1 to hi.
func publishRuns(t testing.TB, s *Sink, hi int64) error {
	version, err := s.OpsVersion(t.Context())
	if err != nil {
		return err
	}
	return s.Publish(t.Context(), sinktest.Runs(version, hi))
}

// checkReadable reads every table, and compares those that need no publication with
// the watermark: readers see all of a batch or nothing, and no torn file.
func checkReadable(t *testing.T, s *Sink, dir string, j sinktest.Journal) {
	t.Helper()
	mark, err := s.Watermark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range sinktest.Tables() {
		if table.Kind != schema.Current && table.Kind != schema.Children {
			suite.CheckTable(t, dir, table, j, mark)
		}
	}
	for _, table := range slices.Concat(sinktest.Tables(), sinktest.Ops()) {
		for _, rows := range suite.Read(t, dir, table) {
			rows.Release()
		}
	}
}

func checkLeftovers(t *testing.T, dir string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".tmp") || strings.HasSuffix(path, ".arrow") {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// crashing is a short journal: every step that it takes is a test of its own. Its
// tables are of the kinds that differ in the files that they rewrite.
func crashing() sinktest.Journal {
	return sinktest.Sample(4).Only(schema.Outliers, schema.OutliersHistory, schema.TranscriptEvents)
}

// TestEverythingIsDurableBeforeTheManifestNamesIt: what a power cut leaves cannot be tried,
// but the order of writes, syncs and renames is what decides it.
func TestEverythingIsDurableBeforeTheManifestNamesIt(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(4)
	var unsynced []string // files, and folders with names that are new
	commits, opened := 0, false
	s, err := open(options(dir), func(what string) error {
		verb, name, _ := strings.Cut(what, " ")
		switch {
		case !opened:
		case verb == "write":
			unsynced = append(unsynced, name, path.Dir(name))
		case verb == "create":
			unsynced = append(unsynced, path.Dir(name))
		case verb == "rename" && path.Dir(name) == manifestFolder:
			commits++
			unsynced = slices.DeleteFunc(unsynced, func(name string) bool { return name == manifestFolder }) // synced after it
			if len(unsynced) > 0 {
				t.Errorf("commit %d before %q are synced", commits, unsynced)
			}
			unsynced = []string{manifestFolder}
		case verb == "rename" || verb == "remove":
			if slices.Contains(unsynced, manifestFolder) {
				t.Errorf("%s before commit %d is durable", what, commits)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.sync = func(f *os.File) error {
		name, err := filepath.Rel(dir, f.Name())
		unsynced = slices.DeleteFunc(unsynced, func(other string) bool { return other == name })
		return errors.Join(err, f.Sync())
	}
	opened = true
	if err := perform(t, s, j); err != nil {
		t.Fatal(err)
	}
	if commits < 4 {
		t.Errorf("only %d commits were seen", commits)
	}
}

func TestBatchThatFailedCanBeWrittenAgain(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(8)
	kill := &killer{dir: dir, once: true}
	s, err := open(options(dir), func(what string) error { return kill.step(what) })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for lo := int64(0); lo < 8; lo += 2 {
		b := j.Batch(lo, lo+2)
		kill.n = 1
		for range len(b.Parts) { // so that the rows of every kind of table have been looked at
			kill.n += 3
		}
		if err := s.Write(t.Context(), b); err == nil {
			t.Fatalf("batch after %d did not fail", lo)
		}
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatalf("after a failure at %s: %v", kill.what, err)
		}
		sinktest.Release(b)
	}
	if err := s.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	suite.Check(t, dir, j, 8)
}

// TestDatesAreThoseOfUTC, whatever the zone of the machine.
func TestDatesAreThoseOfUTC(t *testing.T) {
	defer func(zone *time.Location) { time.Local = zone }(time.Local)
	time.Local = time.FixedZone("Kiritimati", 14*60*60)
	dir, j := t.TempDir(), sinktest.Sample(4).Only(schema.OutliersHistory) // observed from 23:00 on 1 March
	s := openSink(t, dir)
	defer s.Close()
	if err := perform(t, s, j); err != nil {
		t.Fatal(err)
	}
	dates, err := filepath.Glob(filepath.Join(dir, "outliers_history", "date=*"))
	if err != nil || len(dates) != 1 || filepath.Base(dates[0]) != "date=2026-03-01" {
		t.Errorf("folders %v, %v", dates, err)
	}
}

var everyStep = flag.Bool("every-step", false, "kill at each step, in place of one in five by chance")

// stepsToKill are the first step at which a test kills, and how many lie between two.
func stepsToKill() (first, stride int) {
	stride = 5
	switch {
	case *everyStep:
		stride = 1
	case testing.Short():
		stride = 10
	}
	return 1 + rand.IntN(stride), stride
}

func TestKilledBetweenAnyTwoSteps(t *testing.T) {
	j := crashing()
	first, stride := stepsToKill()
	for n := first; ; n += stride {
		dir := t.TempDir()
		kill := &killer{dir: dir, n: n}
		s, err := open(options(dir), kill.step)
		if err == nil {
			err = perform(t, s, j)
			s.Close()
		}
		if err == nil {
			t.Logf("%d steps", n-1)
			return
		}
		if !errors.Is(err, errKilled) {
			t.Fatalf("killed at step %d (%s): %v", n, kill.what, err)
		}
		checkNoPartTwice(t, dir)
		s = openSink(t, dir)
		checkReadable(t, s, dir, j)
		if err := perform(t, s, j); err != nil {
			t.Fatalf("after a kill at step %d (%s): %v", n, kill.what, err)
		}
		suite.Check(t, dir, j, int64(len(j)))
		suite.CheckRuns(t, dir, int64(len(j)))
		checkLeftovers(t, dir)
		s.Close()
		if t.Failed() {
			t.Fatalf("after a kill at step %d (%s)", n, kill.what)
		}
	}
}

// checkNoPartTwice: what readers list never has an answer in two parts of a day, not even before
// the next start: compacted parts take the places of the small ones in one step.
func checkNoPartTwice(t *testing.T, dir string) {
	t.Helper()
	for _, table := range sinktest.Tables() {
		for day, parts := range partsOf(t, dir, table) {
			last := int64(0)
			for _, part := range parts { // in the order of their names
				lo, hi := rangeOf(part)
				if lo < last {
					t.Errorf("%s of %s has %v", table.Name, day, parts)
				}
				last = hi
			}
		}
	}
}

func TestOneFailureLeavesTheSinkUsable(t *testing.T) {
	j := crashing()
	for n := 3; ; n += 5 { // the first few are Open's
		dir := t.TempDir()
		kill := &killer{dir: dir, n: n, once: true}
		s, err := open(options(dir), kill.step)
		if errors.Is(err, errKilled) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		err = perform(t, s, j)
		if err == nil {
			s.Close()
			return
		}
		checkReadable(t, s, dir, j)
		if err := perform(t, s, j); err != nil {
			t.Fatalf("after step %d (%s) failed: %v", n, kill.what, err)
		}
		suite.Check(t, dir, j, int64(len(j)))
		suite.CheckRuns(t, dir, int64(len(j)))
		checkLeftovers(t, dir)
		s.Close()
		if t.Failed() {
			t.Fatalf("after step %d (%s) failed", n, kill.what)
		}
	}
}

func TestOpenRefusesWhatItCannotContinue(t *testing.T) {
	filled := func(t *testing.T) string {
		dir := t.TempDir()
		s := openSink(t, dir)
		defer s.Close()
		if err := perform(t, s, sinktest.Sample(4)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, c := range map[string]struct {
		spoil func(dir string) error
		want  []string
	}{
		"a lost manifest":    {func(dir string) error { return os.Remove(filepath.Join(dir, manifestName)) }, []string{"no " + manifestName, rebuild}},
		"a damaged manifest": {func(dir string) error { return os.Truncate(filepath.Join(dir, manifestName), 20) }, []string{manifestName, rebuild}},
		"a newer manifest": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, manifestName), []byte(`{"version": 3}`), 0o644)
		}, []string{"version 3", "newer program"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filled(t)
			if err := c.spoil(dir); err != nil {
				t.Fatal(err)
			}
			checkError(t, dir, c.want)
		})
	}
}

func TestOpenRefusesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "parquet")
	if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	checkError(t, path, []string{path})
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("the file now holds %q, %v", text, err)
	}
}

// TestFolderThatWasMovedIsNotWrittenTo: it stays open, so only its place tells.
func TestFolderThatWasMovedIsNotWrittenTo(t *testing.T) {
	for name, replace := range map[string]func(dir string) error{
		"nothing in its place":      func(string) error { return nil },
		"a file in its place":       func(dir string) error { return os.WriteFile(dir, nil, 0o644) },
		"another one in its place":  func(dir string) error { return os.Mkdir(dir, 0o755) },
		"a link to it in its place": func(dir string) error { return os.Symlink(dir+".moved", dir) }, // readers find it
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "parquet")
			s := openSink(t, dir)
			defer s.Close()
			if err := perform(t, s, sinktest.Sample(4)); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Rename(dir, dir+".moved"), replace(dir)); err != nil {
				t.Fatal(err)
			}
			_, err := s.Watermark(t.Context())
			for what, err := range map[string]error{
				"asked":     err,
				"written":   s.Write(t.Context(), sinks.Batch{Lo: s.state.Watermark, Hi: s.state.Watermark + 1}),
				"published": s.Publish(t.Context(), nil),
			} {
				if linked := strings.Contains(name, "link"); linked != (err == nil) {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

func checkError(t *testing.T, dir string, want []string) {
	t.Helper()
	s, err := Open(options(dir))
	if err == nil {
		s.Close()
		t.Fatal("opened without an error")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func TestForeignFilesAreLeftAlone(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(6)
	foreign := []string{"notes.txt", "outliers/mine.parquet", "outliers/part-1-2.parquet", "outliers/current.parquet.bak", "outliers/x.1.tmp",
		"outliers_history/date=2026-03-01/extra.parquet", "other/part-000000000001-000000000002.parquet"}
	for _, name := range foreign {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := openSink(t, dir)
	defer s.Close()
	if err := perform(t, s, j); err != nil {
		t.Fatal(err)
	}
	for _, name := range foreign {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != name {
			t.Errorf("%s now holds %q, %v", name, text, err)
		}
	}
}

func TestCurrentTablesThatDidNotChangeAreNotWrittenAgain(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(6)
	s := openSink(t, dir)
	defer s.Close()
	if err := perform(t, s, j); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, current(schema.Outliers))
	before, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := publishRuns(t, s, 6); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(name); err != nil || !os.SameFile(before, after) {
		t.Errorf("%s was replaced, %v", name, err)
	}
}

func TestNamesSortInTheOrderOfTheJournal(t *testing.T) {
	got := []string{partOf(0, 9), partOf(9, 10), partOf(10, 999_999_999_999)}
	want := []string{"part-000000000001-000000000009.parquet", "part-000000000010-000000000010.parquet", "part-000000000011-999999999999.parquet"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, name := range got {
		if !isPart(name) || isTemporary(name) || !isTemporary(temporary(name, 3)) {
			t.Errorf("%s is not known by its name", name)
		}
	}
}

// TestDatesDoNotDependOnBatches: the events of a transcript say nothing of when they were
// observed, and stand under the date of their own answer.
func TestDatesDoNotDependOnBatches(t *testing.T) {
	j := sinktest.Sample(20) // its answers are of two dates
	dated := func(size int64) map[string][]int64 {
		dir := t.TempDir()
		s := openSink(t, dir)
		defer s.Close()
		for lo := int64(0); lo < int64(len(j)); lo += size {
			b := j.Batch(lo, min(lo+size, int64(len(j))))
			if err := s.Write(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			sinktest.Release(b)
		}
		dates := map[string][]int64{}
		err := s.eachPart(t.Context(), schema.TranscriptEvents, nil, func(name string, rows arrow.RecordBatch) error {
			date := path.Base(path.Dir(name))
			dates[date] = append(dates[date], slices.Compact(slices.Clone(answers(rows).Int64Values()))...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return dates
	}
	want := dated(1)
	if len(want) != 2 {
		t.Fatalf("dates %v, want two", want)
	}
	for _, size := range []int64{7, 20} {
		if diff := cmp.Diff(want, dated(size)); diff != "" {
			t.Errorf("batches of %d answers (-of one +these):\n%s", size, diff)
		}
	}
}
