package query

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
)

// serveVariable is the environment variable that makes the test binary call [Serve].
const serveVariable = "OUTLIERD_QUERY_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) == "" {
		testenv.Prepare()
		os.Exit(m.Run())
	}
	if err := Serve(context.TODO(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// inProcess returns a Process that runs SQL in a child process of the test binary.
func inProcess() Process {
	return Process{Command: func(ctx context.Context) *exec.Cmd {
		c := exec.CommandContext(ctx, os.Args[0])
		c.Env = []string{serveVariable + "=answerer"}
		return c
	}}
}

// limitTime lowers the time limit of this test.
func limitTime(t *testing.T, limit time.Duration) {
	before := timeLimit
	timeLimit = limit
	t.Cleanup(func() { timeLimit = before })
}

func TestProcessGivesTheSameResults(t *testing.T) {
	s, a := publishEmpty(t), inProcess()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	s.Zone = berlin
	got, err := a.Query(t.Context(), s, "select current_setting('TimeZone') union all select 'x'")
	if diff := cmp.Diff([]string{"Europe/Berlin", "x"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	bound := a.Bind(t.Context(), "select video_id, z_score from outliers")
	if diff := cmp.Diff([]Bound{{Fields: []Field{{"video_id", "VARCHAR"}, {"z_score", "DOUBLE"}}}}, bound); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantError(t, `Referenced column "nosuch"`, func() error { return a.Bind(t.Context(), "select nosuch from outliers")[0].Err() })
	wantError(t, `Referenced column "nosuch"`, func() error { _, err := a.Query(t.Context(), s, "select nosuch from outliers"); return err })
}

// TestTextsAreBoundInOneProcess, also after one that is wrong; each in its own if that one dies.
func TestTextsAreBoundInOneProcess(t *testing.T) {
	texts := []string{"select video_id from outliers", "select nosuch from outliers", "select from", "select channel_id from channels"}
	for name, tt := range map[string]struct{ dying, want int }{
		"none dies":  {0, 1},
		"first dies": {1, 1 + len(texts)},
	} {
		t.Run(name, func(t *testing.T) {
			a, started := inProcess(), 0
			command := a.Command
			a.Command = func(ctx context.Context) *exec.Cmd {
				if started++; started <= tt.dying {
					return exec.CommandContext(ctx, "/bin/sh", "-c", "kill -9 $$")
				}
				return command(ctx)
			}
			bound := a.Bind(t.Context(), texts...)
			if len(bound) != len(texts) || started != tt.want {
				t.Fatalf("%d processes gave %d results, want %d and %d", started, len(bound), tt.want, len(texts))
			}
			for i, column := range []string{"video_id", "", "", "channel_id"} {
				if column != "" && (bound[i].Err() != nil || len(bound[i].Fields) != 1 || bound[i].Fields[0].Name != column) {
					t.Errorf("%s: %v", texts[i], bound[i])
				}
			}
			wantError(t, `Referenced column "nosuch"`, bound[1].Err)
			wantError(t, "syntax error", bound[2].Err)
		})
	}
}

// expensive are short queries that need almost unlimited time or memory. DuckDB is slow to stop some of
// them when interrupted, and does not count the memory of most.
var expensive = map[string]string{
	"sorted list":    "select video_id from outliers where 1 = (select count(*) from (select unnest(range(400000000)) x order by x))",
	"constant":       "select video_id from outliers limit len(range(400000000))",
	"recursion":      "with recursive r as (select 1 as i union all select i + 1 from r) select count(*) from r",
	"cross join":     "select count(*) from range(1000000) a, range(1000000) b, range(1000000) c where hash(a, b, c) = 3",
	"joined text":    "select string_agg(a::varchar || b::varchar, ',') from range(100000) t(a), range(100000) u(b)",
	"collected list": "select len(list(a || '-' || b)) from range(100000) t(a), range(100000) u(b)",
	"repeated text":  "select len(repeat('x', 1000000000) || i) from range(100) t(i) order by 1",
	"nested replace": "select len(" + strings.Repeat("replace(", 10) + "'xxxxxxxxxx'" + strings.Repeat(", 'x', 'xxxxxxxxxx')", 10) + ")",
	"lambda":         "select list_sum(list_transform(range(30000000), lambda x: len(list_filter(range(x), lambda y: y % 7 = 3))))",
	"pattern":        "select count(*) from range(100000) t(i) where regexp_matches(repeat('a', 1000000) || i, '(a|aa|aaa){1,900}b')",
	"long text":      "select len(lpad('', 2000000000, 'x')) from range(64)",
	"doubled text": "with recursive r as (select 1 as i, 'x' as t union all select i + 1, t || t from r) " +
		"select max(len(t)) from r",
}

// TestUncountedMemoryIsLimited: a value of gigabytes is refused, one of megabytes is
// allowed.
func TestUncountedMemoryIsLimited(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no limit of memory")
	}
	s := publishEmpty(t)
	for _, ask := range []func(sql string) error{
		func(sql string) error { _, err := inProcess().Query(t.Context(), s, sql); return err },
		func(sql string) error { return inProcess().Bind(t.Context(), sql)[0].Err() },
	} {
		wantError(t, "needs more memory than 1024MB", func() error { return ask("select 1 limit len(range(400000000))") })
		if err := ask("select 'x' limit len(range(1000000))"); err != nil {
			t.Error(err)
		}
	}
}

func TestProcessEndsWhenTheCallerCancels(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a := inProcess()
	command := a.Command
	a.Command = func(ctx context.Context) *exec.Cmd { cancel(); return command(ctx) }
	if _, err := a.Query(ctx, publishEmpty(t), "select 1"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled by the caller: %v", err)
	}
}

func TestProcessThatDiesIsReported(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"killed": {"kill -9 $$", "the process that ran the SQL ended, possibly because memory ran out (signal: killed"},
		"loud":   {"echo fatal error: out of memory >&2; echo goroutine 1 >&2; exit 2", "(exit status 2 fatal error: out of memory)"},
		"silent": {"exit 0", "in another process"},
		"babble": {"echo nonsense", "in another process"},
	} {
		t.Run(name, func(t *testing.T) {
			a := Process{Command: func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "/bin/sh", "-c", c.script) }}
			wantError(t, c.want, func() error { return a.Bind(t.Context(), "select 1")[0].Err() })
		})
	}
	a := Process{Command: func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "/nowhere") }}
	wantError(t, "in another process", func() error { return a.Bind(t.Context(), "select 1")[0].Err() })
}

// TestSQLWritesNoLog: a function that is called in a SELECT makes DuckDB log to files, and may make it abort.
func TestSQLWritesNoLog(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "log")
	for _, from := range []string{"enable_logging", "system.main.enable_logging"} {
		sql := fmt.Sprintf("select 'x' from %s('QueryLog', storage = 'file', storage_config = {'path': '%s'})", from, folder)
		values, err := inProcess().Query(t.Context(), publishEmpty(t), sql)
		if _, missing := os.Stat(folder); !os.IsNotExist(missing) {
			t.Errorf("%s: %v, error %v; and a log was written: %v", sql, values, err, missing)
		}
	}
}

// SQL that exceeds its limit of time or memory is stopped with a remedy.
func TestQueryStaysWithinLimits(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no limit of memory")
	}
	s := publishEmpty(t)
	limitTime(t, 200*time.Millisecond)
	for name, sql := range expensive {
		t.Run(name, func(t *testing.T) {
			_, err := inProcess().Query(t.Context(), s, sql)
			if err == nil || !strings.Contains(err.Error(), "make it read fewer rows") {
				t.Errorf("error %v names no limit and no remedy", err)
			}
		})
	}
}
