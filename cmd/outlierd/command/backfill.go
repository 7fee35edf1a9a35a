package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/job"
)

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
