package command

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// statuses are the statuses that runs can be filtered by.
var statuses = []string{
	string(runs.Running), string(runs.OK), string(runs.OKEmpty), string(runs.Partial), string(runs.PausedBudget),
	string(runs.PausedQuota), string(runs.Failed), string(runs.Interrupted),
}

func runsCommand(o *options) *cobra.Command {
	var filter runs.Filter
	limit := firstRuns
	c := &cobra.Command{
		Use: "runs [RUN]", Short: "List runs, or show one with its searches and calls",
		Long: `List runs, newest first, or show one run: its searches with their pages, its calls by
operation, the time they waited for the rate limit, credits, rows by table, and why the run
stopped. RUN is a run's id or the beginning of one.

It works while another instance is running. The table ops.runs has every run, too.`,
		Example: `  outlierd runs --job coffee --status failed
  outlierd runs 01a204a9-80a2-7f39
  outlierd runs --limit 0 -o ndjson`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 0 {
				return usageError{fmt.Errorf("--limit must be 0 or more, got %d", limit)}
			}
			if filter.Status != "" && !slices.Contains(statuses, string(filter.Status)) {
				meant := didYouMean(string(filter.Status), statuses)
				return usageError{fmt.Errorf("--status %s: want %s%s", filter.Status, term.OneOf(statuses), meant)}
			}
			if err := o.tableOrJSON(); err != nil {
				return err
			}
			config, err := o.loadToRead()
			if err != nil {
				return err
			}
			if len(args) > 0 {
				return o.showRun(c, config, args[0])
			}
			return o.with(c.Context(), config, toRead, func(p *program) error { return o.listRuns(p, filter, limit) })
		},
	}
	c.Flags().StringVar(&filter.Job, "job", "", "only runs of this job")
	c.Flags().StringVar((*string)(&filter.Status), "status", "", "only runs with this status: "+term.OneOf(statuses))
	c.Flags().IntVar(&limit, "limit", limit, "list at most this many runs; 0 for all")
	return c
}

// firstRuns is the default of --limit.
const firstRuns = 20

// listRuns prints the newest runs that match a filter, all of them for a limit of 0, as they are read: there may be many.
func (o *options) listRuns(p *program, f runs.Filter, limit int) error {
	if err := known(p.Engine.Config, p.Engine.Store, f.Job); err != nil {
		return err
	}
	if o.forPrograms() {
		return o.list(func(yield func(any, error) bool) {
			for r, err := range newestRuns(p, f, limit) {
				if err != nil {
					yield(nil, err)
					return
				}
				row := struct {
					*runs.Run
					Waited float64 `json:"waited_s"`
				}{r, r.Waited.Seconds()}
				if !yield(row, nil) {
					return
				}
			}
		})
	}
	return o.listRunsShort(p, f, limit)
}

// newestRuns returns the newest runs that match a filter; all of them for a limit of 0.
func newestRuns(p *program, f runs.Filter, limit int) func(func(*runs.Run, error) bool) {
	return func(yield func(*runs.Run, error) bool) {
		n := 0
		for r, err := range p.Engine.Store.Runs.Newest(f) {
			if n++; limit > 0 && n > limit || !yield(r, err) {
				return
			}
		}
	}
}

// shortID is the length of an abbreviated run id: its time to the millisecond and 12 random bits, which
// distinguish it from all others of one process.
const shortID = len("01a204a9-80a2-7f39")

// listRunsShort prints the list for people, with abbreviated ids.
func (o *options) listRunsShort(p *program, f runs.Filter, limit int) error {
	rows, err := o.printer([]string{"run", "job", "status", "started_at", "took", "hits", "new", "credits", "error"})
	if err != nil {
		return err
	}
	for r, err := range newestRuns(p, f, limit) {
		if err != nil {
			return err
		}
		id := r.ID
		if !o.wide {
			id = id[:min(shortID, len(id))]
		}
		took := any(nil)
		if !r.Ended.IsZero() {
			took = term.Duration(r.Ended.Sub(r.Started))
		}
		row := []any{id, shown(r.Job), string(r.Status), r.Started, took, r.Hits, r.NewHits,
			int64(r.Credits), r.Error}
		if err := rows.Row(row); err != nil {
			return err
		}
	}
	return rows.Close()
}

// showRun shows the run whose id begins with a prefix.
func (o *options) showRun(c *cobra.Command, config *job.Config, prefix string) error {
	for _, name := range []string{"job", "status", "limit"} {
		if c.Flags().Changed(name) {
			return usageError{fmt.Errorf("--%s filters the list of runs, and %s names one run", name, prefix)}
		}
	}
	if !isPrefix.MatchString(prefix) {
		return usageError{fmt.Errorf("%q is not a run id, such as 01a204a9-80a2-7f39; "+
			"list the runs of a job with --job", prefix)}
	}
	prefix = strings.ToLower(prefix)
	return o.with(c.Context(), config, toRead, func(p *program) error {
		row, err := runNamed(p, prefix)
		if err != nil {
			return err
		}
		d, err := detailsOf(p.Engine.Store, row)
		if err == nil && row.Status != runs.Running {
			d.ends, err = p.Engine.Endings(row)
		}
		if err != nil {
			return err
		}
		if o.forPrograms() {
			return o.whole(d)
		}
		return o.printRun(p, d)
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
		lines = append(lines, fmt.Sprintf("  %s  %s", all[i].ID, shown(all[i].Job)))
	}
	if len(all) == most {
		lines[most-1] = "  …"
	}
	return nil, usageError{fmt.Errorf("several run ids begin with %s:\n%s", prefix, strings.Join(lines, "\n"))}
}

// runDetails is everything recorded about a run.
type runDetails struct {
	runs.Run
	Waited   float64         `json:"waited_s"`
	Flags    string          `json:"flags,omitempty"` // of the command that started it
	Unknown  outlier.Credits `json:"unknown"`         // of Credits
	Queued   int             `json:"queued"`          // data calls of its job that are queued now
	Searches []searchDetails `json:"searches"`
	Calls    []callTotal     `json:"calls"`

	ends []engine.Ending
}

// searchDetails is one search of a run, as in ops.searches: with null for what is not known.
type searchDetails struct {
	runs.Step
	Op    outlier.Operation `json:"operation"`
	Total *int64            `json:"total"`
	Left  *int              `json:"left_pages"`
}

type callTotal struct {
	ledger.OpTotal
	Waited float64 `json:"waited_s"`
}

// detailsOf reads the records of a run. For a run that has not ended, it computes the sums.
func detailsOf(store *state.Store, row *runs.Run) (*runDetails, error) {
	steps, err := store.Runs.Steps(row.ID)
	if err != nil {
		return nil, err
	}
	spent, err := store.Ledger.Spent(row.ID)
	if err != nil {
		return nil, err
	}
	calls, err := store.Ledger.ByOperation(row.ID)
	if err != nil {
		return nil, err
	}
	if row.Status == runs.Running {
		for i := range steps {
			s := &steps[i]
			row.Pages, row.Hits = row.Pages+int64(s.Pages), row.Hits+int64(s.Hits)
			row.NewHits += int64(s.NewHits)
		}
		row.Requests, row.Waited = spent.Requests, spent.Waited
		row.Credits, row.Refunded = spent.Charged+spent.Unknown, spent.Refunded
	}
	d := &runDetails{Run: *row, Waited: row.Waited.Seconds(), Unknown: spent.Unknown, Searches: []searchDetails{}, Calls: []callTotal{}}
	if d.Flags = facts.Flags(row); d.Flags == "" && row.Plan != nil && row.Plan.Backfill != nil {
		d.Flags = row.Plan.Flags
	}
	for i := range steps {
		d.Searches = append(d.Searches, detailsOfSearch(&steps[i]))
	}
	for _, c := range calls {
		d.Calls = append(d.Calls, callTotal{c, c.Waited.Seconds()})
	}
	d.Queued, err = store.Queue.Queued(queue.Filter{Job: row.Job})
	return d, err
}

func detailsOfSearch(s *runs.Step) searchDetails {
	d := searchDetails{Step: *s, Op: s.Query.Op()}
	if s.Total >= 0 {
		d.Total = &s.Total
	}
	if s.Left >= 0 && s.Stop != "" {
		d.Left = &s.Left
	}
	return d
}

// printRun shows a run to people: its summary, as printed at its end, its searches and its calls.
func (o *options) printRun(p *program, d *runDetails) error {
	zone := p.Engine.Config.Timezone
	t := &planPrinter{zone: zone}
	t.line("%s %s  %s   run %s", mark(d.Status), shown(d.Job), d.Status, d.ID)
	t.line("  %s", term.Plain(strings.Join(d.timing(t), " · ")))
	if d.RestOf != "" {
		t.line("  the rest of run %s", d.RestOf)
	}
	for _, facts := range [][]string{
		found(&d.Run, d.Unknown, len(d.Searches) > 0), undone(&d.Run, d.Queued), spared(d.ends), tableCounts(d.Rows, nil),
	} {
		if columns, _ := o.screen(); len(facts) > 0 {
			t.WriteString(term.Wrap(facts, columns))
		}
	}
	for _, line := range slices.Concat(endLines(d.ends), pagings(d.ends)) {
		t.line("  %s", term.Plain(line))
	}
	if d.Plan != nil && d.Plan.Auto != nil {
		t.line("  %s", term.Plain(d.Plan.Auto.Explain(plan.Bought(d.steps()), zone)))
	}
	if why := d.why(); why != "" {
		t.line("  %s", term.Plain(why))
	}
	if err := o.searchTable(t, d); err != nil {
		return err
	}
	if err := o.callTable(t, d); err != nil {
		return err
	}
	_, err := fmt.Fprint(o.world.out, t.String())
	return err
}

// timing describes what started a run, when, and how long it took.
func (d *runDetails) timing(p *planPrinter) []string {
	by := d.Trigger
	if by == runs.Manual {
		by = "by hand"
	}
	if d.Flags != "" {
		by += " with " + d.Flags
	}
	facts := []string{by}
	if !d.Due.IsZero() {
		facts = append(facts, "due "+p.at(d.Due))
	}
	facts = append(facts, "started "+p.at(d.Started))
	if !d.Ended.IsZero() {
		facts = append(facts, "ended after "+term.Duration(d.Ended.Sub(d.Started)))
	}
	return append(facts, "waited "+term.Duration(d.Run.Waited)+" for the rate limit")
}

// steps returns the searches as steps.
func (d *runDetails) steps() (all []runs.Step) {
	for i := range d.Searches {
		all = append(all, d.Searches[i].Step)
	}
	return all
}

// why returns why a run stopped, if its status does not say so.
func (d *runDetails) why() string {
	switch {
	case d.Error != "":
		return d.Error
	case d.Status == runs.Running:
		return "it is under way"
	case d.Status == runs.Interrupted:
		return "its process was stopped or killed; to continue: " + facts.Command(&d.Run)
	}
	return ""
}

func (o *options) searchTable(p *planPrinter, d *runDetails) error {
	if len(d.Searches) == 0 {
		return nil
	}
	p.line("")
	t := term.NewTable(p, o.look(), []string{"search", "pages", "hits", "new", "total", "left", "credits",
		"stop_reason"})
	for _, s := range d.Searches {
		row := []any{s.Name(), int64(s.Pages), int64(s.Hits), int64(s.NewHits), numberOrDash(s.Total),
			numberOrDash(s.Left), int64(s.Credits), cmp.Or(s.Stop, "open")}
		if err := t.Row(row); err != nil {
			return err
		}
	}
	t.AlignRight(4, 5)
	return t.End()
}

func numberOrDash[N int | int64](n *N) any {
	if n == nil {
		return "–"
	}
	return int64(*n)
}

func (o *options) callTable(p *planPrinter, d *runDetails) error {
	if len(d.Calls) == 0 {
		return nil
	}
	p.line("")
	t := term.NewTable(p, o.look(), []string{"call", "requests", "answered", "failed", "unknown", "credits", "waited"})
	for _, c := range d.Calls {
		waited := term.Duration(c.OpTotal.Waited)
		row := []any{string(c.Op), int64(c.Requests), int64(c.Answered), int64(c.Failed), int64(c.Unknown),
			int64(c.Credits), waited}
		if err := t.Row(row); err != nil {
			return err
		}
	}
	t.AlignRight(6)
	return t.End()
}
