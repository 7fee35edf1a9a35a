package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/engine"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/load"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
	"outlierd/sync/store"
)

// jobRun is a run of a job that a command performs.
type jobRun struct {
	DueRun   engine.DueRun
	old      *runs.Run // the unfinished run to continue; nil for a new run
	whole    bool      // the job's unfinished runs are continued or closed before this run
	afresh   bool      // an unfinished run is not continued
	leftOver bool      // old was left by the last process; a run for a due time may continue it first
	after    bool      // the jobs that come after this one run, too

	rest *engine.Rest // the pages of an earlier run to buy; nil for an ordinary run
}

// scheduled reports whether a schedule requests the run, not a user.
func (j *jobRun) scheduled() bool {
	return !j.DueRun.Due.IsZero() || j.DueRun.Trigger == engine.CatchUp
}

// idle is the reason why there is nothing to run. It is not a failure.
type idle string

func (why idle) Error() string { return string(why) }

// reporting performs runs and reports them: to people by summaries, and to programs by one row per run,
// with the summaries on standard error.
func (o *options) reporting(ctx context.Context, config *job.Config, which func(*program) ([]jobRun, error)) error {
	if o.output == "table" || o.spending.dryRun {
		return o.runJobs(ctx, config, which)
	}
	aside := o.aside()
	failed := aside.runJobs(ctx, config, which)
	var rows [][]any
	for _, end := range aside.outcomes {
		rows = append(rows, end.values())
	}
	if failed != nil && len(rows) == 0 {
		return failed // nothing ran
	}
	if err := o.rows(outcomeColumns, rows); err != nil {
		return worst([]error{failed, err})
	}
	return failed
}

// runJobs performs runs and reports them. The worst status decides the exit code. A run that cannot
// continue stops the others only if the reason is not specific to its job.
func (o *options) runJobs(ctx context.Context, config *job.Config, which func(*program) ([]jobRun, error)) error {
	return o.spend(ctx, config, which, func(p *program, todo []jobRun) error {
		var errs []error
		for len(todo) > 0 {
			next := todo[0]
			if next.leftOver {
				if gone, err := overtaken(p, next); err != nil {
					return worst(append(errs, err))
				} else if gone {
					todo = todo[1:]
					continue
				}
			}
			if next.whole {
				first, err := unfold(p, next)
				if err != nil {
					return worst(append(errs, err))
				}
				todo = append(first, todo[1:]...)
				continue
			}
			if o.spending.most > 0 && o.creditsLeft() == 0 {
				fmt.Fprintf(o.world.err, "--max-credits %d is reached. To run what is left:\n  %s\n", o.spending.most,
					o.continueCommand(todo))
				return worst(append(errs, statusError{runs.PausedBudget}))
			}
			row, err := o.runJob(ctx, p, next)
			if err != nil {
				errs = append(errs, err)
			}
			if left, is := errors.AsType[*detachedError](err); is {
				left.again = o.continueCommand(todo[:1])
				if len(todo) > 1 {
					left.others = o.continueCommand(todo[1:])
				}
				return worst(append(errs[:len(errs)-1], left))
			}
			stopped := errors.Is(err, serve.ErrStopped)
			ended := row != nil && !row.Status.Open() && !stopped
			if stopped = stopped || ctx.Err() != nil; stopped && !ended {
				return worst(append(errs[:max(0, len(errs)-1)], o.interrupted(cmp.Or(err, context.Cause(ctx)), todo)))
			}
			if err != nil && affectsAllJobs(err) {
				break
			}
			followers, err := following(p, next, row)
			if err != nil {
				return worst(append(errs, err))
			}
			todo = append(followers, todo[1:]...)
			if stopped && len(todo) > 0 {
				return worst(append(errs, o.interrupted(context.Cause(ctx), todo)))
			}
		}
		return worst(errs)
	})
}

// interrupted adds to the error of a stopped command the command that performs the remaining runs.
func (o *options) interrupted(failed error, todo []jobRun) error {
	return &cutShort{failed, "everything that was paid for is stored. To continue:\n  " + o.continueCommand(todo)}
}

// continueCommand returns the command that performs the remaining runs, with all flags that were typed.
func (o *options) continueCommand(todo []jobRun) string {
	line, flags := o.typed(o.command.Name()), o.command.Flags()
	due := flags.Changed("due") // names no jobs
	for i := range todo {
		if name := job.Quoted(todo[i].DueRun.Spec.Name); !due && !slices.Contains(strings.Fields(line), name) {
			line += " " + name
		}
	}
	flags.SortFlags = false // they stay as typed
	flags.Visit(func(f *pflag.Flag) {
		if f.Name == "config" || f.Name == "all" { // typed adds the file, and the remaining jobs are named
			return
		}
		values := []string{f.Value.String()}
		if left := o.creditsLeft(); f.Name == "max-credits" && left > 0 && o.command.Name() == "run" {
			values[0] = fmt.Sprint(left)
		}
		if list, is := f.Value.(pflag.SliceValue); is {
			values = list.GetSlice()
		}
		for _, value := range values {
			line += " --" + f.Name
			if f.Value.Type() != "bool" {
				line += " " + job.Quoted(value)
			} else if value != "true" {
				line += "=" + value
			}
		}
	})
	return term.Plain(line)
}

// typed returns a command as the user would type it: with the job file, if it is not the default.
func (o *options) typed(command string) string {
	line := "outlierd "
	if usual, _ := o.world.env("OUTLIERD_CONFIG"); o.config != cmp.Or(usual, defaultConfig) {
		line += "-c " + job.Quoted(o.config) + " "
	}
	return term.Plain(line + command)
}

// following returns the runs of jobs that come after a run. After a scheduled run they are due even if
// the rest of that run fails. After a run by hand they follow if it succeeded or was partial; they are
// due at its start, so that each is made only once for it.
func following(p *program, done jobRun, row *runs.Run) (next []jobRun, err error) {
	switch {
	case !done.after || row == nil:
		return nil, nil
	case !row.Due.IsZero():
		due, err := p.Engine.FollowUps(time.Now())
		if err != nil {
			return nil, err
		}
		due = slices.DeleteFunc(due, func(a *engine.DueRun) bool {
			return a.Spec.After != row.Job || !a.Due.Equal(row.Due)
		})
		return performing(due), nil
	case !row.Status.EndedWell():
		return nil, nil
	}
	due := row.Started.Truncate(time.Microsecond) // as stored
	for i := range p.Engine.Config.Jobs {
		if spec := &p.Engine.Config.Jobs[i]; spec.After == row.Job && !spec.Disabled {
			next = append(next, jobRun{
				DueRun: engine.DueRun{Spec: spec, Due: due, Trigger: engine.After}, whole: true, after: true,
			})
		}
	}
	return next, nil
}

// affectsAllJobs reports whether an error is not specific to the job: the next job would fail in the same
// way.
func affectsAllJobs(err error) bool {
	if _, short := errors.AsType[*store.LowSpaceError](err); short {
		return true
	}
	if _, moved := errors.AsType[*store.MovedError](err); moved {
		return true
	}
	if _, ahead := errors.AsType[*load.AheadError](err); ahead {
		return true
	}
	if _, down := errors.AsType[*load.SinksDownError](err); down {
		return true
	}
	if _, long := errors.AsType[*pace.LongWaitError](err); long {
		return true
	}
	if _, unkept := errors.AsType[*outlier.UnkeptError](err); unkept {
		return true
	}
	if _, lost := errors.AsType[*serve.LostError](err); lost {
		return true
	}
	refused, ok := errors.AsType[*outlier.Error](err)
	return ok && refused.Kind == outlier.Unauthorized
}

// say prints a message that is not part of the results.
func (o *options) say(line string) { fmt.Fprintln(o.world.out, line) }

// runJob performs one run with its progress shown, within what --max-credits leaves, and returns its record; nil if
// it never started.
func (o *options) runJob(ctx context.Context, p *program, j jobRun) (*runs.Run, error) {
	p.Engine.Afresh = j.afresh
	if j.rest == nil && j.old == nil && !j.scheduled() {
		var err error
		if j.old, err = p.Engine.Facts().Continues(j.DueRun.Spec); err != nil {
			return nil, err
		}
	}
	before, err := o.keepWithin(p, &j)
	if err != nil {
		return nil, err
	}
	row, failed := o.startOrContinue(ctx, p, j)
	if row != nil {
		held, err := heldBy(p, row)
		if err != nil {
			return row, errors.Join(failed, err)
		}
		o.spending.spent += held - before
	}
	return row, failed
}

func (o *options) startOrContinue(ctx context.Context, p *program, j jobRun) (*runs.Run, error) {
	if j.rest != nil {
		fmt.Fprintln(o.world.out, beforeRest(p.forecasts(), j.DueRun.Spec, j.rest))
		return o.perform(ctx, p, j, func() (*runs.Run, error) { return p.Engine.BuyRest(ctx, j.DueRun.Spec, j.rest) })
	}
	if err := o.listDisplaced(p, j); err != nil {
		return nil, err
	}
	fmt.Fprintln(o.world.out, beforehand(ctx, p.forecasts(), j.DueRun.Spec, j.old))
	return o.perform(ctx, p, j, func() (*runs.Run, error) {
		if j.old != nil {
			return p.Engine.Resume(ctx, j.DueRun.Spec, j.DueRun.Trigger, j.DueRun.Due, j.old)
		}
		return p.Engine.Run(ctx, j.DueRun.Spec, j.DueRun.Trigger, j.DueRun.Due)
	})
}

// perform performs a run, or has the daemon do it, and reports it.
func (o *options) perform(ctx context.Context, p *program, j jobRun, run func() (*runs.Run, error)) (*runs.Run, error) {
	if p.daemon != nil {
		run = func() (*runs.Run, error) { return p.order(ctx, o.say, j) }
	}
	stop := o.watch(p)
	row, failed := run()
	stop()
	if row != nil {
		if err := o.reportRun(ctx, p, row, failed); err != nil {
			return row, errors.Join(failed, err)
		}
	}
	if failed != nil {
		return row, ofJob(j.DueRun.Spec.Name, failed)
	}
	if row.Status != runs.OK && row.Status != runs.OKEmpty {
		return row, statusError{row.Status}
	}
	return row, nil
}

// ofJob adds the name of the job to an error, unless it begins with it.
func ofJob(name string, err error) error {
	if strings.HasPrefix(err.Error(), "job "+name+": ") {
		return err
	}
	return fmt.Errorf("job %s: %w", name, err)
}

// worst selects the error that decides the exit code: an error before a failed run, a failed run before
// an interrupted one, and that before a partial one. All errors are reported.
func worst(errs []error) error {
	var unseen []error
	var status error
	rank := []runs.Status{runs.Partial, runs.PausedQuota, runs.PausedBudget, runs.Failed}
	highest := -1
	for _, err := range errs {
		s, ok := errors.AsType[statusError](err)
		if !ok {
			unseen = append(unseen, err)
		} else if at := slices.Index(rank, s.Status); status == nil || at > highest {
			status, highest = err, at
		}
	}
	if len(unseen) > 0 {
		return errors.Join(unseen...)
	}
	return status
}

func byHand(specs []job.Spec) []jobRun {
	var all []jobRun
	for i := range specs {
		all = append(all, jobRun{DueRun: engine.DueRun{Spec: &specs[i], Trigger: engine.Manual}, whole: true})
	}
	return all
}

// performing returns the runs to perform for those that are due.
func performing(due []*engine.DueRun) (todo []jobRun) {
	for _, a := range due {
		todo = append(todo, jobRun{DueRun: *a, whole: true, after: true})
	}
	return todo
}

// overtaken reports whether nothing is left of the run to continue.
func overtaken(p *program, j jobRun) (bool, error) {
	left, err := p.Engine.Facts().LeftOver(j.DueRun.Spec)
	return !slices.ContainsFunc(left, func(r runs.Run) bool { return r.ID == j.old.ID }), err
}

// unfold returns the runs needed to perform a due time or a job by hand, beginning with unfinished runs
// of the job. By hand, the job's own unfinished run is what is performed. It returns none for a due time
// that has had its run meanwhile.
func unfold(p *program, j jobRun) (todo []jobRun, err error) {
	done, err := p.Engine.Store.Runs.Performed(j.DueRun.Spec.Name, j.DueRun.Due)
	if done || err != nil {
		return nil, err
	}
	p.Engine.Afresh = false
	unfinished, err := p.Engine.Facts().Unfinished(j.DueRun.Spec, j.DueRun.Due)
	if err != nil {
		return nil, err
	}
	for i := range unfinished {
		old := &unfinished[i]
		if j.scheduled() || old.Overridden != j.DueRun.Spec.Overridden {
			todo = append(todo, jobRun{DueRun: j.DueRun, old: old, after: !old.Due.IsZero()})
		}
	}
	j.whole = false
	return append(todo, j), nil
}

// listDisplaced names the unfinished runs that a new one closes, and those that it leaves.
func (o *options) listDisplaced(p *program, j jobRun) error {
	if j.old != nil || isOnce(j.DueRun.Spec.Name) {
		return nil
	}
	closed, left, err := p.Engine.Facts().Superseded(j.DueRun.Spec, j.DueRun.Due)
	for i := range closed {
		if old := &closed[i]; old.Status != runs.Failed {
			fmt.Fprintln(o.world.out, superseded(p, old))
		}
	}
	for i := range left {
		old := &left[i]
		fmt.Fprintf(o.world.out, "%s: %s stays unfinished. To continue it:\n  %s\n", old.Job, nameOfRun(p, old),
			o.typed(strings.TrimPrefix(facts.Command(old), "outlierd ")))
	}
	return err
}

// superseded returns the message that a new run closes an unfinished one.
func superseded(p *program, old *runs.Run) string {
	return fmt.Sprintf("%s: %s is superseded by a new run", old.Job, nameOfRun(p, old))
}

// nameOfRun returns the name of an unfinished run for people.
func nameOfRun(p *program, run *runs.Run) string {
	name := "the run of " + run.Started.In(p.Engine.Config.Timezone).Format("2006-01-02 15:04")
	if flags := facts.Flags(run); flags != "" {
		name += " with " + flags
	}
	return fmt.Sprintf("%s (%s)", term.Plain(name), run.Status)
}
