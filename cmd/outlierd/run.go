package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// runFlags are what `run` can be told besides the names of jobs.
type runFlags struct {
	all, due, reserve, withAfter, yes bool

	pages           int
	since           string
	noEnrich, again bool
	moveCursor      bool
	set             []string
	rest            string
}

func runCommand(o *options) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run [JOB…]",
		Short: "Run jobs now, one after another",
		Long: `Run jobs now, one after another. Without a name the only job is run; where there
are several, they are listed with what they may cost. A job with "enabled: false"
runs by name only.

A run that was killed, stopped or paused by a cap within the last day is continued: no
page is bought twice. ^C prints what was bought, what is left, and the command that goes
on. What becomes of a run is its exit code: 0 ok, 3 partial (some calls failed
and stay queued), 4 stopped by a budget or the rate limit, 1 failed, 7 the key was refused.

With --pages, --since, --set, --no-enrich or --again a job is run in another way
this once. Such a run is a new one, unless the same command was interrupted or paused
within the last day: that run is continued. The job's cursor, what was learned about
paging, the forecast and the job's unfinished run stay as they were; with --move-cursor
the next run searches from where this one did.

With --rest RUN what "pages" cut off the searches of an earlier run is bought, and
nothing again: its stored searches go on at the next page, whatever the file says by
now. The summary of a run prints this command where something was left.

With -o json, ndjson or csv a row for each run goes to standard output, and what
people read to standard error.`,
		Example: `  outlierd run coffee
  outlierd run coffee --set topic="moka pot" --pages 1 --no-enrich
  outlierd run coffee --with-after`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, names []string) error { return o.runNamed(c, &f, names) },
	}
	flags := c.Flags()
	flags.BoolVar(&f.all, "all", false, "run every job of the file that is enabled")
	flags.BoolVar(&f.due, "due", false, "run what is due, what comes after it and what a killed process left, for a clock outside such as a CronJob")
	flags.BoolVar(&f.reserve, "use-reserve", false, "let this run spend the part of the budget that is kept back")
	flags.BoolVar(&f.yes, "yes", false, "do not ask, whatever the run may cost (budget.confirm_over)")
	flags.BoolVar(&f.withAfter, "with-after", false, "then run the jobs that come after it, if it ended ok or partial")
	flags.IntVar(&f.pages, "pages", 0, "take so many pages at most, of each search")
	flags.StringVar(&f.since, "since", "", "search what was published so long ago or later, such as 90d, whatever published_at says")
	flags.BoolVar(&f.noEnrich, "no-enrich", false, "fetch nothing more about the hits")
	flags.BoolVar(&f.again, "again", false, "buy also what was bought lately (reuse_for, refresh_after of seeds), and a scan of which one is live")
	flags.BoolVar(&f.moveCursor, "move-cursor", false, "move the job's cursor although the run is overridden")
	flags.StringArrayVar(&f.set, "set", nil, "one value for a name of for_each, as in topic=\"moka pot\"; repeatable")
	flags.StringVar(&f.rest, "rest", "", "buy what the searches of an earlier `RUN` left")
	return c
}

func (o *options) runNamed(c *cobra.Command, f *runFlags, names []string) error {
	if f.all && (f.due || len(names) > 0) || f.due && len(names) > 0 {
		return usageError{errors.New("name jobs, or say --all, or say --due; not more than one of these")}
	}
	if f.withAfter && (f.all || f.due) {
		return usageError{errors.New("--with-after goes with the names of jobs: --all runs all jobs anyway, and --due what comes after those that are due")}
	}
	change, err := f.overrides(c)
	if err != nil {
		return err
	}
	if change != nil && (f.all || f.due) {
		return usageError{errors.New("--pages, --since, --set, --no-enrich and --again go with the names of jobs")}
	}
	if c.Flags().Changed("rest") && (f.rest == "" || change != nil || f.all || f.due || f.withAfter || len(names) > 1) {
		return usageError{errors.New("--rest wants the id of a run, and goes with one job and no other flag but --yes and --use-reserve")}
	}
	if err := o.anyOutput(); err != nil {
		return err
	}
	config, err := sound(c.Context(), o.load)
	if err != nil {
		return err
	}
	return o.telling(c.Context(), config, func(p *program) ([]errand, error) {
		p.UseReserve = f.reserve
		todo, err := f.todo(c.Context(), p, names, change)
		if err == nil && len(todo) == 0 {
			err = idle("nothing is due")
		}
		if err != nil {
			return nil, err
		}
		return todo, approve(c.Context(), p.Engine, todo, f.yes, o.asker())
	})
}

// todo is what is to be run.
func (f *runFlags) todo(ctx context.Context, p *program, names []string, change *job.Overrides) ([]errand, error) {
	switch {
	case f.rest != "":
		return restOf(ctx, p, names, f.rest)
	case f.due:
		return dueNow(p, time.Now())
	case f.all:
		return byHand(slices.DeleteFunc(slices.Clone(p.Config.Jobs), func(s job.Spec) bool { return s.Disabled })), nil
	}
	todo, err := jobsNamed(ctx, p, names)
	if err != nil {
		return nil, err
	}
	for i := range todo {
		todo[i].after = f.withAfter
	}
	return todo, changed(todo, change)
}

// overrides is how the command line changes jobs; nil if it does not.
func (f *runFlags) overrides(c *cobra.Command) (*job.Overrides, error) {
	any := false
	for _, name := range []string{"pages", "since", "no-enrich", "again", "set"} {
		any = any || c.Flags().Changed(name)
	}
	switch {
	case !any && f.moveCursor:
		return nil, usageError{errors.New("--move-cursor goes with --pages, --since, --set, --no-enrich or --again; any other run moves the cursor")}
	case !any:
		return nil, nil
	}
	change := &job.Overrides{Pages: f.pages, NoEnrich: f.noEnrich, Again: f.again, Set: map[string]string{}, MoveCursor: f.moveCursor}
	if c.Flags().Changed("pages") && f.pages < 1 {
		return nil, usageError{fmt.Errorf("--pages %d: a run takes 1 page or more", f.pages)}
	}
	if c.Flags().Changed("since") {
		since, err := job.ParseDuration(f.since)
		if err != nil {
			return nil, usageError{fmt.Errorf("--since: %w", err)}
		}
		change.Since = time.Duration(since)
	}
	for _, pair := range f.set {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || change.Set[name] != "" {
			return nil, usageError{fmt.Errorf("--set %s: want name=value, each name once, as in topic=\"moka pot\"", pair)}
		}
		change.Set[name] = value
	}
	return change, nil
}

// changed applies overrides to what is to be run.
func changed(todo []errand, change *job.Overrides) error {
	if change == nil {
		return nil
	}
	for i := range todo {
		spec, err := todo[i].Spec.With(*change)
		if err != nil {
			return usageError{err}
		}
		todo[i].Spec = &spec
	}
	return nil
}

// telling performs what is to be done and tells of it: a person by summaries, and a
// program by a row for each run that has ended, while the summaries stand aside.
func (o *options) telling(ctx context.Context, config *job.Config, which func(*program) ([]errand, error)) error {
	if o.output == "table" {
		return o.runJobs(ctx, config, which)
	}
	aside := o.aside()
	failed := aside.runJobs(ctx, config, which)
	var rows [][]any
	for _, told := range aside.told {
		rows = append(rows, told.values())
	}
	if failed != nil && len(rows) == 0 {
		return failed // nothing ran
	}
	if err := o.rows(outcomeColumns, rows); err != nil {
		return worst([]error{failed, err})
	}
	return failed
}

// errand is one run that a command makes.
type errand struct {
	engine.Appointment
	old    *state.Run // the unfinished run that is continued; nil for a new one
	whole  bool       // what the job has unfinished, and does not go on with, comes before this run
	afresh bool       // an unfinished run is not continued
	after  bool       // the jobs that come after this one are run, too

	rest *engine.Rest // what the run buys of an earlier one; nil for all others
}

// scheduled reports whether a schedule asks for the run, and not a person.
func (e *errand) scheduled() bool { return !e.Due.IsZero() || e.Trigger == engine.CatchUp }

// idle says why there is nothing to run, which is no failure.
type idle string

func (why idle) Error() string { return string(why) }

// runJobs performs what is to be done and reports. The worst status of all runs
// decides the exit code; a run that cannot go on stops the rest only if the reason is
// not the job's own.
func (o *options) runJobs(ctx context.Context, config *job.Config, which func(*program) ([]errand, error)) error {
	return o.with(ctx, config, func(p *program) error {
		todo, err := which(p)
		if why, ok := errors.AsType[idle](err); ok {
			fmt.Fprintln(o.out, why)
			return nil
		}
		if err != nil {
			return err
		}
		var errs []error
		for len(todo) > 0 {
			next := todo[0]
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
			if ctx.Err() != nil {
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
func (o *options) interrupted(failed error, todo []errand) error {
	if failed == nil {
		return nil
	}
	var names []string
	for _, e := range todo {
		if e.scheduled() {
			names = []string{"--due"}
			break
		}
		if !slices.Contains(names, e.Spec.Name) {
			names = append(names, e.Spec.Name)
		}
	}
	line := o.typed("run " + strings.Join(names, " "))
	if flags := todo[0].Spec.Flags; flags != "" {
		line += " " + flags
	}
	if todo[0].after && !todo[0].scheduled() {
		line += " --with-after"
	}
	if todo[0].Spec.Dates != nil { // a backfill
		line = retyped(o.args)
	}
	return &cutShort{failed, "nothing that was paid for is lost. To go on from here:\n  " + line}
}

// typed is a command as it is typed here: with the job file, if that is another than usual.
func (o *options) typed(command string) string {
	line := "outlierd "
	if usual, _ := o.env("OUTLIERD_CONFIG"); o.config != cmp.Or(usual, "jobs.yaml") {
		line += "-c " + job.Quoted(o.config) + " "
	}
	return plain(line + command)
}

// following are the runs that come after one. Those of a due instant are owed, whatever
// becomes of the rest of its run; those of a run by hand follow if it ended well enough,
// and are due when that began, so that none is made twice for it.
func following(p *program, done errand, row *state.Run) (next []errand, err error) {
	switch {
	case !done.after || row == nil:
		return nil, nil
	case !row.Due.IsZero():
		owed, err := p.Owed(time.Now())
		if err != nil {
			return nil, err
		}
		owed = slices.DeleteFunc(owed, func(a *engine.Appointment) bool { return a.Spec.After != row.Job || !a.Due.Equal(row.Due) })
		return performing(owed), nil
	case !slices.Contains([]state.Status{state.OK, state.OKEmpty, state.Partial}, row.Status):
		return nil, nil
	}
	due := row.Started.Truncate(time.Microsecond) // as it is on record
	for i := range p.Config.Jobs {
		if spec := &p.Config.Jobs[i]; spec.After == row.Job && !spec.Disabled {
			next = append(next, errand{Appointment: engine.Appointment{Spec: spec, Due: due, Trigger: engine.After}, whole: true, after: true})
		}
	}
	return next, nil
}

// everybodys reports whether an error is not the job's own: the next job would only
// meet it again.
func everybodys(err error) bool {
	if _, short := errors.AsType[*state.LowSpaceError](err); short {
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
	refused, ok := errors.AsType[*outlier.Error](err)
	return ok && refused.Kind == outlier.Unauthorized
}

// runJob performs one run under the eyes of whoever watches, and returns its record,
// which is nil if it never began.
func (o *options) runJob(ctx context.Context, p *program, e errand) (*state.Run, error) {
	if e.rest != nil {
		fmt.Fprintln(o.out, beforeRest(p.Engine, e.Spec, e.rest))
		return o.perform(p, e, func() (*state.Run, error) { return p.BuyRest(ctx, e.Spec, e.rest) })
	}
	p.Afresh = e.afresh
	if e.old == nil && !e.scheduled() {
		var err error
		if e.old, err = p.Continues(e.Spec); err != nil {
			return nil, err
		}
	}
	if err := o.tellDisplaced(p, e); err != nil {
		return nil, err
	}
	fmt.Fprintln(o.out, beforehand(ctx, p.Engine, e.Spec, e.old))
	return o.perform(p, e, func() (*state.Run, error) {
		if e.old != nil {
			return p.Resume(ctx, e.Spec, e.Trigger, e.Due, e.old)
		}
		return p.Run(ctx, e.Spec, e.Trigger, e.Due)
	})
}

// perform makes a run and reports it.
func (o *options) perform(p *program, e errand, run func() (*state.Run, error)) (*state.Run, error) {
	stop := o.watch(p.Engine)
	row, failed := run()
	stop()
	if row != nil {
		if err := o.reportRun(p, row, failed); err != nil {
			return row, errors.Join(failed, err)
		}
	}
	if failed != nil {
		return row, ofJob(e.Spec.Name, failed)
	}
	if row.Status != state.OK && row.Status != state.OKEmpty {
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

// worst picks what the exit code is to tell: an error over a run that failed, that
// over one that was cut short, and that over a partial one. Errors are told all;
// the statuses beside them stand in the summaries already.
func worst(errs []error) error {
	var untold []error
	var status error
	rank := []state.Status{state.Partial, state.PausedQuota, state.PausedBudget, state.Failed}
	highest := -1
	for _, err := range errs {
		s, ok := errors.AsType[statusError](err)
		if !ok {
			untold = append(untold, err)
		} else if at := slices.Index(rank, s.Status); status == nil || at > highest {
			status, highest = err, at
		}
	}
	if len(untold) > 0 {
		return errors.Join(untold...)
	}
	return status
}

// jobsNamed finds the jobs that were asked for; without a name, the only one.
func jobsNamed(ctx context.Context, p *program, names []string) ([]errand, error) {
	config := p.Config
	if len(names) == 0 && len(config.Jobs) == 1 {
		return byHand(config.Jobs), nil
	}
	if len(names) == 0 {
		return nil, usageError{fmt.Errorf("%s has several jobs; name one, or say --all:\n%s", config.Path, priceList(ctx, p.Engine))}
	}
	var specs []job.Spec
	for _, name := range names {
		spec := config.Job(name)
		if spec == nil {
			return nil, usageError{fmt.Errorf("%w\nits jobs are:\n%s", noJob(config, name, ""), priceList(ctx, p.Engine))}
		}
		specs = append(specs, *spec)
	}
	return byHand(specs), nil
}

func byHand(specs []job.Spec) []errand {
	var all []errand
	for i := range specs {
		all = append(all, errand{Appointment: engine.Appointment{Spec: &specs[i], Trigger: engine.Manual}, whole: true})
	}
	return all
}

// dueNow are the runs that the last process left unfinished, those that jobs owe which come
// after others, and those of the instants that have passed.
func dueNow(p *program, now time.Time) ([]errand, error) {
	due, err := p.Owed(now)
	if err != nil {
		return nil, err
	}
	agenda, err := p.Agenda(now)
	if err != nil {
		return nil, err
	}
	for _, a := range agenda {
		if !a.Due.After(now) {
			due = append(due, a)
		}
	}
	todo, err := leftOver(p, due)
	if err != nil {
		return nil, err
	}
	return append(todo, performing(due)...), nil
}

// leftOver are the runs that the last process left unfinished, of jobs without a due
// instant: that would see to them itself.
func leftOver(p *program, due []*engine.Appointment) (todo []errand, err error) {
	for i := range p.Config.Jobs {
		spec := &p.Config.Jobs[i]
		isDue := func(a *engine.Appointment) bool { return a.Spec.Name == spec.Name }
		if spec.Disabled || slices.ContainsFunc(due, isDue) {
			continue
		}
		runs, err := p.LeftOver(spec)
		if err != nil {
			return nil, err
		}
		for j := range runs {
			a := engine.Appointment{Spec: spec, Trigger: engine.CatchUp}
			todo = append(todo, errand{Appointment: a, old: &runs[j], after: !runs[j].Due.IsZero()})
		}
	}
	return todo, nil
}

// performing are the runs of due instants.
func performing(due []*engine.Appointment) (todo []errand) {
	for _, a := range due {
		todo = append(todo, errand{Appointment: *a, whole: true, after: true})
	}
	return todo
}

// unfold are the runs that it takes to perform a due instant or a job by hand: what the job
// has unfinished goes on before. By hand the job's own unfinished run is what is performed.
// A due instant that has had its run meanwhile gives none.
func unfold(p *program, e errand) (todo []errand, err error) {
	done, err := p.Store.Performed(e.Spec.Name, e.Due)
	if done || err != nil {
		return nil, err
	}
	p.Afresh = false
	unfinished, err := p.Unfinished(e.Spec, e.Due)
	if err != nil {
		return nil, err
	}
	for i := range unfinished {
		old := &unfinished[i]
		if e.scheduled() || old.Overridden != e.Spec.Overridden {
			todo = append(todo, errand{Appointment: e.Appointment, old: old, after: !old.Due.IsZero()})
		}
	}
	e.whole = false
	return append(todo, e), nil
}

// tellDisplaced names the unfinished runs that a new one closes, and those that it leaves.
func (o *options) tellDisplaced(p *program, e errand) error {
	if e.old != nil || isOnce(e.Spec.Name) {
		return nil
	}
	closed, left, err := p.Displaced(e.Spec, e.Due)
	for i := range closed {
		if old := &closed[i]; old.Status != state.Failed {
			fmt.Fprintf(o.out, "%s: %s is not continued: a new run takes its place\n", old.Job, nameOfRun(p, old))
		}
	}
	for i := range left {
		old := &left[i]
		fmt.Fprintf(o.out, "%s: %s stays as it is. To go on with it:\n  %s\n", old.Job, nameOfRun(p, old),
			o.typed(strings.TrimPrefix(engine.Command(old), "outlierd ")))
	}
	return err
}

// nameOfRun is an unfinished run as people are told of it.
func nameOfRun(p *program, run *state.Run) string {
	name := "the run of " + run.Started.In(p.Config.Timezone).Format("2006-01-02 15:04")
	if flags := engine.Flags(run); flags != "" {
		name += " with " + flags
	}
	return fmt.Sprintf("%s (%s)", plain(name), run.Status)
}
