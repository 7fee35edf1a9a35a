package command

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

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
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[yamltree.Mistakes](err); ok {
		return exitConfig
	}
	if _, ok := errors.AsType[*store.HeldError](err); ok {
		return exitHeld
	}
	if errors.Is(err, serve.ErrOtherJobs) || errors.Is(err, serve.ErrOtherVersion) {
		return exitHeld
	}
	status, ended := errors.AsType[statusError](err)
	ended = ended && !status.Status.Open() // all runs did, whatever has stopped the command since
	if ctx.Err() != nil && !ended || endedThere(err) {
		return exitInterrupted
	}
	if e, ok := errors.AsType[*outlier.Error](err); ok && e.Kind == outlier.Unauthorized {
		return exitKeyRefused
	}
	if _, ok := errors.AsType[*pace.LongWaitError](err); ok {
		return exitBudget
	}
	switch status.Status {
	case runs.Partial:
		return exitPartial
	case runs.PausedBudget, runs.PausedQuota:
		return exitBudget
	}
	return exitFailed
}

// endedThere reports whether the daemon that worked for this command was stopped, or the run was stopped
// in the daemon.
func endedThere(err error) bool {
	_, cancelled := errors.AsType[*engine.CancelledError](err)
	return cancelled || errors.Is(err, serve.ErrStopped)
}

// errorMessage returns the message about err for people.
func errorMessage(ctx context.Context, err error) string {
	if err == nil {
		return ""
	}
	if _, ok := errors.AsType[statusError](err); ok {
		return ""
	}
	if mistakes, ok := errors.AsType[yamltree.Mistakes](err); ok {
		return strings.TrimRight(mistakes.Error(), "\n")
	}
	if left, ok := errors.AsType[*detachedError](err); ok {
		return "outlierd: " + left.explain()
	}
	cause, usual := "interrupted; ", "everything that was paid for is stored, and the next run continues from here"
	if errors.Is(err, serve.ErrStopped) {
		cause, usual = "'outlierd up' was stopped; ",
			"everything that was paid for is stored, and the same command continues from here"
	}
	if stopped(ctx, err) {
		return "outlierd: " + cause + onward(err, usual)
	}
	lines := strings.Split(strings.ReplaceAll(err.Error(), "job "+job.OnceMark, ""), "\n") // the user did not name a job
	for i, line := range lines {
		lines[i] = term.Plain(line) // it may quote untrusted titles and comments
	}
	if cut, ok := errors.AsType[*cutShort](err); ok && exitCode(ctx, err) == exitInterrupted {
		lines = append(lines, cause+cut.onward)
	}
	return "outlierd: " + strings.Join(lines, "\n") + remedy(err)
}

// remedy adds what to do about errors of packages that do not know job files or commands.
func remedy(err error) string {
	if live, ok := errors.AsType[*runs.LiveScanError](err); ok && live.Scan.ScanID != "" {
		return "\n  it is not bought twice; when it has ended, read it with: outlierd scan read " +
			term.Plain(live.Scan.ScanID)
	}
	if _, long := errors.AsType[*pace.LongWaitError](err); long {
		return "\n  service.max_wait says how long to wait for the limit; " +
			onward(err, "the next 'outlierd run', or 'outlierd up', continues the run")
	}
	if _, lost := errors.AsType[*serve.LostError](err); lost {
		return "\n  everything that was paid for is stored; " + onward(err, "the same command continues the run")
	}
	if _, bound := errors.AsType[*state.BoundError](err); bound {
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
		if _, local := errors.AsType[*fs.PathError](err); local {
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

// onward returns how to continue what was interrupted: usual, unless err needs something else.
func onward(err error, usual string) string {
	if cut, ok := errors.AsType[*cutShort](err); ok {
		return cut.onward
	}
	return usual
}

// stopped reports whether err is only the requested stop, of this process or of the daemon.
func stopped(ctx context.Context, err error) bool {
	if several, ok := err.(interface{ Unwrap() []error }); ok && len(several.Unwrap()) > 0 {
		return !slices.ContainsFunc(several.Unwrap(), func(err error) bool { return !stopped(ctx, err) })
	}
	return errors.Is(err, serve.ErrStopped) ||
		ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)))
}
