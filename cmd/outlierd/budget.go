package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func budgetCommand(o *options) *cobra.Command {
	return group("budget", "Let paid calls be made again",
		`What jobs may spend stands in the job file under budget; what was spent stands in
the table ops.credits and the view ops.spend_by_day.`,
		budgetResumeCommand(o))
}

func budgetResumeCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "resume", Short: "Make paid calls again after the service had refused them",
		Long: `When the service says that the account has no credits left, paid calls stop: until the
billing cycle turns, but for one call a day that tries. After you have bought credits,
this lets them go on at once. It also tries a key again that the service had refused.
Caps of the job file stay as they are.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			config, err := o.load()
			if err != nil {
				return err
			}
			return o.with(c.Context(), config, func(p *program) error {
				if err := p.ResumeSpending(); err != nil {
					return err
				}
				fmt.Fprintln(o.out, "paid calls are made again, within the caps of", config.Path)
				return nil
			})
		},
	}
}
