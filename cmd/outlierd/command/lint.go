package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/state"
	"outlierd/sync/yamltree"
)

func lintCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "lint",
		Short: "Check the job file and list every mistake",
		Long: `Check the job file without a network and without changing the state. All mistakes are
listed with file, line and column, and the exit code is then 5. SQL is checked against the
declared tables. Likely mistakes are warnings, which do not change the exit code. There is
also a warning if "pages" cut off all of a job's latest runs. With -o json mistakes and
warnings are lists with file, line, column, message and hint.

The prices are those of a first run. Later runs can cost less, because pages are fresh and
windows are shorter.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			config, err := sound(c.Context(), o.load)
			if err != nil {
				return err
			}
			if err := adviseOnPages(c.Context(), config); err != nil {
				return err
			}
			said := ""
			for _, w := range config.Warnings {
				said += fmt.Sprintf("warning: %s\n%s", w, w.Excerpt)
			}
			r := &forecast.Reader{Facts: &facts.Reader{Config: config, IDs: seedsOnce(config)}}
			prices := priceList(c.Context(), r)
			worst, err := r.WorstCycle(c.Context())
			if err != nil {
				return err
			}
			lines := strings.Split(strings.TrimPrefix(strings.ReplaceAll(prices, "\n  ", "\n"), "  "), "\n")
			report := linted{config.Path, mistakesOf(config.Warnings), lines, worst}
			if most := available(config); most != nil && worst > *most {
				prices += fmt.Sprintf("\nAll scheduled runs of a cycle of 31 days cost at most %s. "+
					"The budget allows %d.", term.Count(worst, "credit"), *most)
			}
			return o.done(report, "%s%s is fine. A run costs at most:\n%s\n", said, config.Path, prices)
		},
	}
}

// linted is the output of lint for programs.
type linted struct {
	File     string    `json:"file"`
	Warnings []mistake `json:"warnings"`
	Prices   []string  `json:"prices"` // of one run of each job, in words

	Worst outlier.Credits `json:"cycle_at_worst"` // of all scheduled runs in 31 days
}

// adviseOnPages warns about each job whose `pages` cut off hits in its latest runs. It is silent if
// there is no state or it cannot be read.
func adviseOnPages(ctx context.Context, config *job.Config) error {
	seen, err := state.Peek(ctx, filepath.Join(config.Data, "state"), stateOptions(config))
	if err != nil {
		return ctx.Err()
	}
	r := &forecast.Reader{Facts: &facts.Reader{Config: config, Store: seen}}
	for i := range config.Jobs {
		spec := &config.Jobs[i]
		limited, failed := r.Limited(spec)
		if failed != nil {
			err = errors.Join(err, failed)
		} else if limited != nil {
			text := fmt.Sprintf("jobs.%s: %s", spec.Name, limitedText(limited))
			config.Warnings = append(config.Warnings,
				config.Mistake(spec.Line, spec.Column, text, limitedHint(limited)))
		}
	}
	return errors.Join(err, seen.Close())
}

// checkSQL binds all SQL of jobs, alerts and questions against the declared, empty tables. Errors are
// mistakes of the file with their positions, and are found before anything is spent.
func checkSQL(ctx context.Context, config *job.Config) error {
	var found yamltree.Mistakes
	for i := range config.Jobs {
		spec := &config.Jobs[i]
		for _, query := range spec.SQL() {
			if err := bindable(ctx, query); err != nil {
				found = append(found, config.Mistake(query.Line, query.Column,
					fmt.Sprintf("jobs.%s: %v", spec.Name, err),
					"`outlierd schema tables` lists the tables and their columns"))
			}
		}
	}
	found = append(found, checkAlerts(ctx, config)...)
	for _, q := range config.Questions {
		if _, err := (query.Process{Command: answerer}).Bind(ctx, q.SQL); err != nil {
			found = append(found, config.Mistake(q.Line, q.Column, fmt.Sprintf("questions.%s: %v", q.Name, err),
				"`outlierd schema tables` lists the tables and their columns"))
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	found = append(found, checkBodies(config)...)
	if len(found) > 0 {
		return found
	}
	return nil
}

// bindable returns an error if a query cannot be bound, or lacks the required column.
func bindable(ctx context.Context, q job.Query) error {
	fields, err := query.Process{Command: answerer}.Bind(ctx, q.SQL)
	if err == nil {
		_, err = query.Column(fields, q.IDColumn)
	}
	return err
}

// sound loads the job file and checks everything that needs neither state nor network, including SQL.
func sound(ctx context.Context, load func() (*job.Config, error)) (*job.Config, error) {
	config, err := load()
	if err != nil {
		return nil, err
	}
	return config, checkSQL(ctx, config)
}
