package parquet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"outlierd/internal/testenv"
	"outlierd/schema"
	"outlierd/sinks/sinktest"
)

// few are tables of both kinds of folders.
var few = []*schema.Table{schema.Outliers, schema.OutliersHistory}

// TestLostAndDamagedFilesHeal: what somebody does to the folder is undone by the next process, and by the same
// one a day later; one of both by chance, or with -every-step each. The folder of one case goes on to the next.
func TestLostAndDamagedFilesHeal(t *testing.T) {
	testenv.RacesLittle(t)
	w, j, answers := newWorld(t, few, sinktest.Ops()), sinktest.Sample(60).Only(few...), int64(20)
	w.write(j, answers)
	w.publish()
	for name, damage := range map[string]func(t *testing.T, w *world, parts []string) error{
		"a lost part":      func(_ *testing.T, _ *world, parts []string) error { return os.Remove(parts[0]) },
		"a lost last part": func(_ *testing.T, _ *world, parts []string) error { return os.Remove(parts[len(parts)-1]) },
		"a cut part":       func(_ *testing.T, _ *world, parts []string) error { return os.Truncate(parts[len(parts)/2], 100) },
		"half of the parts": func(_ *testing.T, _ *world, parts []string) (err error) {
			for i := 0; i < len(parts); i += 2 {
				err = errors.Join(err, os.Remove(parts[i]))
			}
			return err
		},
		"a lost table":    func(_ *testing.T, w *world, _ []string) error { return os.RemoveAll(filepath.Join(w.dir, "outliers")) },
		"a lost manifest": func(_ *testing.T, w *world, _ []string) error { return os.RemoveAll(filepath.Join(w.dir, "_manifest")) },
		"a cut manifest": func(_ *testing.T, w *world, _ []string) error {
			return os.Truncate(filepath.Join(w.dir, ManifestName), 1000)
		},
		"a manifest that leads out": func(_ *testing.T, w *world, _ []string) error {
			return os.WriteFile(filepath.Join(w.dir, ManifestName), []byte(`{"version": 3, "tables": {"a": [{"name": "../../x"}]}}`), 0o644)
		},
		"a damaged commit": func(_ *testing.T, w *world, parts []string) error {
			return errors.Join(os.Remove(parts[0]), os.WriteFile(filepath.Join(w.dir, nextName), nil, 0o644))
		},
		"a lost manifest and a cut part": func(_ *testing.T, w *world, parts []string) error {
			return errors.Join(os.RemoveAll(filepath.Join(w.dir, "_manifest")), os.Truncate(parts[len(parts)-1], 100))
		},
		"a link": func(t *testing.T, _ *world, parts []string) error {
			elsewhere := filepath.Join(t.TempDir(), "elsewhere")
			return errors.Join(os.Rename(parts[0], elsewhere), os.Symlink(elsewhere, parts[0]))
		},
		"a part that is not listed": func(_ *testing.T, w *world, parts []string) error {
			return os.Link(parts[0], filepath.Join(w.dir, "outliers", "part-000000009999.parquet"))
		},
		"another day": func(_ *testing.T, w *world, parts []string) error {
			days := filepath.Join(w.dir, "outliers_history")
			return errors.Join(os.MkdirAll(filepath.Join(days, "date=2026-13-45"), 0o755),
				os.Link(parts[0], filepath.Join(days, "date=2026-13-45", "part-000000000001.parquet")),
				os.Link(parts[0], filepath.Join(days, "part-000000000001.parquet")), os.RemoveAll(filepath.Join(w.dir, "_manifest")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			plays := []bool{testenv.Random(t).IntN(2) == 0}
			if *everyStep {
				plays = []bool{false, true}
			}
			for _, later := range plays {
				if err := damage(t, w, w.files(schema.Outliers)); err != nil {
					t.Fatal(err)
				}
				if later {
					now := w.copy.now()
					w.copy.now = func() time.Time { return now.Add(inspectAfter + time.Second) }
				} else {
					w.reopen(w.copy.step)
				}
				w.publish()
				w.check()
				answers++
				w.write(j, answers)
				w.publish()
			}
		})
	}
	w.check()
}

// TestOlderManifestHeals: parts that it does not list are written again, with the same names.
func TestOlderManifestHeals(t *testing.T) {
	w, j := newWorld(t, few, sinktest.Ops()), sinktest.Sample(40).Only(few...)
	w.write(j, 20)
	w.publish()
	manifest := filepath.Join(w.dir, ManifestName)
	older, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	w.write(j, 40)
	w.publish()
	if err := os.WriteFile(manifest, older, 0o644); err != nil {
		t.Fatal(err)
	}
	w.reopen(w.copy.step)
	w.publish()
	w.check()
}

func TestFolderReplacingPartIsNamed(t *testing.T) {
	w, j := newWorld(t, few, sinktest.Ops()), sinktest.Sample(20).Only(few...)
	w.write(j, 20)
	w.publish()
	part := w.files(schema.Outliers)[0]
	if err := errors.Join(os.Remove(part), os.Mkdir(part, 0o755)); err != nil {
		t.Fatal(err)
	}
	w.reopen(w.copy.step)
	err := w.copy.Publish(t.Context())
	if err == nil || !strings.Contains(err.Error(), part+" is a folder") {
		t.Errorf("error %v", err)
	}
	if err := os.Remove(part); err != nil {
		t.Fatal(err)
	}
	w.publish()
	w.check()
}

func TestLinksOutOfFolderAreRefused(t *testing.T) {
	w, j, elsewhere := newWorld(t, few, nil), sinktest.Sample(20).Only(few...), t.TempDir()
	if err := errors.Join(os.Mkdir(w.dir, 0o755), os.Symlink(elsewhere, filepath.Join(w.dir, "outliers"))); err != nil {
		t.Fatal(err)
	}
	w.write(j, 20)
	if err := w.copy.Publish(t.Context()); err == nil {
		t.Error("a table was written through a link")
	}
	if names := namesIn(t, elsewhere); len(names) > 0 {
		t.Errorf("elsewhere are %v", names)
	}
	if err := os.Remove(filepath.Join(w.dir, "outliers")); err != nil {
		t.Fatal(err)
	}
	w.publish()
	w.check()
}

func TestForeignFilesStay(t *testing.T) {
	w, j := newWorld(t, few, nil), sinktest.Sample(20).Only(few...)
	w.write(j, 10)
	w.publish()
	foreign := []string{"outliers/mine.parquet", "outliers/year=2026/mine.parquet", "outliers_history/current.parquet"}
	for _, name := range append(foreign, "outliers/notes.txt") {
		path := filepath.Join(w.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("mine"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	w.reopen(w.copy.step)
	w.write(j, 20)
	w.publish()
	f, err := Look(t.Context(), w.dir, "", w.tables)
	if err != nil || !slices.Equal(f.Foreign, foreign) || len(f.Problems) > 0 {
		t.Errorf("foreign files %v, problems %v, error %v", f.Foreign, f.Problems, err)
	}
	if names, err := Foreign(w.dir, w.tables); err != nil || !slices.Equal(names, foreign) {
		t.Errorf("foreign files %v, error %v", names, err)
	}
	for _, name := range foreign {
		if _, err := os.Stat(filepath.Join(w.dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestReplacedFolderIsFilled: an empty folder takes the place of the copy, or an older copy of it with a part too few.
func TestReplacedFolderIsFilled(t *testing.T) {
	w, j := newWorld(t, few, nil), sinktest.Sample(20).Only(few...)
	w.write(j, 20)
	w.publish()
	if err := errors.Join(os.Rename(w.dir, w.dir+".old"), os.Mkdir(w.dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	w.publish()
	w.check()
	if err := errors.Join(os.RemoveAll(w.dir), os.Rename(w.dir+".old", w.dir), os.Remove(w.files(schema.Outliers)[0])); err != nil {
		t.Fatal(err)
	}
	w.publish()
	w.check()
}

// TestMovedFolderIsNotMade, because it may be put back: only once an error has said so.
func TestMovedFolderIsNotMade(t *testing.T) {
	w, j := newWorld(t, few, nil), sinktest.Sample(20).Only(few...)
	if _, err := w.copy.Shows(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.write(j, 20)
	if err := os.Rename(w.dir, w.dir+".old"); err != nil {
		t.Fatal(err)
	}
	if err := w.copy.Publish(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(w.dir); !os.IsNotExist(err) {
		t.Errorf("the folder was made: %v", err)
	}
	w.publish()
	w.check()
}

// TestUnusableFolderHeals: there is a file in the place of the folder.
func TestUnusableFolderHeals(t *testing.T) {
	w, j := newWorld(t, few, nil), sinktest.Sample(20).Only(few...)
	w.write(j, 20)
	if err := os.WriteFile(w.dir, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.copy.Publish(t.Context()); err == nil {
		t.Error("a file was opened as a folder")
	}
	if err := os.Remove(w.dir); err != nil {
		t.Fatal(err)
	}
	w.publish()
	w.check()
}

// TestOtherColumnsWriteTableAgain: a table whose columns have changed, and no other.
func TestOtherColumnsWriteTableAgain(t *testing.T) {
	w, j := newWorld(t, few, sinktest.Ops()), sinktest.Sample(30).Only(few...)
	w.write(j, 30)
	w.publish()
	text, err := os.ReadFile(filepath.Join(w.dir, ManifestName))
	if err == nil {
		changed := strings.Replace(string(text), Options{}.formOf(schema.Outliers), "0123456789abcdef", 1)
		err = os.WriteFile(filepath.Join(w.dir, ManifestName), []byte(changed), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	before := filesOf(t, w.dir)
	w.reopen(w.copy.step)
	w.publish()
	w.check()
	for name, info := range filesOf(t, w.dir) {
		again := strings.HasPrefix(name, "outliers/") || strings.HasPrefix(name, "_manifest/")
		if os.SameFile(before[name], info) == again {
			t.Errorf("%s was written again: %v", name, !again)
		}
	}
}

// TestFolderOfOtherVersionIsRefused, because readers would find its files beside the new ones.
func TestFolderOfOtherVersionIsRefused(t *testing.T) {
	w, j := newWorld(t, few, sinktest.Ops()), sinktest.Sample(20).Only(few...)
	for _, text := range []string{`{"version": 2, "files": [{"name": "outliers/current.parquet"}], "tables": []}`, `{"version": 4}`, `{}`} {
		for name, content := range map[string]string{ManifestName: text, "outliers/current.parquet": "of that version"} {
			path := filepath.Join(w.dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		w.write(j, 20)
		_, err := w.copy.Shows(t.Context())
		for _, err := range []error{err, w.copy.Publish(t.Context())} {
			if err == nil || !strings.Contains(err.Error(), w.dir+": ") || !strings.Contains(err.Error(), "remove this folder") {
				t.Errorf("%s: error %v", text, err)
			}
		}
		if names := namesIn(t, w.dir); len(names) != 2 {
			t.Errorf("%s: in the folder are %v", text, names)
		}
	}
	if err := os.RemoveAll(w.dir); err != nil {
		t.Fatal(err)
	}
	w.publish()
	w.check()
}

// TestFullDiskHeals: a publication that does not fit changes nothing.
func TestFullDiskHeals(t *testing.T) {
	w, j := newWorld(t, few, sinktest.Ops()), sinktest.Sample(40).Only(few...)
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", w.dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("this user may not mount a file system: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(w.dir, unix.MNT_DETACH) })
	w.reopen(w.copy.step)
	w.write(j, 20)
	w.publish()
	filler := filepath.Join(w.dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o644); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	shown, err := w.copy.Shows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.write(j, 40)
	if err := w.copy.Publish(t.Context()); err == nil || !strings.Contains(err.Error(), "space") {
		t.Errorf("error %v", err)
	}
	if now, err := w.copy.Shows(t.Context()); err != nil || now != shown {
		t.Errorf("the copy shows %v, error %v", now, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	w.publish()
	w.check()
}

// TestLookBesidePublications: a check sees one state while another process publishes.
func TestLookBesidePublications(t *testing.T) {
	w, j := newWorld(t, few, sinktest.Ops()), sinktest.Sample(30).Only(few...)
	w.write(j, 5)
	w.publish()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int)
	go func() {
		looks := 0
		for ; ctx.Err() == nil; looks++ {
			f, err := Look(t.Context(), w.dir, filepath.Join(filepath.Dir(w.dir), "keep"), w.tables)
			if err != nil {
				if !strings.Contains(err.Error(), "try again") {
					t.Error(err)
				}
				continue
			}
			damaged, err := f.Verify(t.Context())
			if problems := append(damaged, f.Problems...); err != nil || len(problems) > 0 {
				t.Errorf("problems %q, error %v", problems, err)
			}
		}
		done <- looks
	}()
	for hi := int64(10); hi <= 30; hi += 5 {
		w.write(j, hi)
		w.publish()
	}
	stop()
	if looks := <-done; looks == 0 {
		t.Error("no reader opened a file while they were written")
	}
}
