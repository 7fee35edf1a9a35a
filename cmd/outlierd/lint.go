package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func lintCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "lint",
		Short: "Check the job file; every mistake with its place",
		Long: `Check the job file without touching anything: no network, no state. Every mistake
is told at once, with file, line and column, and the exit code is then 5.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			config, err := o.load()
			if err != nil {
				return err
			}
			fmt.Fprintf(o.out, "%s is fine. A run costs at most:\n%s\n", config.Path, priceList(config))
			return nil
		},
	}
}
