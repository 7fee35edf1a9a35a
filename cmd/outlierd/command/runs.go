package command

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/engine"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
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
				newest, err := p.Engine.Store.Runs.List(filter, limit)
				if err != nil {
					return err
				}
				return printList(g.out, newest, runColumns, func(r runs.Run) []any { return runRow(r, g.out.wide) })
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
func runRow(r runs.Run, wide bool) []any {
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
		row, err := runNamed(p, prefix)
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
	const maxShown = 5
	prefix = strings.ToLower(prefix)
	all, err := p.Engine.Store.Runs.Named(prefix, maxShown)
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
	if len(all) == maxShown {
		lines[maxShown-1] = "  …"
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

// runOf reads the records of a run.
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

func whyCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "why VIDEO_ID|URL",
		Short: "Show which searches found a video, and what it cost",
		Long: `Show which job, run, search, page and rank found a video or a channel, given by id or
address, earliest first; which calls about it and its channel followed; and what each cost
in credits, and how long they waited for the rate limit.

A page has one price for all its hits, so the price is shown with their number.`,
		Example: `  outlierd why dQw4w9WgXcQ
  outlierd why https://youtu.be/dQw4w9WgXcQ -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			id, err := parseAnyID(args[0])
			if err != nil {
				return usageError{err}
			}
			return g.withState(c.Context(), toRead, func(ctx context.Context, p *program) error {
				why, err := originOf(ctx, p.Engine.Store, published(p.Engine.Config), id)
				if err != nil {
					return err
				}
				if err := explainUnfinished(why, p.Engine.Facts()); err != nil {
					return err
				}
				return g.out.print(why, "%s", report.Why(why, g.out.zone))
			})
		},
	}
}

// parseAnyID parses the id of a video or a channel.
func parseAnyID(text string) (string, error) {
	id, err := outlier.ParseVideoID(text)
	if err == nil {
		return id, nil
	}
	if channel, other := outlier.ParseChannelID(text); other == nil {
		return channel, nil
	}
	return "", err
}

// originOf collects the records of an id, and for a video those of its channel. The titles come from the published
// file, if there is one.
func originOf(ctx context.Context, store *state.Store, path, id string) (*report.Origin, error) {
	why := &report.Origin{ID: id, Sightings: []report.Sighting{}, Calls: []ledger.Call{}, Waiting: []queue.Waiting{}}
	times, err := store.Hits.Sightings(id)
	if err != nil {
		return nil, err
	}
	if why.Imported, err = store.Hits.ImportOf(id); err != nil {
		return nil, err
	}
	ids := []string{id}
	for _, seen := range times {
		one := report.NewSighting(seen)
		if one.Rule, err = ruleOf(store, &seen); err != nil {
			return nil, err
		}
		why.Sightings = append(why.Sightings, one)
		if seen.Channel != "" && !slices.Contains(ids, seen.Channel) {
			ids = append(ids, seen.Channel)
		}
	}
	for _, id := range ids {
		calls, err := store.Calls.About(id)
		if err != nil {
			return nil, err
		}
		why.Calls = append(why.Calls, calls...)
	}
	slices.SortStableFunc(why.Calls, func(a, b ledger.Call) int { return a.AnsweredAt.Compare(b.AnsweredAt) })
	waiting, err := store.Queue.PendingFor(ids...)
	if err != nil {
		return nil, err
	}
	why.Waiting = append(why.Waiting, waiting...)
	if len(why.Sightings)+len(why.Calls)+len(why.Waiting) == 0 && why.Imported == nil {
		return nil, fmt.Errorf("%s is not in this data folder: no search found it, and no call requested it", id)
	}
	if isMissing(path) {
		return why, nil // the records have everything else
	}
	title, channel, err := query.TitleOf(ctx, path, id)
	why.Title, why.Channel = term.Raw(title), term.Raw(channel)
	return why, err
}

// explainUnfinished adds what becomes of the runs that have not ended, and why.
func explainUnfinished(w *report.Origin, known *facts.Reader) error {
	jobs, fates := map[string]bool{}, map[string]facts.Unfinished{} // by name, and by run
	for i := range w.Sightings {
		s := &w.Sightings[i]
		if spec := known.Config.Job(s.Job); spec != nil && !jobs[s.Job] {
			all, err := known.Unfinished(spec, time.Time{})
			if err != nil {
				return err
			}
			for _, u := range all {
				fates[u.Run.ID] = u
			}
			jobs[s.Job] = true
		}
		if u, is := fates[s.Run]; is {
			s.Fate, s.FateWhy = u.Fate, u.Why
		}
	}
	return nil
}

// ruleOf returns why `schedule: auto` bought the search of a sighting; "" for other runs.
func ruleOf(store *state.Store, b *runs.Sighting) (string, error) {
	row, err := store.Runs.Get(b.Run)
	if err != nil || row == nil || row.Plan == nil || row.Plan.Auto == nil {
		return "", err
	}
	a := row.Plan.Auto
	for i := range a.Choices {
		if c := &a.Choices[i]; c.Name == b.Item || len(a.Choices) == 1 {
			return c.Explain(a), nil
		}
	}
	return "", nil
}
