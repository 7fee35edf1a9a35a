package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"outlierd/outlier"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
	"outlierd/sync/state"
	"outlierd/sync/store"
	"outlierd/sync/yamltree"
)

func TestEveryErrorHasItsExitCode(t *testing.T) {
	t.Parallel()
	refused := &outlier.Error{Kind: outlier.Unauthorized, Op: outlier.OpSearch, Status: 401}
	mistakes := yamltree.Mistakes{{Place: yamltree.Place{File: "jobs.yaml", Line: 3}}}
	plainly := errors.New("no route")
	for name, test := range map[string]struct {
		err  error
		want int
	}{
		"nothing":                        {nil, exitDone},
		"any":                            {plainly, exitFailed},
		"usage":                          {usageError{plainly}, exitUsage},
		"usage, from the parser":         {usageError{mistakes}, exitUsage},
		"mistakes":                       {mistakes, exitConfig},
		"held":                           {&store.HeldError{Dir: "data/state"}, exitHeld},
		"damaged":                        {&store.CorruptError{}, exitFailed},
		"disk full":                      {&store.FullError{Cause: plainly}, exitFailed},
		"another service":                {&state.BoundError{}, exitFailed},
		"key refused":                    {refused, exitKeyRefused},
		"no credits":                     {&outlier.Error{Kind: outlier.NoCredits}, exitFailed},
		"not sent":                       {&outlier.Error{Kind: outlier.Unsent, Cause: plainly}, exitFailed},
		"partial":                        {statusError{runs.Partial}, exitPartial},
		"paused":                         {statusError{runs.PausedBudget}, exitBudget},
		"failed":                         {statusError{runs.Failed}, exitFailed},
		"no interruption without signal": {context.Canceled, exitFailed},
	} {
		if got := exitCode(t.Context(), test.err); got != test.want {
			t.Errorf("%s: exit code %d, want %d", name, got, test.want)
		}
		if test.err == nil {
			continue
		}
		if got := exitCode(t.Context(), fmt.Errorf("job coffee: %w", test.err)); got != test.want {
			t.Errorf("%s, wrapped: exit code %d, want %d", name, got, test.want)
		}
		if got := exitCode(t.Context(), errors.Join(plainly, test.err)); got != test.want {
			t.Errorf("%s, joined: exit code %d, want %d", name, got, test.want)
		}
	}
}

// TestExitCodeAfterASignal: an error from before the run started keeps its exit code, and so does the status of runs
// that have ended.
func TestExitCodeAfterASignal(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, exitDone}, {ctx.Err(), exitInterrupted}, {fmt.Errorf("job coffee: %w", ctx.Err()), exitInterrupted},
		{statusError{runs.Partial}, exitPartial}, {statusError{runs.Interrupted}, exitInterrupted}, {usageError{errors.New("x")}, exitUsage}, {yamltree.Mistakes{{}}, exitConfig},
		{&store.HeldError{}, exitHeld},
	} {
		if got := exitCode(ctx, test.err); got != test.want {
			t.Errorf("%v: exit code %d, want %d", test.err, got, test.want)
		}
	}
	got := errorMessage(ctx, fmt.Errorf("job coffee: %w", ctx.Err()))
	if !strings.Contains(got, "interrupted") || strings.Contains(got, "\n") {
		t.Errorf("the message is %q, want one line with %q", got, "interrupted")
	}
}

// TestStoppedCommandExplainsHowToContinue, after the errors of its runs and with the message of each.
func TestStoppedCommandExplainsHowToContinue(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	const next = "To continue:\n  outlierd run --continue 01a2"
	for _, test := range []struct {
		ctx  context.Context
		err  error
		want string
		code int
	}{
		{ctx, ctx.Err(), "outlierd: interrupted; everything that was paid for is stored, and the same command continues from here", exitInterrupted},
		{ctx, &stoppedError{ctx.Err(), next}, "outlierd: interrupted; everything that was paid for is stored\n" + next, exitInterrupted},
		{ctx, errors.Join(errors.New("job tea: no route"), &stoppedError{ctx.Err(), next}),
			"outlierd: job tea: no route\ninterrupted; everything that was paid for is stored\n" + next, exitInterrupted},
		{t.Context(), &stoppedError{statusError{runs.PausedBudget}, "not started: tea"}, "outlierd: not started: tea", exitBudget},
		{t.Context(), &stoppedError{serve.ErrStopped, next}, "outlierd: 'outlierd up' was stopped; everything that was paid for is stored\n" + next, exitInterrupted},
	} {
		if got := errorMessage(test.ctx, test.err); got != test.want {
			t.Errorf("the message of %v is\n%s\nwant\n%s", test.err, got, test.want)
		}
		if got := exitCode(test.ctx, test.err); got != test.code {
			t.Errorf("%v: exit code %d, want %d", test.err, got, test.code)
		}
	}
}

func TestErrorsAreReportedOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{statusError{runs.Partial}, ""}, // the summary has reported it
		{errors.New("open x: no such file"), "outlierd: open x: no such file"},
		{
			usageError{yamltree.Mistakes{{
				Place: yamltree.Place{File: "command line", Line: 1, Column: 9}, Message: "search.pages: must be a number", Excerpt: "   1 | x\n",
			}}},
			"command line:1:9: search.pages: must be a number\n   1 | x",
		},
		{
			errors.New("a hostile \x1b[2J\u202etitle\nand\ttwo lines"),
			"outlierd: a hostile \ufffd[2J\ufffdtitle\nand two lines",
		},
	} {
		if got := errorMessage(t.Context(), test.err); got != test.want {
			t.Errorf("the message of %v is %q, want %q", test.err, got, test.want)
		}
	}
}
