package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
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
	bound := bindAll(ctx, config)
	if err := ctx.Err(); err != nil {
		return err
	}
	var found yamltree.Mistakes
	refuse := func(line, column int, name string, err error) {
		if err != nil {
			found = append(found, config.Mistake(line, column, fmt.Sprintf("%s: %v", name, err),
				"`outlierd schema tables` lists the tables and their columns"))
		}
	}
	for i := range config.Jobs {
		spec := &config.Jobs[i]
		for _, q := range spec.SQL() {
			refuse(q.Line, q.Column, "jobs."+spec.Name, checkColumn(bound[q.SQL], q.IDColumn))
		}
	}
	for _, a := range config.Alerts {
		refuse(a.Line, a.Column, "alerts."+a.Name, checkAlertKey(bound[a.SQL], a.Key))
	}
	for _, q := range config.Questions {
		refuse(q.Line, q.Column, "questions."+q.Name, bound[q.SQL].Err())
	}
	found = append(found, checkBodies(config)...)
	if len(found) > 0 {
		return found
	}
	return nil
}

// bindAll binds all SQL of a job file, and returns the results by its text.
func bindAll(ctx context.Context, config *job.Config) map[string]query.Bound {
	bound := map[string]query.Bound{}
	for i := range config.Jobs {
		for _, q := range config.Jobs[i].SQL() {
			bound[q.SQL] = query.Bound{}
		}
	}
	for _, a := range config.Alerts {
		bound[a.SQL] = query.Bound{}
	}
	for _, q := range config.Questions {
		bound[q.SQL] = query.Bound{}
	}
	texts := slices.Sorted(maps.Keys(bound))
	for i, result := range (query.Process{Command: answerer}).Bind(ctx, texts...) {
		bound[texts[i]] = result
	}
	return bound
}

// checkColumn returns an error if SQL cannot be bound, or lacks the required column.
func checkColumn(bound query.Bound, column string) error {
	if err := bound.Err(); err != nil {
		return err
	}
	_, err := query.Column(bound.Fields, column)
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
