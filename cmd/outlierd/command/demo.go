package command

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/internal/durable"
	"outlierd/outlier/pace"
	"outlierd/outlier/simulator"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
)

// schemaFile is the name under which editors look for the schema of the job file.
const schemaFile = "jobs.schema.json"

func initCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Write a commented jobs.yaml",
		Long: `Write a commented jobs.yaml, and beside it the schema with which editors complete and check
it. An existing job file is not changed.`,
		RunE: func(*cobra.Command, []string) error {
			schema := filepath.Join(filepath.Dir(g.config), schemaFile)
			if err := writeNew(g.config, job.Example()); err != nil {
				return err
			}
			if err := durable.WriteFile(schema, job.Schema(), 0o644); err != nil {
				return err
			}
			run := "with the simulator: no key, no network"
			if config, err := g.load(); err != nil { // what it takes from the environment
				run = "once 'outlierd lint' finds no mistake"
			} else if url := config.Service.URL; !config.Service.Simulated() {
				run = "at " + url + ", for credits: --dry-run prints the price"
			}
			return g.out.print(filesWritten{[]string{g.config, schema}}, `wrote %s and %s
  outlierd lint            check it
  outlierd run             run it now (%s)
  outlierd up              run it on its schedule
`, g.config, schema, run)
		},
	}
}

// filesWritten is the output of init and man for programs.
type filesWritten struct {
	Wrote []string `json:"wrote"`
}

// writeNew writes a file that must not exist.
func writeNew(path string, content []byte) error {
	if !isMissing(path) {
		return fmt.Errorf("%s was not changed: %w; name another file with --config", path, fs.ErrExist)
	}
	return durable.WriteFile(path, content, 0o644)
}

//go:embed demo.yaml
var demoFile []byte

func demoCommand(g *globals) *cobra.Command {
	var folder string
	var once bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Play four weeks of sample jobs with the simulator",
		Long: `Play four weeks of sample jobs against the built-in simulator, in a folder of its own, in less
than a minute. No key, no network, no cost. At a terminal it then serves the page of these
weeks until ^C.

With --once, or if the folder has data, the jobs run once now: a further run buys only what
may have changed.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return err
			}
			g.config = filepath.Join(folder, defaultConfig)
			if err := durable.WriteFile(filepath.Join(folder, schemaFile), job.Schema(), 0o644); err != nil {
				return err
			}
			talk := g // the result is the rows of its query
			if g.out.format != "table" {
				talk = g.aside()
			}
			switch err := writeNew(g.config, demoFile); {
			case err == nil:
				fmt.Fprintf(talk.out.w, "wrote %s (the service is the built-in simulator: "+
					"no key, no network)\n", g.config)
			case !errors.Is(err, os.ErrExist):
				return err
			}
			config, err := g.load()
			if err != nil {
				return err
			}
			if once || !isMissing(config.Data) {
				byName := func(*runner) ([]jobRun, error) { return byHand(config.Jobs), nil }
				err = spend(c.Context(), talk, config, byName, (*runner).runJobs)
			} else {
				err = playWeeks(c.Context(), talk, config)
			}
			if err != nil {
				return err
			}
			if err := printFirstQuery(c.Context(), g, config, talk.out.w); err != nil || !term.Is(g.out.w) {
				return err
			}
			return serveView(c.Context(), g, config, func(address string) error {
				_, err := fmt.Fprintf(g.out.w, "\n%s/ shows it in your browser. ^C ends the demo.\n", address)
				return err
			})
		},
	}
	c.Flags().StringVar(&folder, "dir", "demo", "the folder to work in")
	c.Flags().BoolVar(&once, "once", false, "run the jobs once, now")
	return c
}

// printFirstQuery runs the query that the summary names, and prints the commands to try next to w.
func printFirstQuery(ctx context.Context, g *globals, config *job.Config, w io.Writer) error {
	fmt.Fprintln(w)
	if err := printQuery(ctx, g, config, best, query.Run); err != nil {
		return err
	}
	fmt.Fprintf(w, `
Next steps:
  outlierd open %[2]s                   look at it in the browser
  outlierd sql -c %[1]s "select table_name, estimated_size from duckdb_tables() order by 2 desc"
  outlierd run -c %[1]s       run again: only what may have changed is bought
  outlierd up -c %[1]s        run it on its schedule
  outlierd init                        a jobs.yaml of your own
`, g.config, filepath.Dir(g.config))
	return nil
}

// demoLength is how long the schedule of the demo is played.
const demoLength = 4 * 7 * 24 * time.Hour

// playWeeks lets the schedule of the job file run for the last weeks, in virtual time, and says what came of it.
func playWeeks(ctx context.Context, g *globals, config *job.Config) (err error) {
	began := time.Now()
	fmt.Fprintf(g.out.w, "playing four weeks of %s, from %s to now\n", term.Count(len(config.Jobs), "scheduled job"),
		began.Add(-demoLength).Format(time.DateOnly))
	defer g.out.block.Erase()
	count, credits := 0, 0
	temp, err := makeTemporary(filepath.Dir(config.Data), "outlierd-demo-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, temp.Close()) }()
	played := filepath.Join(temp.path, "data")
	err = playSchedule(ctx, g.config, played, demoLength, began, func(run playedRun) {
		count, credits = count+1, credits+run.Credits
		if term.Is(g.out.w) {
			g.out.block.Draw(fmt.Sprintf("  %s  %s", run.Time.Format("Mon 2 Jan"), term.Bar(int(run.Time.Sub(began.Add(-demoLength))), int(demoLength))))
		}
	})
	g.out.block.Erase()
	if err == nil {
		err = os.Rename(played, config.Data)
	}
	if err == nil { // only now, because to load and publish what each run bought took most of the time
		err = g.with(ctx, config, toChange, func(p *program) error { return p.Engine.Publish(ctx) })
	}
	if err != nil {
		return err
	}
	var outliers, week int64
	err = query.Run(ctx, published(config), "SELECT (SELECT count(*) FROM outliers), (SELECT count(*) FROM new_this_week)", nil,
		func(row []any) error {
			outliers, week = row[0].(int64), row[1].(int64)
			return nil
		})
	if err != nil {
		return err
	}
	fmt.Fprintf(g.out.w, "%s in %s: %s, %d of them new this week; %s of the simulator spent\n", term.Count(count, "run"),
		term.Duration(time.Since(began)), term.Count(outliers, "outlier"), week, term.Count(credits, "credit"))
	for _, s := range config.Sinks {
		fmt.Fprintf(g.out.w, "  %s\n", report.Path(sinkPath(config, s)))
	}
	return nil
}

// # Weeks in virtual time
//
// Most of what the page shows is a change over time, so the demo needs weeks of data. The program's time is
// package time. The only clock of Go that jumps to the next timer belongs to testing/synctest, so these weeks
// are a test, in a process of its own, because a test ends its process.

const playVerb = "play"

// playCommand returns the hidden command of that process: it runs `up` for some time that ends at a time.
func playCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: playVerb + " LENGTH END", Short: "Run the schedule in virtual time, for another process", Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			length, wrong := time.ParseDuration(args[0])
			end, err := time.Parse(time.RFC3339, args[1])
			if err := errors.Join(wrong, err); err != nil {
				return usageError{err}
			}
			daemon := func(t *testing.T) {
				time.Sleep(time.Until(end.Add(-length)))
				ctx, stop := context.WithDeadline(t.Context(), end)
				defer stop()
				w := world{in: g.world.in, out: io.Discard, err: g.world.err, env: g.world.env, network: newTransport, unread: true}
				if code := run(ctx, []string{"--config", g.config, "--log-format", "json", "up"}, w); code != exitDone {
					t.Fail()
				}
			}
			testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{
				{Name: playVerb, F: func(t *testing.T) { synctest.Test(t, daemon) }},
			}, nil, nil)
			return errors.New("the process goes on after its test")
		},
	}
}

// playedRun is what the log of that process says of a run that has ended.
type playedRun struct {
	Time    time.Time `json:"time"`
	Level   string    `json:"level"`
	Message string    `json:"msg"`
	Error   string    `json:"err"`
	Credits int       `json:"credits"`
}

// playSchedule runs the schedule of the job file for some time that ends at a time, with a data folder, and calls ended
// after each run.
func playSchedule(ctx context.Context, file, data string, length time.Duration, end time.Time, ended func(playedRun)) error {
	c := exec.CommandContext(ctx, programPath())
	c.Args = []string{"outlierd", playVerb, length.String(), end.Format(time.RFC3339), "--config", file}
	c.Env = append(os.Environ(), "OUTLIERD_DATA="+data)
	var problems bytes.Buffer
	log, err := c.StderrPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line playedRun
		switch err := json.Unmarshal(lines.Bytes(), &line); {
		case err != nil:
			fmt.Fprintf(&problems, "%s\n", lines.Bytes())
		case line.Level == "ERROR":
			fmt.Fprintf(&problems, "%s: %s\n", line.Message, line.Error)
		case line.Message == "run finished":
			ended(line)
		}
	}
	if err := errors.Join(lines.Err(), c.Wait()); err != nil {
		return errors.Join(ctx.Err(), fmt.Errorf("play the schedule in another process: %w\n%s", err, &problems))
	}
	return nil
}

func simulateCommand(g *globals) *cobra.Command {
	var listen, key string
	quota := pace.Quota{Requests: 10, Window: time.Minute}
	var seed uint64
	var freeze, items bool
	var cached time.Duration
	c := &cobra.Command{
		Use:   "simulate",
		Short: "Serve a simulator of the service over HTTP",
		Long: `Serve a simulator of the service, with data generated from a seed, to try job files,
dashboards and budgets without a key and without cost. It checks authorization and
parameters, charges, caches, refunds and limits like the service.

It reports what it charged and refunded:

  curl -H "Authorization: Api-Key demo" http://127.0.0.1:9090/_simulator/books`,
		Example: `  outlierd simulate --listen 127.0.0.1:9090 --limit 600/min --key demo
  OUTLIERD_URL=http://127.0.0.1:9090 OUTLIERD_KEY=demo OUTLIERD_DATA=trial outlierd run`,
		RunE: func(c *cobra.Command, _ []string) error {
			service := simulator.New(simulator.Options{
				Seed: seed, Key: key, Limit: quota.Requests, Window: quota.Window, Freeze: freeze, PagingItems: items,
				CachePeriod: max(cached, 1), // 0 would mean the default
			})
			return serveSimulator(c.Context(), g, listen, service)
		},
	}
	flags := c.Flags()
	flags.StringVar(&listen, "listen", "127.0.0.1:9090", "address to listen on")
	flags.Func("limit", "requests per time, such as 30/10s or 100/h (default 10/min)", func(text string) (err error) {
		quota, err = pace.ParseQuota(text)
		return err
	})
	flags.StringVar(&key, "key", "demo", "the key that clients must send; not a secret")
	flags.Uint64Var(&seed, "seed", 1, "the seed of the data: the same seed, the same data")
	flags.BoolVar(&freeze, "freeze", false, "stop the clock, so that views do not grow and every process "+
		"serves the same data")
	flags.BoolVar(&items, "paging-items", false, "make from count items instead of pages")
	flags.DurationVar(&cached, "cached-for", 10*time.Minute, "how long an identical request is answered free of charge")
	return c
}

// simulatorAt is the output of simulate for programs.
type simulatorAt struct {
	URL string `json:"url"`
}

// serveSimulator answers until ctx ends.
func serveSimulator(ctx context.Context, g *globals, address string, handler http.Handler) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(g.world.err, "", log.LstdFlags),
	}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve returns the error
	defer stopped()
	url := "http://" + listener.Addr().String()
	if err := g.out.print(simulatorAt{url}, "simulating the service at %s\n", url); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
	return nil
}
