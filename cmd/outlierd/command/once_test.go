package command

import (
	"bytes"
	"context"
	"flag"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"outlierd/cmd/outlierd/term"
	"outlierd/internal/testenv"
	"outlierd/sync/job"
)

const slowService = `
version: 1
service: {url: "sim://", limit: 6/min}
sinks: [{duckdb: outliers.duckdb}]
budget: {per_month: 100}
jobs:
  coffee: {search: {query: [espresso], pages: 12}, enrich: {details: {top: 2}, transcript: {top: 4}}}
`

// TestIDContinuesInterruptedOneOff: nothing is bought twice, and the same command then prints its rows.
func TestIDContinuesInterruptedOneOff(t *testing.T) {
	t.Parallel()
	bubble(t, slowService, func(p *person) {
		ctx, cancel := context.WithCancel(p.Context())
		time.AfterFunc(5*time.Second, cancel)
		out, stderr, code := p.do(ctx, "search", "it's tea", "--pages", "9", "--again")
		if code != exitInterrupted || out != "" {
			t.Fatalf("exit code %d, printed %q", code, out)
		}
		contains(p, stderr, "outlierd: interrupted; everything that was paid for is stored\nTo continue:\n")
		if plan := p.must("plan"); strings.Contains(plan, "once:") {
			t.Errorf("plan shows the search as a job that was removed from the file:\n%s", plan)
		}
		run := toContinue(p, stderr)
		p.write(strings.Replace(slowService, "per_month: 100", "per_month: 100, confirm_over: 5", 1))
		contains(p, p.must("run", "--continue", run, "--dry-run"), "search        8 ")
		contains(p, p.refused(exitUsage, "run", "--continue", run), "this may cost more than 5 credits")
		contains(p, p.must("run", "--continue", run, "--yes"), "search: continuing the run of ", "360 hits on 9 pages")
		_, stderr, code = p.do(p.Context(), "search", "it's tea", "--pages", "9", "--yes")
		if code != exitDone {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		contains(p, stderr, " from the journal")
		if got := p.ask("select sum(price) from ops.credits where operation = 'search' and outcome = 'spent'"); got != "18" {
			t.Errorf("9 pages cost %s credits, want 18", got)
		}
	})
}

// TestInterruptedBackfillIsContinued, with its dates and within --max-credits.
func TestInterruptedBackfillIsContinued(t *testing.T) {
	t.Parallel()
	bubble(t, slowService, func(p *person) {
		ctx, cancel := context.WithCancel(p.Context())
		time.AfterFunc(5*time.Second, cancel)
		const command = "backfill coffee --from 1999-01-01 --to 1999-06-30 --max-credits 16 --each day"
		_, stderr, code := p.do(ctx, strings.Fields(command)...)
		if code != exitInterrupted {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		id := toContinue(p, stderr)
		out, _, code := p.do(p.Context(), "run", "--continue", id)
		if code != exitBudget {
			t.Errorf("exit code %d, want %d", code, exitBudget)
		}
		contains(p, out, "coffee: continuing the run of ", " with --from 1999-01-01 --to 1999-06-30 --each day")
		if got := p.ask("select sum(price) <= 16, count(distinct run_id) from ops.credits"); got != "true,1" {
			t.Errorf("within the cap, in one run: %s, want true,1", got)
		}
		contains(p, p.refused(exitUsage, "run", "--continue", id), "nothing of it can be continued")
	})
}

// toContinue returns the id of the run that a stopped command says how to continue.
func toContinue(p *person, stderr string) string {
	p.Helper()
	contains(p, stderr, "To continue:\n  outlierd -c "+filepath.Join(p.dir, "jobs.yaml")+" run --continue ")
	_, id, _ := strings.Cut(stderr, "run --continue ")
	id, _, _ = strings.Cut(id, "\n")
	return id
}

// TestInterruptedRunIsContinued: the command prints what is left and what that costs, and counts
// its time from there.
func TestInterruptedRunIsContinued(t *testing.T) {
	t.Parallel()
	bubble(t, slowService, func(p *person) {
		ctx, cancel := context.WithCancel(p.Context())
		time.AfterFunc(5*time.Second, cancel)
		out, stderr, code := p.do(ctx, "run")
		if code != exitInterrupted {
			t.Fatalf("exit code %d", code)
		}
		contains(p, out, "! coffee  interrupted in 5 s   run ", " requests · 10 credits spent",
			"  espresso: 200 of 429 hits, 12 credits more\n")
		contains(p, stderr, "outlierd: interrupted; everything that was paid for is stored\n")
		id := toContinue(p, stderr)
		if got := p.ask("select status from ops.runs"); got != "interrupted" {
			t.Errorf("ops.runs has status %s, want interrupted", got)
		}
		time.Sleep(5 * time.Hour)
		began := time.Now()
		out = p.must("run", "--continue", id)
		contains(p, out, "coffee: continuing the run of ", "\n  left to do: at most 14 credits (42 if answers are lost), ",
			" requests, ", " at 6/min\n", "coffee  ok in "+term.Duration(time.Since(began)))
	})
}

// TestBudgetShowsManualPurchases, and what removed jobs have spent.
func TestBudgetShowsManualPurchases(t *testing.T) {
	t.Parallel()
	bubble(t, nothingConfigured, func(p *person) {
		p.must("run")
		p.must("search", "moka pot", "--pages", "2")
		p.must("find-channels", "moka pot")
		p.must("video", "AAAAAAAAAAA")
		p.write(strings.Replace(nothingConfigured, "coffee", "tea", 1))
		out := p.must("budget")
		contains(p, out, "\nby hand                –       9  –         9\n", "job coffee ")
		contains(p, p.must("budget", "-o", "json"), `"job": "once:"`)
	})
}

// TestChannelsAreFoundByTheirHandles in the tables, or with a search, which needs confirmation.
func TestChannelsAreFoundByTheirHandles(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	bubble(t, nothingConfigured, func(p *person) {
		const name = "mokapot336" // which the simulator finds by its handle
		p.must("find-channels", name)
		id := p.ask("select channel_id from found_channels where ltrim(handle, '@') = '" + name + "'")
		if id == "" {
			t.Fatal("the simulator does not find the channel by its handle")
		}
		p.lose("")
		p.begin()

		contains(p, p.refused(exitUsage, "channel", "@"+name), "@"+name, "costs 5 credits", "pass --yes to confirm")
		contains(p, p.must("channel", "@"+strings.ToUpper(name), "--yes"), id)
		contains(p, p.must("channel", "https://host.example/@"+name+"/videos"), id)
		const spent = "select coalesce(sum(credits), 0) from ops.runs"
		if got := p.ask(spent); got != "5" {
			t.Errorf("%s credits spent, want 5 for the search", got)
		}

		p.write("version: 1\nservice: {url: \"sim://\"}\nsinks: [{duckdb: outliers.duckdb}]\njobs:\n  rivals: {channels: {id: [\"@" + name + "\"]}}\n")
		contains(p, p.must("lint"), "rivals: at most 0 credits, 2 requests")
		p.must("run")
		contains(p, p.refused(exitFailed, "channel", "@nowhere.at.all", "--yes"),
			"found no channel with the handle @nowhere.at.all")
		p.write("version: 1\nservice: {url: \"sim://\"}\nsinks: [{duckdb: outliers.duckdb}]\njobs:\n  rivals: {channels: {id: [\"@nowhere.at.all\"]}}\n")
		contains(p, p.must("lint"), "cannot run now: @nowhere.at.all is not in the published tables",
			"search with `outlierd find-channels nowhere.at.all`")
		p.refused(exitFailed, "run")
		if got := p.ask(spent); got != "10" {
			t.Errorf("%s credits spent, want 5 more for the second search alone", got)
		}
	})
}

// TestEmptyAnswerIsReported with the reason: there is no transcript.
func TestEmptyAnswerIsReported(t *testing.T) {
	t.Parallel()
	bubble(t, strings.ReplaceAll(nothingConfigured, "espresso}}", "espresso}, enrich: {transcript: {}}}"), func(p *person) {
		p.must("run")
		empty := p.ask("select id from missing where endpoint = 'transcript' and status = 200 limit 1")
		contains(p, p.must("why", empty), "transcript "+empty+"  ", "  an empty answer · free")
		contains(p, p.must("why", empty, "-o", "json"), `"empty": true`)
		full := p.ask("select video_id from transcripts limit 1")
		contains(p, p.must("why", full), "  answered · free")
	})
}

// A mistake of a one-off command names the flag or argument that was typed.
func TestOneOffMistakesNameTypedFlags(t *testing.T) {
	t.Parallel()
	p := &person{T: t, dir: t.TempDir(), env: func(string) (string, bool) { return "", false }}
	p.write(dearJobs)
	for command, want := range map[string]string{
		"search tea --where zscore=2..":        "--where zscore: unknown key; did you mean z_score?",
		"search tea --where use=nope":          `--where use: must be the name of a filter, got "nope"`,
		"search ''":                            "QUERY: is empty, must be text",
		"search tea --pages 0 --by x":          "--by: must be semantic or lexical, got \"x\"\n--pages: must be at least 1, got 0",
		"search tea --pages all":               "invalid argument \"all\" for \"--pages\" flag: it must be a number",
		"search tea --enrich details --top -1": "--top: must be at least 1, got -1",
		"search tea --enrich detail":           "--enrich detail: unknown key; did you mean details?",
		"related nope":                         `VIDEO: "nope" is neither a video id`,
		"related --channel no/pe":              `--channel: "no/pe" is neither a channel id`,
		"related --thumbnail nope":             `--thumbnail: "nope" is neither a video id`,
		"find-channels --related-to no/pe":     `--related-to: "no/pe" is neither a channel id`,
		"scan start tea --mode quick":          `--mode: must be fast or standard, got "quick"`,
		"scan start tea --sort x":              "--sort: must be one of",
		"video AAAAAAAAAAA --max-age x":        "--max-age: must be a duration",
	} {
		args := strings.Fields(command)
		for i, arg := range args {
			args[i] = strings.Trim(arg, "'")
		}
		if got := p.refused(exitUsage, args...); !strings.HasPrefix(got, "outlierd: "+want) {
			t.Errorf("%s: got %s, want %s", command, got, want)
		}
	}
	// A cap of the job file is named with its place in the file.
	capped := configOf(t, strings.Replace(dearJobs, "per_month", "per_day: 20, per_month", 1))
	_, err := onceSpec(capped, onceOf(job.VerbScan, job.Keys{"query": {"tea"}}), job.Overrides{})
	if err == nil || !strings.HasPrefix(err.Error(), "/jobs.yaml:4:") {
		t.Errorf("a scan above the cap of the file: got %v, want an error at /jobs.yaml:4", err)
	}
}

// TestStopBetweenJobsNamesTheOthers: it ends with exit code 130, and with the error of an earlier job.
func TestStopBetweenJobsNamesTheOthers(t *testing.T) {
	t.Parallel()
	bubble(t, `
version: 1
service: {url: "sim://", limit: 600/min}
sinks: [{duckdb: outliers.duckdb}]
budget: {per_month: 100, reserve: 20}
jobs:
  lost: {related: {video_id: {sql: "select cast(cast(title as integer) as varchar) as video_id from outliers"}}}
  capped: {search: {query: [tea], pages: 3}, budget: {per_run: 2}}
  coffee: {search: {query: [espresso]}}
  milk: {search: {query: [latte art]}}
`, func(p *person) {
		stopAt := func(text string, args ...string) (stderr string, code int) {
			ctx, cancel := context.WithCancel(p.Context())
			defer cancel()
			var e bytes.Buffer
			code = run(ctx, append([]string{"-c", filepath.Join(p.dir, "jobs.yaml")}, args...), world{
				in: strings.NewReader(""), out: stopping{text, cancel}, err: &e, env: p.env, network: newTransport,
			})
			return e.String(), code
		}
		stderr, code := stopAt("✓ coffee  ok", "run", "capped", "lost", "coffee", "milk", "--use-reserve", "--pages", "1")
		if code != exitInterrupted {
			t.Errorf("exit code %d, want %d", code, exitInterrupted)
		}
		contains(p, stderr, "outlierd: job lost: ", "\ninterrupted; everything that was paid for is stored\nnot started: milk\n")

		if stderr, code = stopAt("✓ milk  ok", "run", "capped", "milk", "--again"); code != exitBudget || strings.Contains(stderr, "not started") {
			t.Errorf("after a stop behind the last job: exit code %d, want that of the capped job, %d\n%s", code, exitBudget, stderr)
		}
	})
}

// stopping is an output that stops the command once a text was written to it.
type stopping struct {
	text string
	stop func()
}

func (s stopping) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.text) {
		s.stop()
	}
	return len(p), nil
}

var interruptions = flag.Int("interruptions", 3, "how often TestInterruptedRunOfSeveralJobs interrupts a run")

// TestInterruptedRunOfSeveralJobs: whenever it is stopped, each job has ended, is continued by the printed command, or
// is named as not started, and the exit code is not 0 unless all have ended well.
func TestInterruptedRunOfSeveralJobs(t *testing.T) {
	t.Parallel()
	bubble(t, `
version: 1
service: {url: "sim://", limit: 600/min}
sinks: [{duckdb: outliers.duckdb}]
jobs:
  coffee: {search: {query: [espresso], pages: 3}}
  milk: {search: {query: [latte art], pages: 3}}
  tea: {search: {query: [sencha], pages: 3}}
`, func(p *person) {
		ends := map[int]int{}
		for i := range *interruptions {
			ctx, cancel := context.WithCancel(p.Context())
			time.AfterFunc(time.Duration(i)*time.Second/time.Duration(*interruptions), cancel)
			out, stderr, code := p.do(ctx, "run", "coffee", "milk", "tea", "--again")
			cancel()
			ends[code]++
			left := ""
			for _, job := range []string{"coffee", "milk", "tea"} {
				if !strings.Contains(out, "✓ "+job+"  ok") && !strings.Contains(out, "! "+job+"  interrupted") {
					left += ", " + job
				}
			}
			switch left = strings.TrimPrefix(left, ", "); left {
			case "":
			case "coffee, milk, tea": // perhaps it was stopped before it had opened the state
				contains(p, stderr, "interrupted; everything that was paid for is stored")
			default:
				contains(p, stderr, "\nnot started: "+left+"\n")
			}
			if strings.Contains(out, "  interrupted") {
				p.must("run", "--continue", toContinue(p, stderr))
			}
			if ok := strings.Count(out, "  ok in "); (code == exitDone) != (ok == 3) || code != exitDone && code != exitInterrupted {
				t.Errorf("stopped at %d/%d of a second: exit code %d, and %d of 3 jobs have ended\n%s%s", i, *interruptions, code, ok, out, stderr)
			}
		}
		if ends[exitInterrupted] == 0 {
			t.Errorf("no run was interrupted: %v", ends)
		}
	})
}

// TestInterruptedDueRunsAreNamed: whenever 'run --due' is stopped, it names the jobs that are due still, also for runs that
// have ended before.
func TestInterruptedDueRunsAreNamed(t *testing.T) {
	t.Parallel()
	bubble(t, `
version: 1
service: {url: "sim://", limit: 4/min}
sinks: [{duckdb: outliers.duckdb}]
jobs:
  coffee: {every: 1h, reuse_for: 1m, search: {query: [espresso], pages: 3}}
  milk: {after: coffee, reuse_for: 1m, search: {query: [latte art], pages: 3}}
  tea: {every: 1h, reuse_for: 1m, search: {query: [sencha], pages: 3}}
  sugar: {after: tea, reuse_for: 1m, search: {query: [sugar], pages: 3}}
`, func(p *person) {
		p.must("run", "--due")
		interrupted := 0
		for i := range *interruptions {
			time.Sleep(time.Hour)
			ctx, cancel := context.WithCancel(p.Context())
			time.AfterFunc(time.Duration(i)*2*time.Minute/time.Duration(*interruptions), cancel)
			out, stderr, code := p.do(ctx, "run", "--due")
			cancel()
			if code != exitDone {
				interrupted++
			}
			_, named, _ := strings.Cut(stderr, "\nnot started: ")
			isDone := func(job string) bool { return strings.Contains(out, "✓ "+job+"  ok") }
			for job, after := range map[string]string{"coffee": "", "tea": "", "milk": "coffee", "sugar": "tea"} {
				due := after == "" && out != "" || isDone(after)
				if left := due && !isDone(job) && !strings.Contains(out, "! "+job+"  interrupted"); left != strings.Contains(named, job) {
					t.Errorf("stopped at %d/%d of two minutes: %s is left: %v\n%s%s", i, *interruptions, job, left, out, stderr)
				}
			}
			p.must("run", "--due")
		}
		if interrupted == 0 {
			t.Error("no run was interrupted")
		}
		if n := p.ask(`select count(*) = count(distinct job || due_at) and count(*) = ` + strconv.Itoa(4**interruptions) + ` from ops.runs`); n != "true" {
			t.Error("not each due time has one run")
		}
	})
}
