package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

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

// restOf is the run that buys what the searches of another left. The job need not be named.
func restOf(ctx context.Context, p *program, names []string, id string) ([]errand, error) {
	row, err := p.Store.Run(id)
	if err != nil {
		return nil, err
	}
	if row == nil {
		return nil, usageError{fmt.Errorf("--rest %s: no such run is on record; the summary of a run and ops.runs have its id", id)}
	}
	if len(names) > 0 && names[0] != row.Job {
		return nil, usageError{fmt.Errorf("--rest %s: the run is one of job %s, not of %s", id, row.Job, names[0])}
	}
	spec := restSpec(p, row)
	if spec == nil {
		return nil, usageError{fmt.Errorf("--rest %s: %s has no job %q any more, whose caps hold for it", id, p.Config.Path, row.Job)}
	}
	rest, err := p.Rest(spec, row)
	if err != nil {
		return nil, err
	}
	if rest.Nothing() {
		if err := p.Publish(ctx); err != nil { // what bought it may have been killed at its very end
			return nil, err
		}
		text := fmt.Sprintf("nothing is left of run %s", id)
		if rest.After != id {
			text += fmt.Sprintf(": run %s has bought the rest", rest.After)
		}
		return nil, idle(text)
	}
	return []errand{{Appointment: engine.Appointment{Spec: spec, Trigger: engine.Manual}, rest: rest}}, nil
}

// restSpec is the job of a run that buys the rest of another: that of the file, for its
// caps, or for what was asked for once one without caps of its own; nil if it is in no file.
func restSpec(p *program, row *state.Run) *job.Spec {
	spec := &job.Spec{Name: row.Job}
	if !isOnce(row.Job) {
		if spec = p.Config.Job(row.Job); spec == nil {
			return nil
		}
	}
	own := *spec
	own.Overridden, own.Flags = true, engine.RestFlags(row.ID)
	return &own
}

// agedAfter is the age from which on the service's results have probably another order.
const agedAfter = 24 * time.Hour

// beforeRest tells what the rest of a run costs at most.
func beforeRest(e *engine.Engine, spec *job.Spec, rest *engine.Rest) string {
	line := fmt.Sprintf("%s: the rest of the run of %s: %s", shown(spec.Name),
		rest.Of.Started.In(e.Config.Timezone).Format("2006-01-02 15:04 MST"), costText(e, rest.Cost))
	if rest.Run != nil {
		line += "\n  continuing run " + rest.Run.ID
	}
	if age := time.Since(rest.Began()); !rest.Began().IsZero() && age > agedAfter {
		line += fmt.Sprintf("\n  page one was bought %d days ago: the order may have changed since, so that hits repeat or are missing",
			int(age.Hours()/24))
	}
	return line
}
