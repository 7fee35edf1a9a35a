package command

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const colleaguesJobs = `
version: 1
service: {url: "sim://", limit: 6000/min}
budget: {per_month: 100}
jobs:
  coffee:
    search: {query: [espresso], pages: 1, where: {published_at: since last success}}
    enrich: {details: {top: 1}}
`

// TestOtherUserReadsThePublishedTables: only the owner can read the state. For other users, commands use the published
// tables and say so, or name the user whose state they need.
func TestOtherUserReadsThePublishedTables(t *testing.T) {
	t.Parallel()
	bubble(t, colleaguesJobs, func(p *person) {
		p.must("run")
		id := p.ask("select video_id from videos")
		p.asColleague(func() {
			for _, test := range []struct {
				args []string
				want []string
			}{
				{[]string{"budget"}, []string{"held  left  spent", "cycle from 2000-01-01", "  98      2"}},
				{[]string{"plan"}, []string{"coffee  by hand", "2 credits spent or held of 100"}},
				{[]string{"queue"}, []string{"pages_left", "(0 rows)"}},
				{[]string{"why", "--wide", id}, []string{"brought it", "details", "charged", `"publishedAtFrom"`}},
				{[]string{"cursor", "show"}, []string{"coffee  search     espresso  2000-01-01"}},
				{[]string{"scan", "list"}, []string{"(0 rows)"}},
			} {
				out, stderr, code := p.do(p.Context(), test.args...)
				if code != exitDone {
					t.Fatalf("%s: exit code %d: %s", test.args, code, stderr)
				}
				contains(p, out, test.want...)
				contains(p, stderr, "state is not readable by user ", "the answer comes from the tables published in ")
			}
			if _, stderr, _ := p.do(p.Context(), "sql", "select 1"); stderr != "" {
				t.Errorf("sql printed %q", stderr)
			}
			contains(p, p.refused(exitFailed, "check"), "needs read access to ")
			contains(p, p.refused(exitFailed, "schema", "drift"), "needs read access to ")
		})
	})
}

// TestCopyWithoutTheStateAnswersFromThePublishedTables: they also have the credits that were spent. A run is refused,
// and creates no state, which would have no record of them.
func TestCopyWithoutTheStateAnswersFromThePublishedTables(t *testing.T) {
	t.Parallel()
	bubble(t, colleaguesJobs, func(p *person) {
		p.must("run")
		p.must("search", "tea")
		withState := map[string]string{}
		for _, format := range []string{"json", "csv"} {
			withState[format] = p.must("budget", "-o", format)
		}
		folder := filepath.Join(p.dir, "data", "state")
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		answers := func() {
			for _, command := range []string{"budget", "plan"} {
				out, stderr, code := p.do(p.Context(), command)
				if code != exitDone {
					t.Fatalf("%s: exit code %d: %s", command, code, stderr)
				}
				contains(p, out, map[string]string{"budget": "  96      4", "plan": "4 credits spent or held of 100"}[command])
				contains(p, stderr, "state is missing; the answer comes from the tables published in ")
			}
		}
		answers()
		contains(p, p.refused(exitFailed, "run"), "the state folder is lost or older than the sink")
		contains(p, p.refused(exitFailed, "budget", "adjust", "+1", "--why", "test"), "state is missing")
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a refused run has created a state: %v", err)
		}
		answers()
		if got := p.must("budget", "-o", "csv"); got != withState["csv"] {
			t.Errorf("the budget without the state is\n%s\nand with it\n%s", got, withState["csv"])
		}
		if diff := cmp.Diff(keysOf(t, withState["json"]), keysOf(t, p.must("budget", "-o", "json"))); diff != "" {
			t.Errorf("members of the budget as JSON (-with state, +without):\n%s", diff)
		}
	})
}

// keysOf returns the paths of all members of a JSON document.
func keysOf(t *testing.T, document string) []string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(document), &v); err != nil {
		t.Fatal(err)
	}
	var keys []string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		keys = append(keys, path)
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				walk(path+"."+key, value)
			}
		case []any:
			for _, value := range v {
				walk(path+"[]", value)
			}
		}
	}
	walk("", v)
	slices.Sort(keys)
	return slices.Compact(keys)
}

// asColleague calls something as a user who may read the published tables, but not the state.
func (p *person) asColleague(something func()) {
	p.Helper()
	if os.Getuid() != 0 {
		state := filepath.Join(p.dir, "data", "state")
		if err := os.Chmod(state, 0); err != nil {
			p.Fatal(err)
		}
		defer os.Chmod(state, 0o700)
		something()
		return
	}
	for _, dir := range []string{p.dir, filepath.Dir(p.dir)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			p.Fatal(err)
		}
	}
	const stranger = 65534
	runtime.LockOSThread() // the user for file access is set per thread
	defer runtime.UnlockOSThread()
	if _, err := unix.SetfsuidRetUid(stranger); err != nil {
		p.Fatal(err)
	}
	defer unix.SetfsuidRetUid(0)
	something()
}
