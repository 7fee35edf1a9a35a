package main

import (
	"context"
	"errors"
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

// The exit codes, for scripts and schedulers. They are part of the interface of
// the program: docs/commands.md lists them.
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

// usageError is a command line that asks for nothing that can be done.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// statusError says that a run ended otherwise than well, which its summary has
// already told; only the exit code is left to say.
type statusError struct{ runs.Status }

func (e statusError) Error() string { return "run ended " + string(e.Status) }

// exitCode is the one place where errors become numbers.
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
	if ctx.Err() != nil || endedThere(err) {
		return exitInterrupted
	}
	if e, ok := errors.AsType[*outlier.Error](err); ok && e.Kind == outlier.Unauthorized {
		return exitKeyRefused
	}
	if _, ok := errors.AsType[*pace.LongWaitError](err); ok {
		return exitBudget
	}
	if e, ok := errors.AsType[statusError](err); ok {
		switch e.Status {
		case runs.Partial:
			return exitPartial
		case runs.PausedBudget, runs.PausedQuota:
			return exitBudget
		}
	}
	return exitFailed
}

// endedThere reports whether somebody stopped the daemon that worked for this command, or the run.
func endedThere(err error) bool {
	_, cancelled := errors.AsType[*engine.CancelledError](err)
	return cancelled || errors.Is(err, serve.ErrStopped)
}

// complaint is what a person reads about err, once.
func complaint(ctx context.Context, err error) string {
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
	if errors.Is(err, serve.ErrStopped) {
		return "outlierd: 'outlierd up' was stopped; " + onward(err,
			"everything that was paid for is stored, and the same command continues from here")
	}
	if stopped(ctx, err) {
		return "outlierd: interrupted; " + onward(err,
			"everything that was paid for is stored, and the next run continues from here")
	}
	lines := strings.Split(strings.ReplaceAll(err.Error(), "job "+job.OnceMark, ""), "\n") // the person asked for no job
	for i, line := range lines {
		lines[i] = term.Plain(line) // it may quote titles and comments of other people
	}
	return "outlierd: " + strings.Join(lines, "\n") + remedy(err)
}

// remedy is what to do about an error that itself knows nothing of job files and
// commands.
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
		return "\n  nothing was sent and no credits were spent; check service.url, the network, and whether the service is up"
	case outlier.Foreign:
		return "\n  something other than the service answered: check service.url, and proxies and login pages on the way"
	}
	return ""
}

// onward says how what was cut short goes on, if that is otherwise than as usual.
func onward(err error, usual string) string {
	if cut, ok := errors.AsType[*cutShort](err); ok {
		return cut.onward
	}
	return usual
}

// stopped reports whether err is the stop that was asked for, and nothing besides.
func stopped(ctx context.Context, err error) bool {
	if ctx.Err() == nil {
		return false
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(several.Unwrap(), func(err error) bool { return !stopped(ctx, err) })
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))
}
