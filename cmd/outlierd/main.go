// Command outlierd buys outlier-video data on a schedule, within a budget, and
// keeps it in DuckDB and Parquet.
//
// A reader new to the repository may want to take the packages in this order:
//
//   - excerpt: cutting a text that is too long; it stands below all others.
//   - outlier: the service, one to one with its interface; its Client is the only
//     code that spends.
//   - outlier/pace: when the next call may leave.
//   - outlier/simulator: the same service in memory, for tests, demos and sim://.
//   - schema: the tables, one line per column, and the decoding that follows from them.
//   - sinks: the contract of a place that keeps tables; duckdb and parquet fulfil it,
//     and duckdb/query reads what is published.
//   - sync/yamltree: YAML with places, variables and mistakes.
//   - sync/job: jobs.yaml and every mistake that can be made in it.
//   - sync/store: the SQLite file: units of work, migrations, lock, disk.
//   - sync/journal: the answers, as they came.
//   - sync/ledger: all money: caps, periods, reservations, holds.
//   - sync/queue: the calls that are wanted.
//   - sync/runs: runs, steps, hits, scans and watermarks.
//   - sync/state: opens the state folder, which these five share.
//   - sync/plan: what a run will ask for and cost, from facts alone.
//   - sync/ops: the rows of the published tables ops.*.
//   - sync/facts: what a plan needs to know, read from the state, and which runs go on.
//   - sync/engine: what happens when a job runs.
//   - sync/forecast: what would happen, for people.
//   - sync/notify: who is told what about it.
//   - sync/metrics: what a daemon tells Prometheus.
//   - sync/trace: what an OpenTelemetry collector is sent of runs.
//   - sync/serve: how commands work beside the daemon.
//   - cmd/outlierd/term: what results look like, for people and for programs.
//
// This package wires them together. A command is a file of its name; perform.go, once.go, hits.go,
// prices.go, summary.go and output.go have what several commands share, and wire.go opens it all.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/serve"
)

func main() {
	os.Exit(Main())
}

// gcPercent is for commands that only look: a result of any size costs little to collect, and
// takes three times its size. GOGC overrides it.
const gcPercent = 200

// The Go side of a run holds little and makes garbage all the time, beside DuckDB, which
// wants the memory. Collecting when the heap reaches runMemory, rather than whenever it has
// grown by a part, bounds the peak; a run whose heap is larger collects all the time.
// GOMEMLIMIT and GOGC override both.
const (
	runMemory    = 48 << 20
	runGCPercent = 400
)

// A run makes one call at a time and each step waits for the one before it: with a
// second processor, goroutines would mostly wake one another across threads, which
// costs an eighth of the work and saves no time. DuckDB has threads of its own, and
// the collector its share. GOMAXPROCS overrides this.
const processors = 1

// Main runs the program in this process's surroundings and returns its exit code.
func Main() int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(processors)
	}
	// net/http writes there what a server sends unasked on a connection that is kept: a text of
	// others, at any length of line. Nothing of ours writes there.
	log.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal stops at once: the first one takes the handler away.
	context.AfterFunc(ctx, stop)
	return run(ctx, os.Args[1:], world{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.LookupEnv,
		network: network, hangups: hangups, listen: serve.Listen, collect: collectAsRun,
	})
}

// collectAsRun sets how Go collects garbage in a process that carries out runs.
func collectAsRun() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(runMemory)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(runGCPercent)
	}
}

// world is what the program knows of its surroundings.
type world struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) (string, bool)
	args     []string // of the command line

	// network makes the transport to the service.
	network func(outlier.TransportOptions) (http.RoundTripper, error)

	// listen makes the socket in a state folder at which commands find a daemon; nil for none.
	listen func(dir string) (net.Listener, error)

	// hangups delivers each SIGHUP of this process from now on; nil leaves it to end the process.
	hangups func() <-chan os.Signal

	// collect is called before runs are carried out; nil leaves the process as it is.
	collect func()
}

// hangups are the SIGHUPs of this process.
func hangups() <-chan os.Signal {
	came := make(chan os.Signal, 1)
	signal.Notify(came, syscall.SIGHUP)
	return came
}

// network is the transport of the operating system.
func network(o outlier.TransportOptions) (http.RoundTripper, error) {
	return outlier.NewTransport(o)
}

// run carries out one command line.
func run(ctx context.Context, args []string, w world) int {
	w.args = args
	o := &options{world: w}
	command := newCommand(o)
	command.SetArgs(args)
	err := command.ExecuteContext(ctx)
	code := exitCode(ctx, err)
	if message := complaint(ctx, err); message != "" {
		fmt.Fprintln(w.err, message)
	}
	if err := o.fail(ctx, err); err != nil {
		fmt.Fprintln(w.err, "outlierd: print the error:", term.Plain(err.Error()))
	}
	return code
}
