package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/sync/job"
)

// edited is a folder with a job file that a reloader watches in virtual time.
type edited struct {
	*testing.T
	dir    string
	hangup chan os.Signal

	mu       sync.Mutex
	log      bytes.Buffer
	taken    []*job.Config // the files that were used, in order, except for the first
	failed   error         // of apply
	refusals []bool        // whether the file was refused, at each change
}

const editedFile = "version: 1\nservice: {url: \"sim://\"}\nnotify: {team: {webhook: \"${file:hook:-}\"}}\n" +
	"jobs: {coffee: {every: 1h, search: {query: tea, pages: 2}}}\n"

// edit lets test edit the file while a reloader watches it.
func edit(t *testing.T, test func(e *edited)) {
	synctest.Test(t, func(t *testing.T) {
		e := &edited{T: t, dir: t.TempDir(), hangup: make(chan os.Signal, 1)}
		e.write("jobs.yaml", editedFile)
		load := func() (*job.Config, error) {
			return job.Load(filepath.Join(e.dir, "jobs.yaml"), func(string) (string, bool) { return "", false })
		}
		config, err := load()
		if err != nil {
			t.Fatal(err)
		}
		r := &reloader{log: slog.New(slog.NewTextHandler(e, nil)), Options: Options{
			Load: load, InUse: new(atomic.Pointer[job.Config]),
			Check: func(_ context.Context, c *job.Config) error {
				if c.Job("unbindable") != nil {
					return errors.New("no such table")
				}
				return nil
			},
			Report: func(refused error) {
				e.mu.Lock()
				defer e.mu.Unlock()
				if n := len(e.refusals); n == 0 && refused != nil || n > 0 && e.refusals[n-1] != (refused != nil) {
					e.refusals = append(e.refusals, refused != nil)
				}
			},
			Apply: func(_ context.Context, c *job.Config) error {
				e.mu.Lock()
				defer e.mu.Unlock()
				if e.failed == nil {
					e.taken = append(e.taken, c)
				}
				return e.failed
			},
		}}
		r.InUse.Store(config)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.serve(ctx, e.hangup)
		}()
		test(e)
		cancel()
		<-done
	})
}

// Write appends to the log.
func (e *edited) Write(line []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.log.Write(line)
}

func (e *edited) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failed = err
}

func (e *edited) write(name, text string) {
	e.Helper()
	if err := os.WriteFile(filepath.Join(e.dir, name), []byte(text), 0o600); err != nil {
		e.Fatal(err)
	}
}

// replace replaces the file with a new one, as editors do.
func (e *edited) replace(text string) {
	e.Helper()
	e.write("new", text)
	if err := os.Rename(filepath.Join(e.dir, "new"), filepath.Join(e.dir, "jobs.yaml")); err != nil {
		e.Fatal(err)
	}
}

// later waits, and returns the files that the reloader has used and logged since.
func (e *edited) later(d time.Duration) (pages []int, log string) {
	e.Helper()
	time.Sleep(d)
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.taken {
		pages = append(pages, c.Jobs[0].Pages)
	}
	log = e.log.String()
	e.taken = nil
	e.log.Reset()
	return pages, log
}

// want checks which files were used within two minutes, and that the log contains a text once.
func (e *edited) want(what string, pages []int, says string) {
	e.Helper()
	got, log := e.later(2 * time.Minute)
	if fmt.Sprint(got) != fmt.Sprint(pages) || says == "" && log != "" || says != "" && strings.Count(log, says) != 1 {
		e.Errorf("%s: took files with pages %v, want %v; the log, which should say %q once:\n%s",
			what, got, pages, says, log)
	}
}

func (e *edited) pages(n int) string {
	return strings.Replace(editedFile, "pages: 2", fmt.Sprintf("pages: %d", n), 1)
}

// An edit is applied whether the file is written in place or another one is renamed over it.
func TestEditsOfAnyKindAreApplied(t *testing.T) {
	t.Parallel()
	edit(t, func(e *edited) {
		e.want("no edit", nil, "")
		e.write("jobs.yaml", e.pages(3))
		e.want("written in place", []int{3}, "job file reloaded")
		e.replace(e.pages(4))
		e.want("renamed over", []int{4}, "job file reloaded")
		e.write("hook", "https://hooks.example/CANARY-1")
		e.want("a file that ${file:…} names", []int{4}, `changes="notify changed"`)
		e.write("hook", "https://hooks.example/CANARY-2")
		if _, log := e.later(2 * time.Minute); strings.Contains(log, "CANARY") || !strings.Contains(log, "notify changed") {
			t.Errorf("the log after a change of a secret is %s", log)
		}
		e.want("nothing since", nil, "")
	})
}

func TestIncludedFilesAreFollowed(t *testing.T) {
	t.Parallel()
	edit(t, func(e *edited) {
		rivals := func(pages int) string {
			return fmt.Sprintf("jobs: {rivals: {search: {query: tea, pages: %d}}}\n", pages)
		}
		jobs := func(what, want string) {
			t.Helper()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			e.mu.Lock()
			defer e.mu.Unlock()
			var got []string
			for _, c := range e.taken {
				for _, j := range c.Jobs {
					got = append(got, fmt.Sprintf("%s %d", j.Name, j.Pages))
				}
			}
			if strings.Join(got, ", ") != want {
				t.Errorf("%s: took %v, want %s; the log:\n%s", what, got, want, e.log.String())
			}
			e.taken = nil
			e.log.Reset()
		}
		if err := os.Mkdir(filepath.Join(e.dir, "jobs.d"), 0o700); err != nil {
			t.Fatal(err)
		}
		e.write("jobs.yaml", editedFile+"include: jobs.d/*.yaml\n")
		jobs("include", "coffee 2")
		e.write("jobs.d/rivals.yaml", rivals(1))
		jobs("a new file", "coffee 2, rivals 1")
		e.write("jobs.d/rivals.yaml", rivals(3))
		jobs("an edit", "coffee 2, rivals 3")
		e.write("jobs.d/tea.yaml", rivals(3))
		e.want("two files with one job", nil, "jobs.d/tea.yaml:1:8: jobs.rivals: duplicate key, first at ")
		if err := os.Rename(filepath.Join(e.dir, "jobs.d/tea.yaml"), filepath.Join(e.dir, "jobs.d/rivals.yaml")); err != nil {
			t.Fatal(err)
		}
		jobs("the same as before", "")
		if err := os.Remove(filepath.Join(e.dir, "jobs.d/rivals.yaml")); err != nil {
			t.Fatal(err)
		}
		jobs("a removed file", "coffee 2")
		jobs("nothing since", "")
	})
}

// TestCommandsRunWhenFileIsUsed, and not each time that it is compared.
func TestCommandsRunWhenFileIsUsed(t *testing.T) {
	t.Parallel()
	edit(t, func(e *edited) {
		e.write("secret", "https://hooks.example/CANARY-1")
		file := func(pages int) string {
			return strings.Replace(e.pages(pages), "${file:hook:-}", "${command: sh -c 'echo x >>ran; cat secret'}", 1)
		}
		ran := func(what string, want int) {
			t.Helper()
			if text, _ := os.ReadFile(filepath.Join(e.dir, "ran")); strings.Count(string(text), "x") != want {
				t.Errorf("%s: the command ran %d times, want %d", what, strings.Count(string(text), "x"), want)
			}
		}
		hook := func(what, want string) {
			t.Helper()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			e.mu.Lock()
			defer e.mu.Unlock()
			if n := len(e.taken); n != 1 || e.taken[0].Targets[0].URL.Reveal() != want || strings.Contains(e.log.String(), "CANARY") {
				t.Errorf("%s: took %d files; the log:\n%s", what, n, e.log.String())
			}
			e.taken = nil
			e.log.Reset()
		}
		e.write("jobs.yaml", file(2))
		hook("the first", "https://hooks.example/CANARY-1")
		ran("the first", 1)
		e.write("secret", "https://hooks.example/CANARY-2")
		e.want("a new secret", nil, "")
		ran("comparing", 1)
		e.hangup <- syscall.SIGHUP
		hook("a hangup", "https://hooks.example/CANARY-2")
		ran("a hangup", 2)

		e.write("secret", "")
		e.write("jobs.yaml", file(3))
		e.want("a command that fails", nil, "notify.team.webhook: the command sh: it printed nothing")
		ran("a command that fails", 3)
		e.want("later", nil, "")
		ran("later", 3)
		e.write("jobs.yaml", strings.Replace(file(3), "coffee", "Coffee", 1))
		e.want("a file with another mistake", nil, "jobs.Coffee: must be lower-case letters")
		ran("a file with another mistake", 3)
		e.write("secret", "https://hooks.example/CANARY-3")
		e.write("jobs.yaml", file(3))
		hook("it works again", "https://hooks.example/CANARY-3")
		ran("it works again", 4)
	})
}

// TestMountedFileIsFollowed: a volume of Kubernetes is a link to a folder, which is replaced atomically.
func TestMountedFileIsFollowed(t *testing.T) {
	t.Parallel()
	edit(t, func(e *edited) {
		mount := func(version string, pages int) {
			if err := os.Mkdir(filepath.Join(e.dir, version), 0o700); err != nil {
				t.Fatal(err)
			}
			e.write(version+"/jobs.yaml", e.pages(pages))
			link := filepath.Join(e.dir, "..data")
			if err := errors.Join(os.Symlink(version, link+".new"), os.Rename(link+".new", link)); err != nil {
				t.Fatal(err)
			}
		}
		mount("..first", 2)
		path := filepath.Join(e.dir, "jobs.yaml")
		if err := errors.Join(os.Remove(path), os.Symlink("..data/jobs.yaml", path)); err != nil {
			t.Fatal(err)
		}
		e.want("the same text", nil, "")
		mount("..second", 5)
		e.want("another version", []int{5}, "job file reloaded")
	})
}

// TestInvalidFileIsRefusedOnce, and the next valid one is used.
func TestInvalidFileIsRefusedOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(e *edited, path string)
		says  string
	}{
		"truncated": {func(e *edited, _ string) { e.write("jobs.yaml", editedFile[:60]) }, "job file refused"},
		"empty":     {func(e *edited, _ string) { e.write("jobs.yaml", "") }, "the file is empty"},
		"a mistake": {func(e *edited, _ string) {
			e.write("jobs.yaml", strings.Replace(editedFile, "pages: 2", "pages: -1", 1))
		}, "jobs.coffee.search.pages"},
		"gone":     {func(_ *edited, path string) { _ = os.Remove(path) }, "does not exist"},
		"a folder": {func(_ *edited, path string) { _ = errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, "is not a regular file"},
		"a pipe":   {func(_ *edited, path string) { _ = errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) }, "is not a regular file"},
		"a loop":   {func(_ *edited, path string) { _ = errors.Join(os.Remove(path), os.Symlink("jobs.yaml", path)) }, "cannot be read"},
		"bad SQL": {func(e *edited, _ string) {
			e.write("jobs.yaml", strings.Replace(editedFile, "coffee:", "unbindable:", 1))
		}, "no such table"},
		"another zone": {func(e *edited, _ string) { e.write("jobs.yaml", editedFile+"timezone: Asia/Tokyo\n") }, "timezone changed, which needs a restart"},
		"another data folder and zone": {func(e *edited, _ string) { e.write("jobs.yaml", editedFile+"timezone: Asia/Tokyo\ndata: other\n") },
			"timezone and data changed, which needs a restart"},
	} {
		t.Run(name, func(t *testing.T) {
			edit(t, func(e *edited) {
				path := filepath.Join(e.dir, "jobs.yaml")
				c.spoil(e, path)
				e.want(name, nil, c.says)
				e.want(name+", later", nil, "")
				e.hangup <- syscall.SIGHUP
				e.want(name+", by hangup", nil, c.says)
				if err := os.RemoveAll(path); err != nil {
					t.Fatal(err)
				}
				e.write("jobs.yaml", editedFile)
				e.want("the old text again", nil, "")
				e.write("jobs.yaml", e.pages(7))
				e.want("a good one", []int{7}, "job file reloaded")
				e.mu.Lock()
				defer e.mu.Unlock()
				if !slices.Equal(e.refusals, []bool{true, false}) {
					t.Errorf("reported refusals %v, want true, then false", e.refusals)
				}
			})
		})
	}
}

// TestFrequentEditsCauseOneReload, here a hundred that are seconds apart: a file is not read while it is
// written.
func TestFrequentEditsCauseOneReload(t *testing.T) {
	t.Parallel()
	edit(t, func(e *edited) {
		time.Sleep(time.Second / 2) // so that no edit coincides with a check, which might see it half-written twice
		for n := range 100 {
			e.write("jobs.yaml", editedFile[:len(editedFile)-n%40])
			time.Sleep(2 * time.Second)
			e.replace(e.pages(n + 3))
			time.Sleep(time.Second)
		}
		if taken, log := e.later(0); len(taken) > 0 || log != "" {
			t.Errorf("amid the edits files with pages %v were taken:\n%s", taken, log)
		}
		e.want("the last edit", []int{102}, "job file reloaded")
	})
}

// TestHangupReloadsAtOnce, also with daemon.reload: signal.
func TestHangupReloadsAtOnce(t *testing.T) {
	t.Parallel()
	edit(t, func(e *edited) {
		e.write("jobs.yaml", e.pages(3)+"daemon: {reload: signal}\n")
		e.hangup <- syscall.SIGHUP
		if taken, log := e.later(0); len(taken) != 1 || !strings.Contains(log, "daemon.reload not set → signal") {
			t.Errorf("took %v:\n%s", taken, log)
		}
		e.write("jobs.yaml", e.pages(4)+"daemon: {reload: signal}\n")
		e.want("without a hangup", nil, "")
		e.hangup <- syscall.SIGHUP
		e.want("by hangup", []int{4}, "job file reloaded")
		e.hangup <- syscall.SIGHUP
		e.want("once more", nil, "it has not changed")
	})
}

// TestReloadThatFailsIsTriedAgain, such as while the state is locked.
func TestReloadThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	edit(t, func(e *edited) {
		e.fail(errors.New("locked"))
		e.write("jobs.yaml", e.pages(3))
		if taken, log := e.later(5 * time.Minute); len(taken) > 0 || strings.Count(log, "will be read again") < 3 {
			t.Errorf("took %v:\n%s", taken, log)
		}
		e.fail(nil)
		e.want("later", []int{3}, "job file reloaded")
	})
}

// TestChangedStartSettingsAreReported, and the rest of the file is used.
func TestChangedStartSettingsAreReported(t *testing.T) {
	t.Parallel()
	edit(t, func(e *edited) {
		e.write("jobs.yaml", strings.Replace(e.pages(3), `"sim://"`, `"sim://", limit: 30/min, share: 0.5`, 1))
		e.want("another limit", []int{3}, `settings="service.limit, service.share"`)
	})
}
