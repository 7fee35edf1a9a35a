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

// splitJoined returns the errors that [errors.Join] has joined; none for other errors, whose texts say more than their parts.
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
