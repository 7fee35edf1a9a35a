package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/facts"
	"outlierd/sync/job"
)

// runFlags are the flags of `run`.
type runFlags struct {
	all, due, reserve, withAfter bool
	rest, resume, cancel         string
	change                       job.Overrides
}

func runCommand(g *globals) *cobra.Command {
	f := runFlags{change: job.Overrides{Set: map[string]string{}}}
	c := &cobra.Command{
		Use:   "run [JOB…]",
		Short: "Run jobs now, one after another",
		Long: `Run jobs now, one after another. Without a name it runs the only job; if there are several,
it lists them with their worst-case cost. @TAG stands for the jobs with a tag.

A run that was killed, stopped or paused by a cap within the last day is continued: no
page is bought twice. The exit code is the result of the run: 0 ok, 3 partial (some calls
failed and stay queued), 4 stopped by a budget or the rate limit, 1 failed, 7 the key was
refused.

--pages, --since, --set, --no-enrich and --again change a job for this run only: the job's
cursor and its unfinished run stay as they are.

While 'outlierd up' runs, it performs the run, before its own, and this command shows the
progress. ^C then detaches from the run; --cancel stops it between two calls.`,
		Example: `  outlierd run coffee
  outlierd run coffee --set topic="moka pot" --pages 1 --no-enrich
  outlierd run coffee --with-after`,
		RunE: func(c *cobra.Command, names []string) error { return startRuns(c, g, &f, names) },
	}
	flags := c.Flags()
	flags.BoolVar(&f.all, "all", false, "run every job of the file that is enabled")
	flags.BoolVar(&f.due, "due", false,
		"run due jobs, those after them, and unfinished runs; for an external scheduler such as a CronJob")
	flags.BoolVar(&f.reserve, "use-reserve", false, "let this run spend the reserve of the budget")
	g.spending.addFlags(c)
	flags.BoolVar(&f.withAfter, "with-after", false,
		"also run the jobs that come after it, if it ends ok or partial")
	flags.IntVar(&f.change.Pages, "pages", 0, "buy at most this many pages of each search")
	flags.Func("since", "search from this long ago, such as 90d, in place of published_at", func(text string) (err error) {
		f.change.Since, err = job.ParseDuration(text)
		return err
	})
	flags.BoolVar(&f.change.NoEnrich, "no-enrich", false, "do not fetch anything about the hits")
	flags.BoolVar(&f.change.Again, "again", false,
		"buy again what is still fresh (reuse_for, refresh_after of seeds), and a scan even if it is live")
	flags.BoolVar(&f.change.MoveCursor, "move-cursor", false, "move the job's cursor although flags change the run")
	flags.Func("set", "one value for a for_each name, as in topic=\"moka pot\"; repeatable", func(pair string) error {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || f.change.Set[name] != "" {
			return errors.New("must be name=value, each name once, as in topic=\"moka pot\"")
		}
		f.change.Set[name] = value
		return nil
	})
	flags.StringVar(&f.rest, "rest", "", "buy the pages that the searches of an earlier `RUN` left")
	flags.StringVar(&f.resume, "continue", "", "continue the unfinished `RUN`, under its flags")
	flags.StringVar(&f.cancel, "cancel", "", "stop the run of a job, or a run by its id, "+
		"in 'outlierd up': `JOB-or-RUN`")
	for i, one := range chosen {
		exclude(c, one, slices.Concat(chosen[i+1:], overridingFlags, []string{"with-after", "move-cursor"})...)
	}
	exclude(c, "cancel", "use-reserve", "yes", "dry-run", "max-credits")
	exclude(c, "due", "dry-run") // 'outlierd plan' shows what is due and costs
	return c
}

// chosen are the flags that say what to run in place of names.
var chosen = []string{"all", "due", "rest", "continue", "cancel"}

// overridingFlags change a job for one run.
var overridingFlags = []string{"pages", "since", "set", "no-enrich", "again"}

func startRuns(c *cobra.Command, g *globals, f *runFlags, names []string) error {
	for _, name := range chosen {
		switch flag := c.Flags().Lookup(name); {
		case flag.Changed && flag.Value.String() == "":
			return usageError{fmt.Errorf("--%s needs the id of a run", name)}
		case flag.Changed && len(names) > 0:
			return usageError{fmt.Errorf("--%s takes no names of jobs, got %s", name, strings.Join(names, ", "))}
		}
	}
	if f.cancel != "" {
		return cancelRun(c.Context(), g, f.cancel)
	}
	change, err := f.readOverrides(c)
	if err != nil {
		return err
	}
	config, err := loadChecked(c.Context(), g.load)
	if err != nil {
		return err
	}
	return reportJobs(c.Context(), g, config, func(r *runner) ([]jobRun, error) {
		todo, err := f.listRuns(c.Context(), r, names, change)
		for i := range todo {
			todo[i].UseReserve = f.reserve
		}
		if err == nil && len(todo) == 0 {
			err = idle("") // cron would mail a line
		}
		return todo, err
	})
}

// listRuns returns the runs to perform.
func (f *runFlags) listRuns(ctx context.Context, r *runner, names []string, change *job.Overrides) ([]jobRun, error) {
	p := r.p
	switch {
	case f.rest != "":
		return restOf(ctx, p, f.rest)
	case f.resume != "":
		return continueRun(p, f.resume)
	case f.due && p.daemon != nil:
		return nil, nil // the daemon runs what is due
	case f.due:
		r.due, r.tried = time.Now(), map[string]bool{}
		return r.listDue()
	case f.all:
		disabled := func(s job.Spec) bool { return s.Disabled }
		return byHand(slices.DeleteFunc(slices.Clone(p.Engine.Config.Jobs), disabled)), nil
	}
	todo, err := jobsNamed(ctx, p, names)
	if err != nil {
		return nil, err
	}
	for i := range todo {
		todo[i].withAfter = f.withAfter
	}
	return todo, applyOverrides(todo, change)
}

// readOverrides returns the overrides on the command line, or nil.
func (f *runFlags) readOverrides(c *cobra.Command) (*job.Overrides, error) {
	switch any := slices.ContainsFunc(overridingFlags, c.Flags().Changed); {
	case !any && f.change.MoveCursor:
		return nil, usageError{errors.New("--move-cursor needs --pages, --since, --set, --no-enrich or --again; " +
			"any other run moves the cursor anyway")}
	case !any:
		return nil, nil
	case c.Flags().Changed("pages") && f.change.Pages == 0:
		return nil, usageError{errors.New("--pages must be at least 1, got 0")}
	}
	return &f.change, nil
}

// applyOverrides applies overrides to the runs.
func applyOverrides(todo []jobRun, change *job.Overrides) error {
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

// jobsNamed returns the named jobs; without a name, the only one.
func jobsNamed(ctx context.Context, p *program, names []string) ([]jobRun, error) {
	config := p.Engine.Config
	if len(names) == 0 && len(config.Jobs) == 1 {
		return byHand(config.Jobs), nil
	}
	if len(names) == 0 {
		return nil, usageError{fmt.Errorf("%s has several jobs; name one, or pass --all:\n  %s",
			config.Path, strings.Join(priceList(ctx, p.forecasts()), "\n  "))}
	}
	names, err := expandTags(config, names, refuseDisabled)
	if err != nil {
		return nil, err
	}
	var specs []job.Spec
	for _, name := range names {
		spec := config.Job(name)
		if spec == nil {
			return nil, usageError{fmt.Errorf("%w\nthe jobs are:\n  %s",
				noJob(config, name, ""), strings.Join(priceList(ctx, p.forecasts()), "\n  "))}
		}
		specs = append(specs, *spec)
	}
	return byHand(specs), nil
}

// refuseDisabled returns an error for a job that runs by its name only.
func refuseDisabled(spec *job.Spec) error {
	if spec.Disabled {
		return usageError{fmt.Errorf("job %s is disabled: it runs by its name only", spec.Name)}
	}
	return nil
}

// restOf returns the run that buys what the searches of another left.
func restOf(ctx context.Context, p *program, id string) ([]jobRun, error) {
	row, err := runNamed(p, id)
	if err != nil {
		return nil, err
	}
	spec := facts.RestSpec(p.Engine.Config, row)
	if spec == nil {
		return nil, noJob(p.Engine.Config, row.Job, ", whose caps apply to the run")
	}
	_, err = p.forecasts().Next(ctx, spec, false)
	if isA[*facts.NothingLeftError](err) {
		if p.daemon == nil && p.Engine.Line.Warehouse != nil { // the process that bought it may have been killed at its very end
			if err := p.Engine.Publish(ctx); err != nil {
				return nil, err
			}
		}
		return nil, idle(err.Error())
	}
	return []jobRun{{Order: engine.Order{Spec: spec, Trigger: engine.Manual}}}, err
}

// continueRun returns the run that continues an unfinished one.
func continueRun(p *program, id string) ([]jobRun, error) {
	row, err := runNamed(p, id)
	if err != nil {
		return nil, err
	}
	spec, err := facts.ResumedSpec(p.Engine.Config, row)
	if err != nil {
		return nil, err
	}
	if spec == nil {
		return nil, noJob(p.Engine.Config, row.Job, ", whose caps apply to the run")
	}
	old, err := p.Engine.Facts().Resumed(spec, row.ID, time.Time{})
	if err != nil {
		return nil, err
	}
	if old == nil {
		return nil, usageError{fmt.Errorf("run %s of %s is %s, and nothing of it can be continued: it has ended, has "+
			"reached its own cap, or is too old", row.ID, row.Job, row.Status)}
	}
	return []jobRun{{Order: engine.Order{Spec: spec, Trigger: engine.Manual, Old: old}, byID: true}}, nil
}

func backfillCommand(g *globals) *cobra.Command {
	var dates job.Backfill
	var noEnrich bool
	c := &cobra.Command{
		Use:   "backfill JOB",
		Short: "Search older publication dates of a job, newest first",
		Long: `Search publication dates before those of a search or related job, one window after the
other, newest first, with the job's number of pages. Dates that the job or an earlier
backfill covered are not bought again, and the job's cursor stays where it is.

The same command continues an interrupted backfill within its cap. Once the cap is reached,
the same command spends up to as much again on what is left.`,
		Example: `  outlierd backfill coffee --from 2026-01-01 --to 2026-06-30 --max-credits 40
  outlierd backfill coffee --from 2026-06-01 --to 2026-06-30 --each week --max-credits 20`,
		RunE: func(c *cobra.Command, names []string) error {
			config, err := loadChecked(c.Context(), g.load)
			if err != nil {
				return err
			}
			named := config.Job(names[0])
			if named == nil {
				return noJob(config, names[0], "")
			}
			dates.Most = outlier.Credits(g.spending.most)
			spec, err := named.With(job.Overrides{NoEnrich: noEnrich, Backfill: &dates})
			if err != nil {
				return usageError{err}
			}
			err = reportJobs(c.Context(), g, config, func(r *runner) ([]jobRun, error) {
				plan, _, err := r.p.forecasts().WorstCase(c.Context(), &spec, false)
				if err != nil {
					return nil, err
				}
				old, err := r.p.Engine.Facts().Continues(&spec)
				if err != nil {
					return nil, err
				}
				if len(plan.Steps) == 0 && old == nil {
					return nil, idle(fmt.Sprintf("%s: all of %s..%s is covered already", spec.Name, dates.From, dates.To))
				}
				if old == nil {
					fmt.Fprintf(g.world.err, "%s: searches of %s back to %s: %d\n", spec.Name,
						plan.Steps[0].Window, plan.Steps[len(plan.Steps)-1].Window, len(plan.Steps))
				}
				return []jobRun{{Order: engine.Order{Spec: &spec, Trigger: engine.Manual}}}, nil
			})
			if exitCode(c.Context(), err) == exitBudget {
				fmt.Fprintln(g.world.err, "To continue, repeat the command when the budget allows; what is covered is not bought again")
			}
			return err
		},
	}
	flags := c.Flags()
	flags.StringVar(&dates.From, "from", "", "the first publication date, such as 2026-01-01; required")
	flags.StringVar(&dates.To, "to", "", "the last publication date; required")
	flags.StringVar(&dates.Each, "each", "month", "the length of a window: "+strings.Join(job.Windows, ", "))
	completeFlag(c, "each", job.Windows...)
	flags.BoolVar(&noEnrich, "no-enrich", false, "do not fetch anything about the hits")
	g.spending.addFlags(c)
	for _, name := range []string{"from", "to", "max-credits"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // there is no such flag
		}
	}
	return c
}
