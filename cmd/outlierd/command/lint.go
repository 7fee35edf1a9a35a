package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/engine"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/yamltree"
)

func lintCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "lint",
		Short: "Check the job file and list every mistake",
		Long: `Check the job file and those that it includes, without a network and without changing the
state. All mistakes are listed with file, line and column, and the exit code is then 5. SQL is
checked against the declared tables. Likely mistakes are warnings, which do not change the exit
code.

The prices are those of a first run.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return errors.New("lint takes no file: name the job file with --config; the files that it includes are checked, too")
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			config, err := loadChecked(c.Context(), g.load)
			if err != nil {
				return err
			}
			find := seedsOnce(config)
			err = config.CheckLists(job.Inputs{Now: time.Now(), Assume: true, IDs: func(sql, column string) ([]string, error) {
				if find == nil { // without a duckdb sink there is nothing to query
					return nil, nil
				}
				return find(c.Context(), sql, column)
			}})
			if err != nil {
				return err
			}
			if err := adviseOnRuns(c.Context(), config); err != nil {
				return err
			}
			adviseOnTables(config)
			said := ""
			for _, w := range config.Warnings {
				said += fmt.Sprintf("warning: %s\n%s", w, w.Excerpt)
			}
			p := &program{Engine: &engine.Engine{Config: config, IDs: find}}
			if err := p.temporaryStore(c.Context()); err != nil {
				return errors.Join(err, p.Close())
			}
			defer p.Close() // what it removes is temporary
			r := p.forecasts()
			prices := priceList(c.Context(), r)
			month, worst, err := r.Month(c.Context())
			if err != nil {
				return err
			}
			report := linted{config.Path, append([]yamltree.Mistake{}, config.Warnings...), prices, worst, month, config.Budget.Scheduled()}
			_, takes := warehouseDisk(config)
			return g.out.print(report, "%s%s is fine. A run costs at most:\n  %s\n%sOn disk, %s.\n", said, config.Files(),
				strings.Join(prices, "\n  "), report.cycle(), takes)
		},
	}
}

// linted is the output of lint for programs.
type linted struct {
	File     string             `json:"file"`
	Warnings []yamltree.Mistake `json:"warnings"`
	Prices   []string           `json:"prices"` // of one run of each job, in words

	Worst   outlier.Credits  `json:"cycle_at_worst"` // of all scheduled runs in 31 days
	Cycle   []facts.JobMonth `json:"cycle"`          // the same by job
	Allowed *outlier.Credits `json:"cycle_allowed"`  // by the budget; null for no cap
}

// cycle says what the scheduled runs of a cycle cost, and whether that fits.
func (l *linted) cycle() string {
	if len(l.Cycle) == 0 {
		return ""
	}
	text := "The scheduled runs of a cycle of 31 days cost at most:\n"
	for _, j := range l.Cycle {
		costs := term.Count(j.Credits(), "credit")
		if j.Auto {
			costs = "what the other jobs leave"
		}
		if j.Auto && j.Cap != nil {
			costs += ", at most " + term.Count(*j.Cap, "credit")
		}
		text += fmt.Sprintf("  %s: %s, %s", j.Job, costs, term.Count(j.Runs, "run"))
		if whole := outlier.Credits(j.Runs) * j.Each; whole > j.Credits() {
			text += fmt.Sprintf("; its per_month allows %d of %d", j.Credits(), whole)
		}
		text += "\n"
	}
	switch {
	case l.Allowed == nil:
		return text + fmt.Sprintf("  in total %s; there is no cap\n", term.Count(l.Worst, "credit"))
	case l.Worst <= *l.Allowed:
		return text + fmt.Sprintf("  in total %d of %s: this fits\n", l.Worst, term.Count(*l.Allowed, "credit"))
	}
	return text + fmt.Sprintf("  in total %s, and the budget allows %d: this does not fit\n"+
		"Write fewer pages, let jobs run less often, or set budget: {pace: even}, which gives each run a share.\n",
		term.Count(l.Worst, "credit"), *l.Allowed)
}

// adviseOnRuns warns of jobs whose searches buy too little or the same again, by what their latest runs found. Without
// a state that can be read, it knows the job file only.
func adviseOnRuns(ctx context.Context, config *job.Config) error {
	seen, err := peek(ctx, config)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	known := err == nil
	if known {
		defer seen.Close() // read-only, so the error does not matter
	}
	for i := range config.Jobs {
		spec := &config.Jobs[i]
		warn := func(text, hint string) {
			text = fmt.Sprintf("jobs.%s: %s", spec.Name, text)
			config.Warnings = append(config.Warnings, config.Mistake(spec.At, text, hint))
		}
		var history forecast.History
		if known {
			if history, err = forecast.ReadHistory(seen, spec); err != nil {
				return err
			}
		}
		if order := config.StrongestAgain(spec); order != "" {
			text := fmt.Sprintf("sort: %s buys the same hits again, because the windows of its runs overlap", order)
			if known, hits, n := history.Known(); hits > 0 {
				text += fmt.Sprintf("; %d%% of the hits that its last runs (%d) bought were known (see ops.query_yield)",
					100*known/hits, n)
			}
			warn(text, fmt.Sprintf("write sort: published_at desc, with a threshold in where, and enrich: {sort: %s} for what is "+
				"fetched; docs/yield.md says why", order))
		}
		if limited := history.Limited(spec, config.Service.Prices); limited != nil {
			warn(report.Limited(limited), report.LimitedHint(limited))
		}
	}
	return nil
}

// sqlOfFile is SQL of a job file.
type sqlOfFile struct {
	name, sql string
	at        yamltree.Place
	check     func(query.Bound) error // what it must return
}

// listSQL returns all SQL of jobs, alerts, reports and questions.
func listSQL(config *job.Config) (all []sqlOfFile) {
	for i := range config.Jobs {
		for _, q := range config.Jobs[i].SQL() {
			all = append(all, sqlOfFile{"jobs." + config.Jobs[i].Name, q.SQL, q.At,
				func(bound query.Bound) error { return checkColumn(bound, q.IDColumn) }})
		}
	}
	for _, a := range config.Alerts {
		all = append(all, sqlOfFile{"alerts." + a.Name, a.SQL, a.At, func(bound query.Bound) error { return checkAlertKey(bound, a.Key) }})
	}
	for _, r := range config.Reports {
		if r.View == "" { // what is saved on the page is known when it is used
			all = append(all, sqlOfFile{"reports." + r.Name, r.SQL, r.At, query.Bound.Err})
		}
	}
	for _, q := range config.Questions {
		all = append(all, sqlOfFile{"questions." + q.Name, q.SQL, q.At, query.Bound.Err})
	}
	return all
}

// checkSQL binds all SQL of a job file against the declared, empty tables. Errors are mistakes of the file with their
// positions, and are found before anything is spent.
func checkSQL(ctx context.Context, config *job.Config) error {
	all, bound := listSQL(config), map[string]query.Bound{}
	for _, q := range all {
		bound[q.sql] = query.Bound{}
	}
	texts := slices.Sorted(maps.Keys(bound))
	for i, result := range (query.Process{Command: newAnswerer}).Bind(ctx, texts...) {
		bound[texts[i]] = result
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var found yamltree.Mistakes
	for _, q := range all {
		if err := q.check(bound[q.sql]); err != nil {
			found = append(found, config.Mistake(q.at, fmt.Sprintf("%s: %v", q.name, err),
				"`outlierd schema tables` lists the tables and their columns"))
		}
	}
	if found = append(found, checkBodies(config)...); len(found) > 0 {
		return found
	}
	return nil
}

// checkColumn returns an error if SQL cannot be bound, or lacks the required column.
func checkColumn(bound query.Bound, column string) error {
	if err := bound.Err(); err != nil {
		return err
	}
	_, err := query.Column(bound.Fields, column)
	return err
}

// loadChecked loads the job file and checks everything that needs neither state nor network, including SQL.
func loadChecked(ctx context.Context, load func() (*job.Config, error)) (*job.Config, error) {
	config, err := load()
	if err != nil {
		return nil, err
	}
	return config, checkSQL(ctx, config)
}

// adviseOnTables warns of views, and of SQL of the job file, that read what the file leaves out. It looks for the names
// of tables and columns, so a warning may be of another table's column.
func adviseOnTables(config *job.Config) {
	var all []sqlOfFile
	for _, v := range database.Views() {
		all = append(all, sqlOfFile{name: strings.TrimPrefix(v.Name, "main."), sql: v.SQL})
	}
	all = append(all, listSQL(config)...)
	for _, t := range config.Tables {
		var of, readers []string
		for _, r := range all {
			if !mentionsName(r.sql, t.Name) {
				continue
			}
			read := slices.DeleteFunc(slices.Clone(t.Without), func(c string) bool { return !mentionsName(r.sql, c) })
			if t.Off || len(read) > 0 {
				of, readers = append(of, read...), append(readers, r.name)
			}
		}
		what := "has no rows"
		if slices.Sort(of); !t.Off {
			what = strings.Join(slices.Compact(of), ", ") + " left out, so NULL"
		}
		if len(readers) > 0 {
			text := fmt.Sprintf("tables.%s: %s for %s", t.Name, what, strings.Join(slices.Compact(readers), ", "))
			config.Warnings = append(config.Warnings, config.Mistake(t.At, text, ""))
		}
	}
}

// mentionsName reports whether SQL has a name as a word.
func mentionsName(sql, name string) bool {
	return regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(name) + `\b`).MatchString(sql)
}
