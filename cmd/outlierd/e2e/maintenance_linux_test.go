package e2e

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/internal/testenv"
	"outlierd/sync/journal"
	"outlierd/sync/state"
)

var maintenanceSteps = flag.Bool("maintenance-steps", false, "kill rebuild, forget, check, backup and restore after each of their steps, in place of a sample")

// keptJobs are two jobs, the second of which is run after the backup.
const keptJobs = `
version: 1
service: {url: "sim://", limit: 6000/min}
sinks: [{duckdb: outliers.duckdb}, {parquet: parquet}]
budget: {per_month: 100}
jobs:
  coffee: {search: {query: [espresso]}, enrich: {details: {top: 3}, comments: {top: 3}, channel_videos: {top: 2}}}
  tea: {search: {query: [green tea]}}
`

// kept has the files of a world in which job coffee of keptJobs has run.
var kept struct {
	sync.Once
	files fstest.MapFS
}

// newKeptWorld returns a world with keptJobs, of which coffee has run.
func newKeptWorld(t *testing.T) *testWorld {
	w := &testWorld{TB: t, dir: t.TempDir(), url: "sim://"}
	kept.Do(func() {
		first := &testWorld{TB: t, dir: t.TempDir(), url: "sim://"}
		first.write(keptJobs)
		first.mustRun("run", "coffee")
		kept.files = programtest.ReadFolder(t, first.dir)
	})
	if err := os.CopyFS(w.dir, kept.files); err != nil || len(kept.files) == 0 {
		t.Fatalf("copy %d files: %v", len(kept.files), err)
	}
	return w
}

// maintenanceCommand is a command that is killed, with the checks after it was run again.
type maintenanceCommand struct {
	args   []string
	before func(w *testWorld)              // prepares the files for the command; may be nil
	killed func(w *testWorld) (again bool) // looks at what a kill left; false if the command had ended. nil: run it again
	after  func(w *testWorld)
}

// TestKilledMaintenanceSucceedsWhenRepeated kills a random command that rewrites files (all with
// -maintenance-steps) after it has created, written, renamed or removed a file or folder: the same command then
// succeeds, the sinks match the journal, and no credit is lost.
func TestKilledMaintenanceSucceedsWhenRepeated(t *testing.T) {
	t.Parallel() // it runs processes of its own
	if testing.Short() {
		t.Skip("builds sinks anew a dozen times")
	}
	base := newKeptWorld(t)
	base.mustRun("backup", "copies")
	atBackup := base.spent()
	base.mustRun("run", "tea")
	spent := base.spent()
	var erased string
	base.query("select channel_id from channels order by channel_id limit 1", func(v []any) { erased = v[0].(string) })
	base.close()
	for _, kept := range []string{"outliers.duckdb", "parquet", "state/warehouse.duckdb"} { // otherwise hasNo shows nothing
		if found, err := programtest.FilesWith(filepath.Join(base.dir, "data", kept), erased); err != nil || len(found) == 0 {
			t.Fatalf("%s is not in data/%s (%v): the test needs it there", erased, kept, err)
		}
	}
	pruned := sync.OnceValue(func() *testWorld {
		w := base.copied(t, maintenanceCommand{})
		w.prune()
		return w
	})

	whole := func(w *testWorld) {
		w.Helper()
		w.sound()
		if got := w.spent(); got != spent {
			w.Errorf("%v credits are spent, want %v", got, spent)
		}
	}
	commands := map[string]maintenanceCommand{
		"rebuild": {args: []string{"rebuild"}, after: whole},
		"forget": {args: []string{"forget", "--channel", erased, "--yes"}, after: func(w *testWorld) {
			whole(w)
			w.hasNo(erased)
		}},
		"check": {args: []string{"check", "--read-data"}, after: func(w *testWorld) {
			whole(w)
			if left, err := os.ReadDir(filepath.Join(w.dir, "data", "state", "tmp")); err != nil || len(left) > 0 {
				w.Errorf("data/state/tmp still has %v (%v)", left, err)
			}
		}},
		"backup": {
			args: []string{"backup", "copies"},
			killed: func(w *testWorld) bool {
				w.mustRun("backup", "--check", "copies")
				return true
			},
			after: func(w *testWorld) {
				whole(w)
				w.mustRun("backup", "--check", "copies")
				if left, err := filepath.Glob(filepath.Join(w.dir, "copies", ".*")); err != nil || len(left) > 0 {
					w.Errorf("killed backups have left %v (%v)", left, err)
				}
			},
		},
		"restore": {
			args:   []string{"restore", "copies", "--spent", "3"},
			before: func(w *testWorld) { w.remove("data") },
			killed: func(w *testWorld) bool { return !w.has("data/state") },
			after: func(w *testWorld) {
				w.mustRun("rebuild")
				w.sound()
				if got := w.spent(); got != atBackup+3 {
					w.Errorf("%v credits are spent, want %v of the backup and 3", got, atBackup)
				}
				if w.has("data/state.restore") {
					w.Error("data/state.restore is left")
				}
			},
		},
	}
	plays := map[string]func(t *testing.T, random *rand.Rand){
		"prune": func(t *testing.T, random *rand.Rand) {
			pruned().killMaintenance(t, random, maintenanceCommand{args: []string{"prune", "--compact"}, after: whole})
		},
	}
	for name, c := range commands {
		plays[name] = func(t *testing.T, random *rand.Rand) { base.killMaintenance(t, random, c) }
	}
	for _, name := range []string{"rebuild", "forget", "check"} {
		plays[name+" of a pruned journal"] = func(t *testing.T, random *rand.Rand) {
			pruned().killMaintenance(t, random, commands[name])
		}
	}
	names := slices.Sorted(maps.Keys(plays))
	if !*maintenanceSteps {
		random := testenv.Random(t)
		random.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
		names = names[:1]
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plays[name](t, testenv.Random(t))
		})
	}
}

// prune prunes most of the journal, whatever its age.
func (w *testWorld) prune() {
	w.Helper()
	s, err := state.Open(w.Context(), filepath.Join(w.dir, "data", "state"), state.Options{})
	if err != nil {
		w.Fatal(err)
	}
	end, err := s.Journal.End()
	for more := err == nil; more; {
		more, err = s.Journal.Prune(journal.Keep{Since: time.Now().Add(time.Hour), UpTo: end - 3})
	}
	if err := errors.Join(err, s.Close()); err != nil {
		w.Fatal(err)
	}
}

// killMaintenance runs a command once without a kill, and then with kills.
func (w *testWorld) killMaintenance(t *testing.T, random *rand.Rand, c maintenanceCommand) {
	calm := w.copied(t, c)
	steps := calm.killAtStep(0, c.args)
	if *maintenanceSteps { // otherwise the result is checked only after a kill
		c.after(calm)
	}
	kills := random.Perm(steps)
	if !*maintenanceSteps {
		kills = kills[:1] // a different one in every test run
	}
	t.Logf("%d steps, killed after %d of them", steps, len(kills))
	for _, k := range kills {
		if t.Failed() {
			return
		}
		one := w.copied(t, c)
		one.killAtStep(k+1, c.args)
		if c.killed == nil || c.killed(one) {
			one.mustRun(c.args...)
		}
		c.after(one)
		if t.Failed() {
			t.Logf("killed after step %d", k+1)
		}
		one.remove(".")
	}
}

// copied returns a world with the same files.
func (w *testWorld) copied(t *testing.T, c maintenanceCommand) *testWorld {
	t.Helper()
	copied := &testWorld{TB: t, dir: filepath.Join(t.TempDir(), "copy"), url: w.url}
	if err := os.CopyFS(copied.dir, os.DirFS(w.dir)); err != nil {
		t.Fatal(err)
	}
	if c.before != nil {
		c.before(copied)
	}
	return copied
}

// killAtStep runs the program and kills it after some steps, 0 for never. It returns how many steps
// there were.
func (w *testWorld) killAtStep(step int, args []string) (steps int) {
	w.Helper()
	ctx, kill := context.WithCancel(w.Context()) // CommandContext kills with SIGKILL
	defer kill()
	watch := w.watch()
	counted := make(chan int)
	go func() {
		n := 0
		watch.steps(func() {
			if n++; n == step {
				kill()
			}
		})
		counted <- n
	}()
	cmd, out := w.command(ctx, args...)
	err := cmd.Run()
	watch.end()
	steps = <-counted
	if ctx.Err() == nil && err != nil {
		w.Fatalf("outlierd %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return steps
}

// fileWatch reports changes of the entries of folders.
type fileWatch struct {
	testing.TB
	fd      int
	folders map[int32]string
	last    string // the folder whose removal ends the watch
}

// stepEvents are the changes of entries, and the end of writing a file.
const stepEvents = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_TO | unix.IN_CLOSE_WRITE

// watch watches all folders of the world.
func (w *testWorld) watch() *fileWatch {
	w.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		w.Fatal(err)
	}
	f := &fileWatch{TB: w.TB, fd: fd, folders: map[int32]string{}, last: w.TempDir()}
	f.add(w.dir)
	f.add(f.last)
	return f
}

// add watches a folder and those below it, except for those that were removed meanwhile.
func (f *fileWatch) add(top string) {
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		id, err := unix.InotifyAddWatch(f.fd, path, stepEvents)
		f.folders[int32(id)] = path
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.Error(err)
	}
}

// end lets steps return.
func (f *fileWatch) end() {
	if err := os.WriteFile(filepath.Join(f.last, "end"), nil, 0o600); err != nil {
		f.Error(err)
	}
}

// steps calls step at each event until end is called.
func (f *fileWatch) steps(step func()) {
	defer unix.Close(f.fd)
	for buffer := make([]byte, 64<<10); ; {
		n, err := unix.Read(f.fd, buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			f.Error(err)
			return
		}
		for rest := buffer[:n]; len(rest) > 0; {
			var e unix.InotifyEvent
			if _, err := binary.Decode(rest, binary.NativeEndian, &e); err != nil {
				f.Error(err)
				return
			}
			end := unix.SizeofInotifyEvent + int(e.Len)
			name := strings.TrimRight(string(rest[unix.SizeofInotifyEvent:end]), "\x00")
			rest = rest[end:]
			folder := f.folders[e.Wd]
			if folder == f.last {
				return
			}
			if e.Mask&unix.IN_ISDIR != 0 && e.Mask&unix.IN_CREATE != 0 {
				f.add(filepath.Join(folder, name))
			}
			step()
		}
	}
}

// sound checks that the state is undamaged and that the sinks have all rows of the journal.
func (w *testWorld) sound() {
	w.Helper()
	if output := w.mustRun("check", "--read-data"); strings.Count(output, "match the journal") != 3 {
		w.Errorf("want three files that match the journal, got:\n%s", output)
	}
}

// spent returns the credits that are spent in the billing cycle.
func (w *testWorld) spent() float64 {
	w.Helper()
	var budget struct{ Cycle struct{ Held float64 } }
	if err := json.Unmarshal([]byte(w.mustRun("budget", "-o", "json")), &budget); err != nil {
		w.Fatal(err)
	}
	return budget.Cycle.Held
}

func (w *testWorld) has(name string) bool {
	_, err := os.Lstat(filepath.Join(w.dir, name))
	return err == nil
}

func (w *testWorld) remove(name string) {
	w.Helper()
	if err := os.RemoveAll(filepath.Join(w.dir, name)); err != nil {
		w.Fatal(err)
	}
}

// hasNo checks that no file of the data folder contains a text.
func (w *testWorld) hasNo(text string) {
	w.Helper()
	found, err := programtest.FilesWith(filepath.Join(w.dir, "data"), text)
	if err != nil || len(found) > 0 {
		w.Errorf("%s is still in %v (%v)", text, found, err)
	}
}
