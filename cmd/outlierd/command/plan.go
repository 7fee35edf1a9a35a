package command

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/outlier"
	"outlierd/sync/job"
)

func planCommand(g *globals) *cobra.Command {
	var whatIf string
	c := &cobra.Command{
		Use:   "plan [JOB…]",
		Short: "Show what the next runs will do and cost, offline",
		Long: `Show what the next run of each job will do, what it will cost in credits, requests and
minutes, and the forecast for the billing cycle. It uses the same rules as the run itself,
sends nothing and changes nothing.

  expected  the average of the job's last ten runs
  at worst  if every page is full; answers that are lost and requested again can cost
            more, up to the cap of the run

A share of the month (budget.pace: even) applies to scheduled runs; a run by hand may spend
all that the job asks for. SQL may find more by the time of the run.

@TAG stands for the jobs with a tag.`,
		Example: `  outlierd plan
  outlierd plan coffee
  outlierd plan --what-if per_month=400
  outlierd plan -o json | jq '.jobs[] | {job, worst}'`,
		RunE: func(c *cobra.Command, names []string) error {
			config, err := loadChecked(c.Context(), g.loadToRead)
			if err != nil {
				return err
			}
			if err := assumeBudget(config, whatIf); err != nil {
				return usageError{err}
			}
			if names, err = expandTags(config, names, anyJob); err != nil {
				return err
			}
			for _, name := range names {
				if config.Job(name) == nil {
					return noJob(config, name, "")
				}
			}
			return g.with(c.Context(), config, toRead, func(p *program) error {
				f, err := p.forecasts().Forecast(c.Context(), names...)
				if err != nil {
					return err
				}
				return g.out.print(f, "%s", report.Plan(f, config.Timezone, len(names) == 0))
			})
		},
	}
	c.Flags().StringVar(&whatIf, "what-if", "", "assume another budget, as in per_month=400")
	return c
}

// assumeBudget changes the budget as --what-if says.
func assumeBudget(config *job.Config, text string) error {
	if text == "" {
		return nil
	}
	amount, isMonth := strings.CutPrefix(text, "per_month=")
	n, err := strconv.ParseInt(amount, 10, 64)
	if !isMonth || err != nil || job.CheckCredits(n) != nil {
		return fmt.Errorf("--what-if must be per_month=CREDITS, such as per_month=400, got %q", text)
	}
	config.Budget.PerMonth = new(outlier.Credits(n))
	return nil
}
