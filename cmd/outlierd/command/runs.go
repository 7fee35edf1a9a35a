package command

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/sync/engine"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// statuses are the statuses that runs can be filtered by.
var statuses = []string{
	string(runs.Running), string(runs.OK), string(runs.OKEmpty), string(runs.Partial), string(runs.PausedBudget),
	string(runs.PausedQuota), string(runs.Failed), string(runs.Interrupted),
}

func runsCommand(g *globals) *cobra.Command {
	var filter runs.Filter
	limit := firstRuns
	c := &cobra.Command{
		Use: "runs [RUN]", Short: "List runs, or show one with its searches and calls",
		Long: `List runs, newest first, or show one run: its searches with their pages, its calls by
operation, the time they waited for the rate limit, credits, rows by table, and why the run
stopped. RUN is a run's id or the beginning of one.

The table ops.runs has every run, too.`,
		Example: `  outlierd runs --job coffee --status failed
  outlierd runs 01a204a9-80a2-7f39
  outlierd runs --limit 0 -o ndjson`,
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 0 {
				return usageError{fmt.Errorf("--limit must be 0 or more, got %d", limit)}
			}
			if filter.Status != "" {
				if err := refuseOther("--status", string(filter.Status), statuses); err != nil {
					return err
				}
			}
			if len(args) > 0 {
				return showRun(c, g, args[0])
			}
			return g.withState(c.Context(), toRead, func(_ context.Context, p *program) error {
				if err := refuseUnknown(p, filter.Job); err != nil {
					return err
				}
				newest := first(p.Engine.Store.Runs.Newest(filter), limit)
				return printList(g.out, newest, runColumns, func(r *runs.Run) []any { return runRow(r, g.out.wide) })
			})
		},
	}
	c.Flags().StringVar(&filter.Job, "job", "", "only runs of this job")
	c.Flags().StringVar((*string)(&filter.Status), "status", "", "only runs with this status: "+term.OneOf(statuses))
	c.Flags().IntVar(&limit, "limit", limit, "list at most this many runs; 0 for all")
	return c
}

// firstRuns is the default of --limit.
const firstRuns = 20

// runColumns are the columns of the list of runs.
var runColumns = []string{"run", "job", "status", "started_at", "took", "hits", "new", "credits", "error"}

// runRow returns the row of a run in the list.
func runRow(r *runs.Run, wide bool) []any {
	id, took := r.ID, any(nil)
	if !wide {
		id = report.ShortID(id)
	}
	if !r.Ended.IsZero() {
		took = term.Duration(r.Ended.Sub(r.Started))
	}
	return []any{id, job.Shown(r.Job), string(r.Status), r.Started, took, r.Hits, r.NewHits, int64(r.Credits), r.Error}
}

// showRun shows the run whose id begins with a prefix.
func showRun(c *cobra.Command, g *globals, prefix string) error {
	for _, name := range []string{"job", "status", "limit"} {
		if c.Flags().Changed(name) {
			return usageError{fmt.Errorf("--%s filters the list of runs, and %s names one run", name, prefix)}
		}
	}
	if !isPrefix.MatchString(prefix) {
		return usageError{fmt.Errorf("%q is not a run id, such as 01a204a9-80a2-7f39; "+
			"list the runs of a job with --job", prefix)}
	}
	return g.withState(c.Context(), toRead, func(_ context.Context, p *program) error {
		row, err := runNamed(p, strings.ToLower(prefix))
		if err != nil {
			return err
		}
		d, err := describeRun(p, row)
		if err != nil {
			return err
		}
		return g.out.print(d, "%s", report.RunDetails(d, g.out.look()))
	})
}

// isPrefix matches the beginning of an id.
var isPrefix = regexp.MustCompile(`^[0-9A-Fa-f-]+$`)

// runNamed returns the only run whose id begins with a prefix.
func runNamed(p *program, prefix string) (*runs.Run, error) {
	const most = 5
	all, err := p.Engine.Store.Runs.Named(prefix, most)
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, usageError{fmt.Errorf("no run id begins with %s; 'outlierd runs' lists them", prefix)}
	case len(all) == 1 || all[0].ID == prefix:
		return &all[0], nil
	}
	var lines []string
	for i := range all {
		lines = append(lines, fmt.Sprintf("  %s  %s", all[i].ID, job.Shown(all[i].Job)))
	}
	if len(all) == most {
		lines[most-1] = "  …"
	}
	return nil, usageError{fmt.Errorf("several run ids begin with %s:\n%s", prefix, strings.Join(lines, "\n"))}
}

// describeRun reads the records of a run, and how its searches ended.
func describeRun(p *program, row *runs.Run) (*report.Run, error) {
	d, err := runOf(p.Engine.Store, row)
	if err == nil && row.Status != runs.Running {
		d.Endings, err = engine.Endings(p.Engine.Facts(), row)
	}
	return d, err
}

// runOf reads the records of a run. For a run that has not ended, it computes the sums.
func runOf(store *state.Store, row *runs.Run) (*report.Run, error) {
	steps, err := store.Steps.OfRun(row.ID)
	if err != nil {
		return nil, err
	}
	spent, err := store.Ledger.Spent(row.ID)
	if err != nil {
		return nil, err
	}
	d := &report.Run{Run: *row, Unknown: spent.Unknown, Searches: []report.Search{}}
	for _, calls := range row.Fresh {
		d.Skipped += calls
	}
	if d.Status == runs.Running {
		for i := range steps {
			s := &steps[i]
			d.Pages, d.Hits, d.NewHits = d.Pages+int64(s.Pages), d.Hits+int64(s.Hits), d.NewHits+int64(s.NewHits)
		}
		d.Requests, d.Waited.Duration = spent.Requests, spent.Waited
		d.Credits, d.Refunded = spent.Charged+spent.Unknown, spent.Refunded
	}
	if d.Flags = facts.Flags(row); d.Flags == "" && row.Plan != nil && row.Plan.Backfill != nil {
		d.Flags = row.Plan.Flags
	}
	for i := range steps {
		d.Searches = append(d.Searches, report.NewSearch(steps[i]))
	}
	if d.Calls, err = store.Calls.ByOperation(row.ID); err != nil {
		return nil, err
	}
	d.Queued, err = store.Queue.Queued(queue.Filter{Job: row.Job})
	return d, err
}
