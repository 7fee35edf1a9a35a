// Package command is the program: a file for each command or for a few about the same thing, and the wiring.
//
// spend.go, perform.go, once.go, hits.go and output.go are shared by several commands, command.go lists all, and
// wire.go opens everything.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
	"outlierd/sync/state"
	"outlierd/sync/store"
	"outlierd/sync/yamltree"
)

// The Go side of a run holds little memory but produces much garbage, while DuckDB needs the memory.
// Collecting when the heap reaches maxHeap, instead of when it has grown by a percentage, limits the
// peak. GOMEMLIMIT and GOGC override both.
const (
	maxHeap   = 48 << 20
	gcPercent = 400
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
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(maxHeap)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(processors)
	}
	// net/http logs what a server sends unsolicited on an idle connection: foreign text of any length.
	// None of our code uses the standard logger.
	log.SetOutput(io.Discard)
	// A write fails if the program that read the output has ended. By default it would kill the process: the answer to
	// a paid call in progress would be lost, and temporary folders would stay. Commands of notifications would inherit
	// Ignore.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, end := context.WithCancel(context.Background())
	defer end()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A later signal stops at once, because the handler is removed.
	context.AfterFunc(ctx, func() { time.AfterFunc(signalsAsOne, stop) })
	hangups := endAtHangup(end)
	return run(ctx, os.Args[1:], world{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.LookupEnv,
		network: newTransport, listen: serve.Listen,
		hangups: func() <-chan os.Signal { defer signal.Stop(hangups); return listenForHangups() },
	})
}

// endAtHangup makes SIGHUP end a command like SIGTERM: the answer to a paid call in progress is awaited and stored.
// It comes when a terminal is closed or a connection of ssh breaks, perhaps twice. nohup ignores it. Once the returned
// channel is stopped, it ends nothing.
func endAtHangup(end func()) chan<- os.Signal {
	came := make(chan os.Signal, 1)
	if signal.Ignored(syscall.SIGHUP) {
		return came
	}
	signal.Notify(came, syscall.SIGHUP)
	go func() {
		<-came
		end()
	}()
	return came
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

	// hangups delivers each SIGHUP of this process from now on; nil to leave them to the process.
	hangups func() <-chan os.Signal

	unread bool // answers stay in the journal: another process makes the tables
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
	err = withoutEndOfReader(err)
	code := exitCode(ctx, err)
	if message := errorMessage(ctx, err); message != "" {
		fmt.Fprintln(w.err, message)
	}
	if err := g.fail(ctx, err); err != nil {
		fmt.Fprintln(w.err, "outlierd: print the error:", term.Plain(err.Error()))
	}
	return code
}

// withoutEndOfReader returns err without the failure of writing for a program that has read all that it wants, such as
// head.
func withoutEndOfReader(err error) error {
	if parts := slices.Clone(splitJoined(err)); len(parts) > 0 {
		for i := range parts {
			parts[i] = withoutEndOfReader(parts[i])
		}
		return errors.Join(parts...)
	}
	at, is := errors.AsType[*fs.PathError](err)
	if is && at.Path == os.Stdout.Name() && errors.Is(at, syscall.EPIPE) {
		return nil
	}
	return err
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

// Exit codes, for scripts and schedulers. They are part of the program's interface and listed in
// docs/commands.md.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitPartial     = 3
	exitBudget      = 4
	exitConfig      = 5
	exitHeld        = 6
	exitKeyRefused  = 7
	exitInterrupted = 130
)

// usageError is an invalid command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// statusError is a run that did not succeed. Its summary has already been printed; only the exit code
// remains.
type statusError struct{ runs.Status }

func (e statusError) Error() string { return "run ended " + string(e.Status) }

// exitCode returns the exit code for an error. No other function maps errors to exit codes.
func exitCode(ctx context.Context, err error) int {
	if err == nil {
		return exitDone
	}
	switch {
	case isA[usageError](err):
		return exitUsage
	case isA[yamltree.Mistakes](err):
		return exitConfig
	case isA[*store.HeldError](err), errors.Is(err, serve.ErrOtherJobs), errors.Is(err, serve.ErrOtherVersion):
		return exitHeld
	}
	status, ended := errors.AsType[statusError](err)
	ended = ended && !status.Status.Open() // all runs did, whatever has stopped the command since
	if ctx.Err() != nil && !ended || endedThere(err) {
		return exitInterrupted
	}
	switch {
	case isKeyRefused(err):
		return exitKeyRefused
	case isA[*pace.LongWaitError](err), status.Status == runs.PausedBudget, status.Status == runs.PausedQuota:
		return exitBudget
	case status.Status == runs.Partial:
		return exitPartial
	}
	return exitFailed
}

// isA reports whether an error is of a type, or wraps one that is.
func isA[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// isKeyRefused reports whether the service has refused the key.
func isKeyRefused(err error) bool {
	e, is := errors.AsType[*outlier.Error](err)
	return is && e.Kind == outlier.Unauthorized
}

// endedThere reports whether the daemon that worked for this command was stopped, or the run was stopped
// in the daemon.
func endedThere(err error) bool {
	return isA[*engine.CancelledError](err) || errors.Is(err, serve.ErrStopped)
}

// errorMessage returns the message about err for people: its parts that were not reported yet, and what continues the
// work.
func errorMessage(ctx context.Context, err error) string {
	if err == nil {
		return ""
	}
	if mistakes, ok := errors.AsType[yamltree.Mistakes](err); ok {
		return strings.TrimRight(mistakes.Error(), "\n")
	}
	var lines []string
	saysNext := isA[*stoppedError](err)
	var add func(error)
	add = func(err error) {
		parts := splitJoined(err)
		stop, cut := errors.AsType[*stoppedError](err)
		reported := isA[statusError](err) // by the summary of its run
		switch {
		case len(parts) > 0:
			for _, part := range parts {
				add(part)
			}
		case cut:
			add(stop.error)
			lines = append(lines, stop.next)
		case isStop(ctx, err):
			line := "interrupted; everything that was paid for is stored"
			if errors.Is(err, serve.ErrStopped) {
				line = "'outlierd up' was stopped; everything that was paid for is stored"
			}
			if !saysNext {
				line += ", and the same command continues from here"
			}
			lines = append(lines, line)
		case !reported:
			for line := range strings.SplitSeq(strings.ReplaceAll(err.Error(), "job "+job.OnceMark, ""), "\n") { // the user named no job
				lines = append(lines, term.Plain(line)) // it may quote untrusted titles and comments
			}
			lines[len(lines)-1] += adviseOn(err)
		}
	}
	if add(err); len(lines) == 0 {
		return ""
	}
	return "outlierd: " + strings.Join(lines, "\n")
}

// splitJoined returns the errors that [errors.Join] has joined; none for other errors, whose texts say more than their
// parts.
func splitJoined(err error) []error {
	several, is := err.(interface{ Unwrap() []error })
	if !is || len(several.Unwrap()) == 0 || errors.Join(several.Unwrap()...).Error() != err.Error() {
		return nil
	}
	return several.Unwrap()
}

// adviseOn adds what to do about errors of packages that do not know job files or commands.
func adviseOn(err error) string {
	switch {
	case isA[*pace.LongWaitError](err):
		return "\n  service.max_wait says how long to wait for the limit"
	case isA[*serve.LostError](err):
		return "\n  everything that was paid for is stored, and the same command continues the run"
	case isA[*state.BoundError](err):
		return "\n  `data:` in the job file names the folder, or OUTLIERD_DATA"
	}
	e, ok := errors.AsType[*outlier.Error](err)
	if !ok {
		return ""
	}
	switch e.Kind {
	case outlier.Unauthorized:
		return "\n  check service.key in the job file, and the variable or file that it names"
	case outlier.Unsent:
		if isA[*fs.PathError](err) {
			return "\n  nothing was sent and no credits were spent"
		}
		return "\n  nothing was sent and no credits were spent; check service.url, the network, " +
			"and whether the service is up"
	case outlier.Foreign:
		return "\n  something other than the service answered: check service.url, " +
			"and proxies and login pages on the way"
	}
	return ""
}

// isStop reports whether err is only the requested stop, of this process or of the daemon.
func isStop(ctx context.Context, err error) bool {
	if several, ok := err.(interface{ Unwrap() []error }); ok && len(several.Unwrap()) > 0 {
		return !slices.ContainsFunc(several.Unwrap(), func(err error) bool { return !isStop(ctx, err) })
	}
	return errors.Is(err, serve.ErrStopped) ||
		ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)))
}
