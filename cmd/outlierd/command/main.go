// Package command is the program: a file for each command or for a few about the same thing, and the wiring.
//
// spend.go, perform.go, once.go, hits.go and output.go are shared by several commands, and wire.go opens everything.
package command

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
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/serve"
)

// gcPercent is for commands that only read: large results are inexpensive to collect, and the heap may
// grow to three times their size. GOGC overrides it.
const gcPercent = 200

// The Go side of a run holds little memory but produces much garbage, while DuckDB needs the memory.
// Collecting when the heap reaches runMemory, instead of when it has grown by a percentage, limits the
// peak. GOMEMLIMIT and GOGC override both.
const (
	runMemory    = 48 << 20
	runGCPercent = 400
)

// A run makes one call at a time, and each step waits for the previous one. With a second processor,
// goroutines would mostly wake each other across threads, which costs an eighth of the CPU time and
// saves no time. DuckDB has its own threads. GOMAXPROCS overrides this.
const processors = 1

// signalsAsOne is how long further signals count as the first one: timeout(1) and some process managers send a signal
// both to the process and to its group.
const signalsAsOne = time.Second

// Main runs the program in the environment of this process and returns its exit code.
func Main() int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(processors)
	}
	// net/http logs what a server sends unsolicited on an idle connection: foreign text of any length.
	// None of our code uses the standard logger.
	log.SetOutput(io.Discard)
	ctx, end := context.WithCancel(context.Background())
	defer end()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A later signal stops at once, because the handler is removed.
	context.AfterFunc(ctx, func() { time.AfterFunc(signalsAsOne, stop) })
	reads := false // the daemon reads its job file at a hangup
	return run(ctx, os.Args[1:], world{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.LookupEnv,
		network: newTransport, listen: serve.Listen,
		hangups: func() <-chan os.Signal { reads = true; return listenForHangups() },
		acts: func() {
			if asRun(); !reads {
				endAtHangup(end)
			}
		},
	})
}

// asRun prepares a process that performs runs. It sets limits for Go's garbage collector. And a write to
// standard output or standard error fails if the program that read it has ended; by default the write
// would kill the process, and the answer to a paid call in progress would be lost.
func asRun() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(runMemory)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(runGCPercent)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // not Ignore, which commands of notifications would inherit
}

// endAtHangup makes SIGHUP end runs like SIGTERM: the answer to a paid call in progress is awaited and stored.
// It comes when a terminal is closed or a connection of ssh breaks, perhaps twice. nohup ignores it.
func endAtHangup(end func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return
	}
	came := make(chan os.Signal, 1)
	signal.Notify(came, syscall.SIGHUP)
	go func() {
		<-came
		end()
	}()
}

// lookup returns a variable of the environment.
type lookup = func(name string) (value string, found bool)

// world is the program's access to its environment.
type world struct {
	in       io.Reader
	out, err io.Writer
	env      lookup
	args     []string // of the command line

	// network returns the transport to the service.
	network func(caFile string) (http.RoundTripper, error)

	// listen opens the daemon's socket in a state folder; nil for none.
	listen func(dir string) (net.Listener, error)

	// dial connects to the daemon of a state folder; with nil by its socket.
	dial func(ctx context.Context, dir string) (*serve.Client, error)

	// hangups delivers each SIGHUP of this process from now on; with nil SIGHUP ends the process.
	hangups func() <-chan os.Signal

	// acts is called before answers are bought or loaded; nil changes nothing.
	acts func()

	unread bool // answers stay in the journal: another process makes the tables
}

// prepareToAct prepares the process for storing answers, or for decoding all of them again; see [world].
func (w *world) prepareToAct() {
	if w.acts != nil {
		w.acts()
	}
}

// listenForHangups delivers the SIGHUPs of this process.
func listenForHangups() <-chan os.Signal {
	came := make(chan os.Signal, 1)
	signal.Notify(came, syscall.SIGHUP)
	return came
}

// newTransport returns the transport of the operating system.
func newTransport(caFile string) (http.RoundTripper, error) {
	return outlier.NewTransport(caFile)
}

// run executes one command line.
func run(ctx context.Context, args []string, w world) int {
	w.args = args
	g := newGlobals(w)
	command := newCommand(g)
	command.SetArgs(args)
	called, err := command.ExecuteContextC(ctx)
	if err != nil && !g.started {
		err = usageError{fmt.Errorf("%w; see '%s --help'", err, called.CommandPath())}
	}
	code := exitCode(ctx, err)
	if message := errorMessage(ctx, err); message != "" {
		fmt.Fprintln(w.err, message)
	}
	if err := g.fail(ctx, err); err != nil {
		fmt.Fprintln(w.err, "outlierd: print the error:", term.Plain(err.Error()))
	}
	return code
}

// release is the version of a released program, set by the linker.
var release = "dev"

func version() string { return release }

func versionCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and the libraries it was built with",
		RunE: func(*cobra.Command, []string) error {
			said := fmt.Sprintf("outlierd %s · %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			libraries := map[string]string{}
			info, ok := debug.ReadBuildInfo()
			if !ok {
				info = &debug.BuildInfo{}
			}
			for _, dep := range info.Deps {
				switch dep.Path {
				case "github.com/duckdb/duckdb-go/v2", "github.com/apache/arrow-go/v18", "modernc.org/sqlite":
					said += fmt.Sprintf("  %s %s\n", dep.Path, dep.Version)
					libraries[dep.Path] = dep.Version
				}
			}
			return g.out.print(versions{version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, libraries}, "%s", said)
		},
	}
}

// versions is the output of version for programs.
type versions struct {
	Version   string            `json:"version"`
	Go        string            `json:"go"`
	Platform  string            `json:"platform"`
	Libraries map[string]string `json:"libraries"`
}
