package thumbnails

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// drawing is a host that draws each picture, and counts how often it is asked.
func drawing(asked *int) host {
	return func(r *http.Request) (*http.Response, error) {
		*asked++
		return answer(200, bytes.NewReader(photo(r.URL.Path))), nil
	}
}

func TestLeastRecentlyUsedPicturesGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		p := open(t, drawing(&asked))
		p.cache.max = 20 * block
		for i := range 20 {
			p.want(200, fmt.Sprint(i))
			time.Sleep(time.Second)
		}
		time.Sleep(usedEvery)
		p.want(200, "0") // used again
		if asked != 20 || len(p.kept()) != 20 {
			t.Fatalf("asked %d times for 20 pictures, kept %d", asked, len(p.kept()))
		}
		p.want(200, "more")
		if n := len(p.kept()); n != 18 {
			t.Errorf("%d pictures are kept, want 90 %% of 20", n)
		}
		p.want(200, "0")
		p.want(200, "more")
		if asked != 21 {
			t.Error("a picture that was just used is gone")
		}
		p.want(200, "1")
		if asked != 22 {
			t.Error("the picture that was not used for longest is kept")
		}
	})
}

// Forget removes all pictures of a video, also earlier ones.
func TestForgetRemovesAllVideoPictures(t *testing.T) {
	t.Parallel()
	asked := 0
	p := open(t, drawing(&asked))
	for _, video := range []string{"a", "b", "c"} {
		p.want(200, video)
	}
	if err := p.cache.writePicture(nameOf("a", "https://i.ytimg.com/an-earlier-one.jpg"), &Picture{Data: photo("old")}); err != nil {
		t.Fatal(err)
	}
	if err := Forget(p.Data, []string{"a", "c", "unknown"}); err != nil {
		t.Fatal(err)
	}
	if kept := p.kept(); len(kept) != 1 || kept[0] != nameOf("b", "https://i.ytimg.com/vi/b/mqdefault.jpg") {
		t.Errorf("kept %v", kept)
	}
	if err := Forget(t.TempDir(), []string{"a"}); err != nil {
		t.Errorf("without a cache: %v", err)
	}
}

func TestLinksLeadNowhere(t *testing.T) {
	t.Parallel()
	const secret = "the state of somebody"
	for name, prepare := range map[string]func(data, outside string) error{
		"the folder":            func(data, outside string) error { return os.Symlink(outside, filepath.Join(data, Folder)) },
		"the Folder, to state":  func(data, _ string) error { return os.Symlink("../state", filepath.Join(data, Folder)) },
		"a picture":             func(data, outside string) error { return linkPicture(data, filepath.Join(outside, "secret")) },
		"a picture, to state":   func(data, _ string) error { return linkPicture(data, "../../state/secret") },
		"a picture, to nothing": func(data, outside string) error { return linkPicture(data, filepath.Join(outside, "new")) },
		"a pipe": func(data, _ string) error {
			if err := os.Mkdir(filepath.Join(data, Folder), 0o700); err != nil {
				return err
			}
			return syscall.Mkfifo(filepath.Join(data, Folder, nameOf("a", address)), 0o600)
		},
		"a file instead of the folder": func(data, _ string) error { return os.WriteFile(filepath.Join(data, Folder), []byte(secret), 0o600) },
	} {
		asked := 0
		p, outside := open(t, drawing(&asked)), t.TempDir()
		for _, dir := range []string{outside, filepath.Join(p.Data, "state")} {
			must(t, os.MkdirAll(dir, 0o700))
			must(t, os.WriteFile(filepath.Join(dir, "secret"), []byte(secret), 0o600))
		}
		must(t, os.MkdirAll(filepath.Join(p.Data, "cache"), 0o700))
		must(t, prepare(p.Data, outside))
		for range 2 {
			if w := p.want(200, "a"); w.Body.String() != string(photo("/vi/a/mqdefault.jpg")) {
				t.Errorf("%s: %.40q is served", name, w.Body)
			}
		}
		for _, dir := range []string{outside, filepath.Join(p.Data, "state")} {
			entries, err := os.ReadDir(dir)
			must(t, err)
			text, err := os.ReadFile(filepath.Join(dir, "secret"))
			must(t, err)
			if len(entries) != 1 || string(text) != secret {
				t.Errorf("%s: %s has %d files, and %q", name, dir, len(entries), text)
			}
		}
	}
}

func linkPicture(data, to string) error {
	if err := os.MkdirAll(filepath.Join(data, Folder), 0o700); err != nil {
		return err
	}
	return os.Symlink(to, filepath.Join(data, Folder, nameOf("a", address)))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A file that another program has put into the cache is not served.
func TestForeignFilesAreFetchedAgain(t *testing.T) {
	t.Parallel()
	asked := 0
	p := open(t, drawing(&asked))
	must(t, os.MkdirAll(filepath.Join(p.Data, Folder), 0o700))
	must(t, os.WriteFile(filepath.Join(p.Data, Folder, nameOf("a", address)), []byte("<script>alert(1)</script>"), 0o600))
	if w := p.want(200, "a"); strings.Contains(w.Body.String(), "script") || asked != 1 {
		t.Errorf("%.40q is served", w.Body)
	}
}
