package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/engine"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
	"outlierd/sync/store"
)

// jobRun is one run of a job that a command makes.
type jobRun struct {
	Appointment engine.Appointment
	old         *runs.Run // the unfinished run to continue; nil for a new run
	whole       bool      // the job's unfinished runs are dealt with before this run
	afresh      bool      // an unfinished run is not continued
	leftOver    bool      // old was left by the last process; a due time of its job may continue it first
	after       bool      // the jobs that come after this one run, too

	rest *engine.Rest // the pages of an earlier run to buy; nil for an ordinary run
}

// scheduled reports whether a schedule asks for the run, and not a person.
func (j *jobRun) scheduled() bool {
	return !j.Appointment.Due.IsZero() || j.Appointment.Trigger == engine.CatchUp
}

// idle says why there is nothing to run, which is no failure.
type idle string

func (why idle) Error() string { return string(why) }

// reporting performs runs and reports them: to people by summaries, and to programs by one row
// for each run, while the summaries go to standard error.
func (o *options) reporting(ctx context.Context, config *job.Config, which func(*program) ([]jobRun, error)) error {
	if o.output == "table" {
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

// runJobs performs what is to be done and reports. The worst status of all runs
// decides the exit code; a run that cannot go on stops the rest only if the reason is
// not the job's own.
func (o *options) runJobs(ctx context.Context, config *job.Config, which func(*program) ([]jobRun, error)) error {
	return o.with(ctx, config, func(p *program) error {
		todo, err := which(p)
		if why, ok := errors.AsType[idle](err); ok {
			fmt.Fprintln(o.world.out, why)
			return nil
		}
		if err != nil {
			return err
		}
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
			row, err := o.runJob(ctx, p, next)
			if err != nil {
				errs = append(errs, err)
			}
			if left, is := errors.AsType[*detachedError](err); is {
				left.again = o.goesOn(todo[:1])
				if len(todo) > 1 {
					left.others = o.goesOn(todo[1:])
				}
				return worst(append(errs[:len(errs)-1], left))
			}
			if ctx.Err() != nil || errors.Is(err, serve.ErrStopped) {
				return worst(append(errs[:max(0, len(errs)-1)], o.interrupted(err, todo)))
			}
			if err != nil && everybodys(err) {
				break
			}
			followers, err := following(p, next, row)
			if err != nil {
				return worst(append(errs, err))
			}
			todo = append(followers, todo[1:]...)
		}
		return worst(errs)
	})
}

// interrupted adds to the error of a run that was stopped which command goes on with it, and
// with those after it.
func (o *options) interrupted(failed error, todo []jobRun) error {
	if failed == nil {
		return nil
	}
	return &cutShort{failed, "everything that was paid for is stored. To continue:\n  " + o.goesOn(todo)}
}

// goesOn is the command that does what is still to be done.
func (o *options) goesOn(todo []jobRun) string {
	var names []string
	for _, j := range todo {
		if j.scheduled() {
			names = []string{"--due"}
			break
		}
		if !slices.Contains(names, j.Appointment.Spec.Name) {
			names = append(names, j.Appointment.Spec.Name)
		}
	}
	line := o.typed("run " + strings.Join(names, " "))
	if flags := todo[0].Appointment.Spec.Flags; flags != "" {
		line += " " + flags
	}
	if todo[0].after && !todo[0].scheduled() {
		line += " --with-after"
	}
	if todo[0].Appointment.Spec.Dates != nil { // a backfill
		line = retyped(o.world.args)
	}
	return line
}

// typed is a command as it is typed here: with the job file, if that is another than usual.
func (o *options) typed(command string) string {
	line := "outlierd "
	if usual, _ := o.world.env("OUTLIERD_CONFIG"); o.config != cmp.Or(usual, "jobs.yaml") {
		line += "-c " + job.Quoted(o.config) + " "
	}
	return term.Plain(line + command)
}

// following are the runs that come after one. Those of a due instant are owed, whatever
// becomes of the rest of its run; those of a run by hand follow if it ended well enough,
// and are due when that began, so that each is made only once for it.
func following(p *program, done jobRun, row *runs.Run) (next []jobRun, err error) {
	switch {
	case !done.after || row == nil:
		return nil, nil
	case !row.Due.IsZero():
		owed, err := p.Engine.Owed(time.Now())
		if err != nil {
			return nil, err
		}
		owed = slices.DeleteFunc(owed, func(a *engine.Appointment) bool {
			return a.Spec.After != row.Job || !a.Due.Equal(row.Due)
		})
		return performing(owed), nil
	case !row.Status.EndedWell():
		return nil, nil
	}
	due := row.Started.Truncate(time.Microsecond) // as it is on record
	for i := range p.Engine.Config.Jobs {
		if spec := &p.Engine.Config.Jobs[i]; spec.After == row.Job && !spec.Disabled {
			next = append(next, jobRun{
				Appointment: engine.Appointment{Spec: spec, Due: due, Trigger: engine.After}, whole: true, after: true,
			})
		}
	}
	return next, nil
}

// everybodys reports whether an error is not the job's own: the next job would only
// meet it again.
func everybodys(err error) bool {
	if _, short := errors.AsType[*store.LowSpaceError](err); short {
		return true
	}
	if _, ahead := errors.AsType[*engine.AheadError](err); ahead {
		return true
	}
	if _, down := errors.AsType[*engine.SinksDownError](err); down {
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

// say tells a person something beside the results.
func (o *options) say(line string) { fmt.Fprintln(o.world.out, line) }

// runJob performs one run while progress is shown, and returns its record, which is nil if it
// never started.
func (o *options) runJob(ctx context.Context, p *program, j jobRun) (*runs.Run, error) {
	if j.rest != nil {
		fmt.Fprintln(o.world.out, beforeRest(p.forecasts(), j.Appointment.Spec, j.rest))
		return o.perform(ctx, p, j, func() (*runs.Run, error) { return p.Engine.BuyRest(ctx, j.Appointment.Spec, j.rest) })
	}
	p.Engine.Afresh = j.afresh
	if j.old == nil && !j.scheduled() {
		var err error
		if j.old, err = p.Engine.Facts().Continues(j.Appointment.Spec); err != nil {
			return nil, err
		}
	}
	if err := o.listDisplaced(p, j); err != nil {
		return nil, err
	}
	fmt.Fprintln(o.world.out, beforehand(ctx, p.forecasts(), j.Appointment.Spec, j.old))
	return o.perform(ctx, p, j, func() (*runs.Run, error) {
		if j.old != nil {
			return p.Engine.Resume(ctx, j.Appointment.Spec, j.Appointment.Trigger, j.Appointment.Due, j.old)
		}
		return p.Engine.Run(ctx, j.Appointment.Spec, j.Appointment.Trigger, j.Appointment.Due)
	})
}

// perform makes a run, which beside a daemon is for that to do, and reports it.
func (o *options) perform(ctx context.Context, p *program, j jobRun, run func() (*runs.Run, error)) (*runs.Run, error) {
	if p.daemon != nil {
		run = func() (*runs.Run, error) { return p.order(ctx, o.say, j) }
	}
	stop := o.watch(p)
	row, failed := run()
	stop()
	if row != nil {
		if err := o.reportRun(p, row, failed); err != nil {
			return row, errors.Join(failed, err)
		}
	}
	if failed != nil {
		return row, ofJob(j.Appointment.Spec.Name, failed)
	}
	if row.Status != runs.OK && row.Status != runs.OKEmpty {
		return row, statusError{row.Status}
	}
	return row, nil
}

// ofJob names the job of an error, unless it begins with that, as what is wrong with a
// job itself does.
func ofJob(name string, err error) error {
	if strings.HasPrefix(err.Error(), "job "+name+": ") {
		return err
	}
	return fmt.Errorf("job %s: %w", name, err)
}

// worst picks what the exit code says: an error over a run that failed, that
// over one that was cut short, and that over a partial one. All errors are reported;
// the statuses beside them stand in the summaries already.
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
		all = append(all, jobRun{Appointment: engine.Appointment{Spec: &specs[i], Trigger: engine.Manual}, whole: true})
	}
	return all
}

// performing are the runs of due instants.
func performing(due []*engine.Appointment) (todo []jobRun) {
	for _, a := range due {
		todo = append(todo, jobRun{Appointment: *a, whole: true, after: true})
	}
	return todo
}

// overtaken reports whether nothing is left to do of the run that is to be continued.
func overtaken(p *program, j jobRun) (bool, error) {
	left, err := p.Engine.Facts().LeftOver(j.Appointment.Spec)
	return !slices.ContainsFunc(left, func(r runs.Run) bool { return r.ID == j.old.ID }), err
}

// unfold are the runs that it takes to perform a due instant or a job by hand: what the job
// has unfinished goes on before. By hand the job's own unfinished run is what is performed.
// A due instant that has had its run meanwhile gives none.
func unfold(p *program, j jobRun) (todo []jobRun, err error) {
	done, err := p.Engine.Store.Runs.Performed(j.Appointment.Spec.Name, j.Appointment.Due)
	if done || err != nil {
		return nil, err
	}
	p.Engine.Afresh = false
	unfinished, err := p.Engine.Facts().Unfinished(j.Appointment.Spec, j.Appointment.Due)
	if err != nil {
		return nil, err
	}
	for i := range unfinished {
		old := &unfinished[i]
		if j.scheduled() || old.Overridden != j.Appointment.Spec.Overridden {
			todo = append(todo, jobRun{Appointment: j.Appointment, old: old, after: !old.Due.IsZero()})
		}
	}
	j.whole = false
	return append(todo, j), nil
}

// listDisplaced names the unfinished runs that a new one closes, and those that it leaves.
func (o *options) listDisplaced(p *program, j jobRun) error {
	if j.old != nil || isOnce(j.Appointment.Spec.Name) {
		return nil
	}
	closed, left, err := p.Engine.Facts().Displaced(j.Appointment.Spec, j.Appointment.Due)
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

// superseded says that a new run closes an unfinished one.
func superseded(p *program, old *runs.Run) string {
	return fmt.Sprintf("%s: %s is superseded by a new run", old.Job, nameOfRun(p, old))
}

// nameOfRun is an unfinished run as people read of it.
func nameOfRun(p *program, run *runs.Run) string {
	name := "the run of " + run.Started.In(p.Engine.Config.Timezone).Format("2006-01-02 15:04")
	if flags := facts.Flags(run); flags != "" {
		name += " with " + flags
	}
	return fmt.Sprintf("%s (%s)", term.Plain(name), run.Status)
}
