package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/job"
)

// asker asks whoever sits at the other end.
type asker struct {
	in  io.Reader
	out io.Writer
}

// asker is nil unless a person can read a question and answer it.
func (o *options) asker() *asker {
	if !personal(o.in) || !terminal(o.err) {
		return nil
	}
	return &asker{o.in, o.err}
}

// agreed reports whether the answer to a question is yes. No answer is no.
func (a *asker) agreed(question string) (bool, error) {
	fmt.Fprintf(a.out, "%s [y/N] ", question)
	answer, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// personal reports whether a person is at the other end of in.
func personal(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// errDeclined ends a command whose question was not answered with yes.
var errDeclined = errors.New("nothing was begun")

// consent asks what it takes a yes to do. Where nobody is there to be asked it
// is refused.
func (a *asker) consent(told, question string) error {
	if a == nil {
		return usageError{errors.New(told + "; this is not a terminal, so pass --yes to confirm")}
	}
	agreed, err := a.agreed(told + ". " + question)
	if err == nil && !agreed {
		err = errDeclined
	}
	return err
}

// leastConfirmed is the least number of credits above which the default of
// budget.confirm_over, a tenth of the month, asks.
const leastConfirmed outlier.Credits = 20

// confirmOver is the price above which a run needs a yes, and what sets it; nil asks for nothing.
// The default is for people: a script that ran without --yes goes on running.
func confirmOver(config *job.Config, atTerminal bool) (limit *outlier.Credits, why string) {
	budget := config.Budget
	switch {
	case budget.ConfirmOver != nil:
		return budget.ConfirmOver, "budget.confirm_over"
	case !atTerminal || budget.PerMonth == nil || config.Service.Simulated():
		return nil, ""
	}
	return new(max(leastConfirmed, *budget.PerMonth/10)), "a tenth of the month; set budget.confirm_over to change it"
}

// approve asks before runs of which one may cost more than budget.confirm_over: all at
// once, and before the first of them begins. The price of a run is its cap. Runs on a
// schedule are never asked about, nor is anybody if yes is set; without a person to ask,
// who is nil, runs that need a yes are refused.
func approve(ctx context.Context, e *engine.Engine, todo []errand, yes bool, who *asker) error {
	limit, why := confirmOver(e.Config, who != nil)
	if limit == nil || yes {
		return nil
	}
	dear, err := dearer(ctx, e, withFollowers(e.Config, todo), *limit)
	if err != nil || len(dear) == 0 {
		return err
	}
	told := fmt.Sprintf("%s may cost more than %s (%s): %s", subjects(dear), count(*limit, "credit"), why, strings.Join(dear, ", "))
	return who.consent(told, "Run it?")
}

func subjects(dear []string) string {
	if len(dear) == 1 {
		return "this run"
	}
	return "these runs"
}

// dearer are the runs by hand that may cost more than limit, with their price.
func dearer(ctx context.Context, e *engine.Engine, todo []errand, limit outlier.Credits) (dear []string, err error) {
	defer func(afresh bool) { e.Afresh = afresh }(e.Afresh)
	for _, next := range todo {
		if next.scheduled() {
			continue
		}
		e.Afresh = next.afresh
		most, err := next.mayCost(ctx, e)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err == nil && most > limit { // a run that cannot begin says why itself, and costs nothing
			dear = append(dear, fmt.Sprintf("%s up to %d", strings.TrimPrefix(next.Spec.Name, onceMark), most))
		}
	}
	return dear, nil
}

// mayCost is the most that a run by hand may cost.
func (e *errand) mayCost(ctx context.Context, in *engine.Engine) (outlier.Credits, error) {
	if e.rest != nil {
		return e.rest.MayCost, nil
	}
	return in.MayCost(ctx, e.Spec, e.Trigger == engine.After)
}

// withFollowers adds the jobs that come after those to be run by hand, so that the
// question comes once. What their SQL will find then is what it finds now.
func withFollowers(config *job.Config, todo []errand) (all []errand) {
	for _, next := range todo {
		all = append(all, next)
		if !next.after || next.scheduled() {
			continue
		}
		for i := range config.Jobs {
			if spec := &config.Jobs[i]; spec.After == next.Spec.Name && !spec.Disabled {
				follower := errand{Appointment: engine.Appointment{Spec: spec, Trigger: engine.After}, after: true}
				all = append(all, withFollowers(config, []errand{follower})...)
			}
		}
	}
	return all
}
