package command

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
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
  outlierd runs --limit 0 -o csv`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 0 {
				return usageError{fmt.Errorf("--limit must be 0 or more, got %d", limit)}
			}
			if filter.Status != "" && !slices.Contains(statuses, string(filter.Status)) {
				meant := didYouMean(string(filter.Status), statuses)
				return usageError{fmt.Errorf("--status %s: want %s%s", filter.Status, term.OneOf(statuses), meant)}
			}
			config, err := o.loadToRead()
			if err != nil {
				return err
			}
			if len(args) > 0 {
				return o.showRun(c, config, args[0])
			}
			return o.glance(c.Context(), config, func(p *program) error { return o.listRuns(p, filter, limit) })
		},
	}
	c.Flags().StringVar(&filter.Job, "job", "", "only runs of this job")
	c.Flags().StringVar((*string)(&filter.Status), "status", "", "only runs with this status: "+term.OneOf(statuses))
	c.Flags().IntVar(&limit, "limit", limit, "list at most this many runs; 0 for all")
	return c
}

// firstRuns is the default of --limit.
const firstRuns = 20

// listRuns prints a row for each run as it is read: there may be many.
func (o *options) listRuns(p *program, f runs.Filter, limit int) error {
	was, now, err := p.recorded(f.Job)
	if err != nil {
		return err
	}
	if f.Job = was; o.forPeople() {
		return o.listRunsShort(p, f, now, limit)
	}
	rows, err := o.printer(runColumns)
	if err != nil {
		return err
	}
	for r, err := range newestRuns(p, f, limit) {
		if err != nil {
			return err
		}
		if err := rows.Row(runValues(r, now)); err != nil {
			return err
		}
	}
	return rows.Close()
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

// runColumns are the columns of a run for programs, as in ops.runs.
var runColumns = []string{
	"run_id", "job", "status", "trigger", "due_at", "started_at", "ended_at", "pages", "hits", "new_hits", "requests", "credits",
	"refunded", "missing", "failures", "waited_s", "rest_of", "error",
}

func runValues(r *runs.Run, now map[string]string) []any {
	return []any{
		r.ID, cmp.Or(now[r.Job], r.Job), string(r.Status), r.Trigger, when(r.Due), when(r.Started), when(r.Ended),
		r.Pages, r.Hits, r.NewHits, r.Requests, int64(r.Credits), int64(r.Refunded), r.Missing, r.Failures,
		r.Waited.Seconds(),
		filled(r.RestOf), filled(r.Error),
	}
}

// shortID is the length of an abbreviated run id: its time to the millisecond and 12 random bits, which
// distinguish it from all others of one process.
const shortID = len("01a204a9-80a2-7f39")

// listRunsShort prints the list for people, with abbreviated ids.
func (o *options) listRunsShort(p *program, f runs.Filter, now map[string]string, limit int) error {
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
		row := []any{id, shown(cmp.Or(now[r.Job], r.Job)), string(r.Status), r.Started, took, r.Hits, r.NewHits,
			int64(r.Credits), r.Error}
		if err := rows.Row(row); err != nil {
			return err
		}
	}
	return rows.Close()
}

// forPeople reports whether results are shown as a table, with the main columns first.
func (o *options) forPeople() bool { return o.output == "table" || o.output == "markdown" }

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
	return o.glance(c.Context(), config, func(p *program) error {
		row, err := runNamed(p, prefix)
		if err != nil {
			return err
		}
		now, err := p.formerly()
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
		d.Job = cmp.Or(now[row.Job], row.Job)
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
	Run      string           `json:"run_id"`
	Job      string           `json:"job"`
	Status   runs.Status      `json:"status"`
	Trigger  string           `json:"trigger"`
	Flags    string           `json:"flags,omitempty"` // of the command that started it
	Due      time.Time        `json:"due_at,omitzero"`
	Started  time.Time        `json:"started_at"`
	Ended    time.Time        `json:"ended_at,omitzero"`
	RestOf   string           `json:"rest_of,omitempty"`
	Error    string           `json:"error,omitempty"`
	Pages    int64            `json:"pages"`
	Hits     int64            `json:"hits"`
	NewHits  int64            `json:"new_hits"`
	Requests int64            `json:"requests"`
	Credits  outlier.Credits  `json:"credits"`
	Unknown  outlier.Credits  `json:"unknown"` // of Credits
	Refunded outlier.Credits  `json:"refunded"`
	Missing  int64            `json:"missing"`
	Failures int64            `json:"failures"`
	Queued   int              `json:"queued"` // data calls of its job that are queued now
	Waited   float64          `json:"waited_s"`
	Rows     map[string]int64 `json:"rows"` // by table; null where the process was killed
	Searches []searchDetails  `json:"searches"`
	Calls    []callDetails    `json:"calls"`

	row  *runs.Run
	ends []engine.Ending
}

// searchDetails is one search of a run, as in ops.searches.
type searchDetails struct {
	Op      outlier.Operation `json:"operation"`
	Item    string            `json:"item,omitempty"`
	Queries []string          `json:"queries,omitempty"`
	Seeds   []string          `json:"seeds,omitempty"`
	Window  string            `json:"window,omitempty"`
	Scan    string            `json:"scan_id,omitempty"`
	Began   time.Time         `json:"began_at,omitzero"`
	Pages   int               `json:"pages"`
	Reused  int               `json:"reused"` // of Pages, those taken from the journal
	Hits    int               `json:"hits"`
	NewHits int               `json:"new_hits"`
	Seen    int               `json:"seen"`
	Total   *int64            `json:"total"`
	Left    *int              `json:"left_pages"`
	Credits outlier.Credits   `json:"credits"`
	Stop    string            `json:"stop_reason,omitempty"`

	name string
}

type callDetails struct {
	Op       outlier.Operation `json:"operation"`
	Requests int               `json:"requests"`
	Answered int               `json:"answered"`
	Failed   int               `json:"failed"`
	Unknown  int               `json:"unknown"`
	Credits  outlier.Credits   `json:"credits"`
	Waited   float64           `json:"waited_s"`
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
	d := &runDetails{
		Run: row.ID, Job: row.Job, Status: row.Status, Trigger: row.Trigger, Due: row.Due,
		Started: row.Started, Ended: row.Ended,
		RestOf: row.RestOf, Error: row.Error, Pages: row.Pages, Hits: row.Hits, NewHits: row.NewHits,
		Requests: row.Requests, Credits: row.Credits, Unknown: spent.Unknown, Refunded: row.Refunded,
		Missing: row.Missing, Failures: row.Failures, Waited: row.Waited.Seconds(), Rows: row.Rows,
		Searches: []searchDetails{}, Calls: []callDetails{}, row: row,
	}
	d.Flags = facts.Flags(row)
	for i := range steps {
		d.Searches = append(d.Searches, detailsOfSearch(&steps[i]))
	}
	for _, c := range calls {
		d.Calls = append(d.Calls, callDetails{c.Op, c.Requests, c.Answered, c.Failed, c.Unknown, c.Credits,
			c.Waited.Seconds()})
	}
	d.Queued, err = store.Queue.Queued(queue.Filter{Job: row.Job})
	return d, err
}

func detailsOfSearch(s *runs.Step) searchDetails {
	d := searchDetails{
		Op: s.Query.Op(), Item: s.Item, Queries: s.Queries, Seeds: s.Seeds, Window: s.Window, Scan: s.Scan,
		Began: s.Began, Pages: s.Pages, Reused: s.Reused, Hits: s.Hits, NewHits: s.NewHits, Seen: s.Seen,
		Credits: s.Credits, Stop: s.Stop,
		name: s.Name(),
	}
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
	t.line("%s %s  %s   run %s", mark(d.Status), shown(d.Job), d.Status, d.Run)
	t.line("  %s", term.Plain(strings.Join(d.timing(t), " · ")))
	if d.RestOf != "" {
		t.line("  the rest of run %s", d.RestOf)
	}
	for _, facts := range [][]string{
		found(d.row, d.Unknown, len(d.Searches) > 0), undone(d.row, d.Queued), spared(d.ends), tableCounts(d.Rows, nil),
	} {
		if columns, _ := o.screen(); len(facts) > 0 {
			t.WriteString(term.Wrap(facts, columns))
		}
	}
	for _, line := range slices.Concat(endLines(d.ends), pagings(d.ends)) {
		t.line("  %s", term.Plain(line))
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
	return append(facts, "waited "+term.Duration(d.row.Waited)+" for the rate limit")
}

// why returns why a run stopped, if its status does not say so.
func (d *runDetails) why() string {
	switch {
	case d.Error != "":
		return d.Error
	case d.Status == runs.Running:
		return "it is under way"
	case d.Status == runs.Interrupted:
		return "its process was stopped or killed; to continue: " + facts.Command(d.row)
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
		row := []any{s.name, int64(s.Pages), int64(s.Hits), int64(s.NewHits), numberOrDash(s.Total),
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
		waited := term.Duration(time.Duration(c.Waited * float64(time.Second)))
		row := []any{string(c.Op), int64(c.Requests), int64(c.Answered), int64(c.Failed), int64(c.Unknown),
			int64(c.Credits), waited}
		if err := t.Row(row); err != nil {
			return err
		}
	}
	t.AlignRight(6)
	return t.End()
}
