package marks_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outlierd/sync/marks"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// edit makes an edit and returns the marks.
func edit(t *testing.T, s *state.Store, e marks.Edit) (all []marks.Mark) {
	t.Helper()
	err := s.DB.Update(func(tx *store.Tx) (err error) {
		all, err = marks.Apply(tx, e)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func list(t *testing.T, s *state.Store) (all []marks.Mark) {
	t.Helper()
	err := s.DB.View(func(tx *store.Tx) (err error) {
		all, err = marks.List(tx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var anyTime = cmpopts.IgnoreFields(marks.Mark{}, "Marked")

func TestEditsAddUp(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	note := " why it works:\r\na question "
	edit(t, s, marks.Edit{Videos: []string{"video-00001"}, Star: new(true), Tag: []string{"hook"}})
	edit(t, s, marks.Edit{Videos: []string{"video-00001", "video-00002"}, Tag: []string{"b", " a "}, Note: &note})
	edit(t, s, marks.Edit{Videos: []string{"video-00003"}, Hide: new(true), Note: new("short-lived")})
	edit(t, s, marks.Edit{Videos: []string{"video-00003"}, Hide: new(false), Note: new("")})
	edit(t, s, marks.Edit{Videos: []string{"video-00002"}, Tags: &[]string{" c ", "a", "b"}})
	got := edit(t, s, marks.Edit{Videos: []string{"video-00002", "video-00001"}, Untag: []string{"b", "c", "never had"}})
	want := []marks.Mark{
		{Video: "video-00002", Tags: []string{"a"}, Note: "why it works:\na question"},
		{Video: "video-00001", Starred: true, Tags: []string{"a", "hook"}, Note: "why it works:\na question"},
	}
	if diff := cmp.Diff(want, got, anyTime); diff != "" {
		t.Errorf("after all edits (-want +got):\n%s", diff)
	}
	byVideo := cmpopts.SortSlices(func(a, b marks.Mark) bool { return a.Video > b.Video })
	if diff := cmp.Diff(want, list(t, s), anyTime, byVideo); diff != "" {
		t.Errorf("listed, without the cleared one (-want +got):\n%s", diff)
	}
}

// TestRepeatedEditChangesNothing: not even the time, so that sinks are not written again.
func TestRepeatedEditChangesNothing(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	star := marks.Edit{Videos: []string{"video-00001"}, Star: new(true)}
	first := edit(t, s, star)
	edit(t, s, marks.Edit{Videos: []string{"video-00009"}, Star: new(false), Untag: []string{"x"}})
	if diff := cmp.Diff(first, edit(t, s, star)); diff != "" || first[0].Marked.IsZero() {
		t.Errorf("starred at %s, and again (-first +second):\n%s", first[0].Marked, diff)
	}
	if rows := statetest.OpsRows(t, s, "ops.marks", 0); len(rows) != 1 {
		t.Errorf("rows for sinks: %v, want that of the starred video", rows)
	}
}

// TestTwoBrowsersStarAtOnce: all stars hold, although both also tag the same videos.
func TestTwoBrowsersStarAtOnce(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	const videos = 200
	var browsers sync.WaitGroup
	for _, tag := range []string{"from the left", "from the right"} {
		for i := range videos {
			browsers.Go(func() {
				video := fmt.Sprintf("video-%05d", i)
				err := s.DB.Update(func(tx *store.Tx) error {
					_, err := marks.Apply(tx, marks.Edit{Videos: []string{video}, Star: new(true), Tag: []string{tag}})
					return err
				})
				if err != nil {
					t.Errorf("star %s: %v", video, err)
				}
			})
		}
	}
	browsers.Wait()
	all := list(t, s)
	if len(all) != videos {
		t.Fatalf("%d marks, want %d", len(all), videos)
	}
	for _, m := range all {
		if !m.Starred || len(m.Tags) != 2 {
			t.Errorf("lost an edit: %+v", m)
		}
	}
}

func TestWhatIsNotAccepted(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	one := []string{"video-00001"}
	many := make([]string, 31)
	for i := range many {
		many[i] = fmt.Sprint("tag ", i)
	}
	for name, e := range map[string]marks.Edit{
		"no video":            {Star: new(true)},
		"too many videos":     {Videos: make([]string, 1001), Star: new(true)},
		"an empty tag":        {Videos: one, Tag: []string{"  "}},
		"two tags in one":     {Videos: one, Tag: []string{"a,b"}},
		"a tag of two lines":  {Videos: one, Tag: []string{"a\nb"}},
		"a long tag":          {Videos: one, Tag: []string{strings.Repeat("é", 61)}},
		"too many tags":       {Videos: one, Tag: many},
		"a note that is cut":  {Videos: one, Note: new("\xff")},
		"a note that rings":   {Videos: one, Note: new("a\a")},
		"a note like a novel": {Videos: one, Note: new(strings.Repeat("é", 5001))},
	} {
		err := s.DB.Update(func(tx *store.Tx) error {
			_, err := marks.Apply(tx, e)
			return err
		})
		if _, is := errors.AsType[*marks.InvalidError](err); !is {
			t.Errorf("%s: %v, want an InvalidError", name, err)
		}
	}
	for _, address := range []string{"", "found", "//other.example/", "https://other.example/", "/\\other.example",
		"/a b", "/a\nb", "/" + strings.Repeat("a", 2000)} {
		err := s.DB.Update(func(tx *store.Tx) error { return marks.SaveView(tx, marks.View{Name: "x", Address: address}) })
		if _, is := errors.AsType[*marks.InvalidError](err); !is {
			t.Errorf("a view of %q: %v, want an InvalidError", address, err)
		}
	}
	if all := list(t, s); len(all) != 0 {
		t.Errorf("marks were made: %v", all)
	}
}

func TestViewsAreSavedRenamedAndDeleted(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	for _, step := range []struct {
		what string
		do   func(*store.Tx) error
		fail bool
		want string // the views
	}{
		{"save", func(tx *store.Tx) error { return marks.SaveView(tx, marks.View{Name: " big ", Address: "/?min=10"}) }, false, "big /?min=10"},
		{"save another", func(tx *store.Tx) error { return marks.SaveView(tx, marks.View{Name: "small", Address: "/?max=3"}) }, false, "big /?min=10, small /?max=3"},
		{"change one", func(tx *store.Tx) error { return marks.SaveView(tx, marks.View{Name: "big", Address: "/?min=30"}) }, false, "big /?min=30, small /?max=3"},
		{"rename", func(tx *store.Tx) error { return marks.RenameView(tx, "big", "huge") }, false, "huge /?min=30, small /?max=3"},
		{"rename to a name in use", func(tx *store.Tx) error { return marks.RenameView(tx, "huge", "small") }, true, "huge /?min=30, small /?max=3"},
		{"rename what is gone", func(tx *store.Tx) error { return marks.RenameView(tx, "big", "bigger") }, true, "huge /?min=30, small /?max=3"},
		{"delete", func(tx *store.Tx) error { return marks.DeleteView(tx, "huge") }, false, "small /?max=3"},
		{"delete again", func(tx *store.Tx) error { return marks.DeleteView(tx, "huge") }, true, "small /?max=3"},
	} {
		err := s.DB.Update(step.do)
		if _, is := errors.AsType[*marks.InvalidError](err); is != step.fail || !is && err != nil {
			t.Errorf("%s: %v, want an InvalidError: %t", step.what, err, step.fail)
		}
		var all []string
		err = s.DB.View(func(tx *store.Tx) error {
			views, err := marks.Views(tx)
			for _, v := range views {
				all = append(all, v.Name+" "+v.Address)
			}
			return err
		})
		if got := strings.Join(all, ", "); err != nil || got != step.want {
			t.Errorf("%s: views %q, %v, want %q", step.what, got, err, step.want)
		}
	}
}

// TestForgetErasesMarks: those of the video, and its id in all texts; sinks learn of it.
func TestForgetErasesMarks(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	edit(t, s, marks.Edit{Videos: []string{"video-00001", "video-00002"}, Star: new(true), Note: new("like video-00001")})
	err := s.DB.Update(func(tx *store.Tx) error {
		if err := marks.SaveView(tx, marks.View{Name: "one", Address: "/?seed=video-00001"}); err != nil {
			return err
		}
		return marks.Forget(tx, [][]byte{[]byte("video-00001")})
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []marks.Mark{{Video: "video-00002", Starred: true, Tags: []string{}, Note: "like " + store.Erased}}
	if diff := cmp.Diff(want, list(t, s), anyTime); diff != "" {
		t.Errorf("left of the marks (-want +got):\n%s", diff)
	}
	if got := fmt.Sprint(statetest.OpsRows(t, s, "ops.marks", 0)); strings.Contains(got, "video-00001") || !strings.Contains(got, "[1 <nil> false false [] <nil>") {
		t.Errorf("rows for sinks: %s", got)
	}
	_ = s.DB.View(func(tx *store.Tx) error {
		if views, err := marks.Views(tx); err != nil || len(views) > 0 {
			t.Errorf("views left: %v, %v", views, err)
		}
		return nil
	})
}
