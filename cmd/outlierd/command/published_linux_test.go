package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

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

// TestOtherUserLearnsOfPublishedTables, because only the owner can read the state. If the state is gone, commands are
// refused, and no state is created, which would have no record of what was spent.
func TestOtherUserLearnsOfPublishedTables(t *testing.T) {
	t.Parallel()
	bubble(t, colleaguesJobs, func(p *person) {
		p.must("run")
		p.asColleague(func() {
			for _, command := range [][]string{{"budget"}, {"plan"}, {"queue"}, {"runs"}, {"status"}, {"cursor", "show"}, {"check"}, {"schema", "drift"}} {
				contains(p, p.refused(exitFailed, command...), "needs read access to ", `outlierd sql "from ops.runs"`)
			}
			if _, stderr, _ := p.do(p.Context(), "sql", "from ops.runs"); stderr != "" {
				t.Errorf("sql printed %q", stderr)
			}
		})

		folder := filepath.Join(p.dir, "data", "state")
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		for _, command := range [][]string{{"budget"}, {"plan"}, {"runs"}, {"status"}, {"check"}} {
			contains(p, p.refused(exitFailed, command...), "state is missing: restore it from a backup", `outlierd sql "from ops.runs"`)
		}
		contains(p, p.refused(exitFailed, "run"), "the state folder is lost or older than the sink")
		contains(p, p.refused(exitFailed, "budget", "adjust", "--spent", "1", "--why", "test"), "the state folder is lost or older than the sink")
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a refused run has created a state: %v", err)
		}
	})
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
