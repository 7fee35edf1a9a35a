package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// outcome is the summary of a run that has ended.
type outcome struct {
	runs.Run
	Unknown outlier.Credits `json:"unknown"`       // of Credits, those whose outcome is unknown
	Queued  int             `json:"queued"`        // data calls left
	Skipped int             `json:"skipped_fresh"` // data calls
	Ends    []engine.Ending `json:"searches"`

	since time.Time             // when it was started or continued
	retry time.Time             // when a schedule tries the first call that failed again; zero if none did
	fresh map[time.Duration]int // skipped data calls; see [engine.Progress]
	why   string                // reason of the end; "" if there is nothing to say
	rest  *engine.Rest          // what its searches have left, if that can be bought; else nil

	distinct map[string]int64 // keys of its rows, by table; see [runs.Runs.Distinct]
}

// reportRun collects the summary of a run and prints it. The caller prints the error of a failed run,
// so that it is not printed twice.
func (o *options) reportRun(ctx context.Context, p *program, row *runs.Run, failed error) error {
	end := outcome{Run: *row, since: row.Started, Ends: []engine.Ending{}}
	if failed == nil {
		end.why = row.Error
	}
	var err error
	if end.Queued, err = p.Engine.Store.Queue.Queued(queue.Filter{Job: row.Job}); err != nil {
		return err
	}
	if end.retry, err = p.Engine.Store.Queue.NextRetry(time.Now(), queue.Filter{Job: row.Job}); err != nil {
		return err
	}
	ends, err := p.Engine.Endings(row)
	if err != nil {
		return err
	}
	end.Ends = append(end.Ends, ends...)
	if err := o.offerRest(p, &end); err != nil {
		return err
	}
	spend, err := p.Engine.Store.Ledger.Spent(row.ID)
	if err != nil {
		return err
	}
	end.Unknown = spend.Unknown
	if end.distinct, err = p.Engine.Store.Runs.Distinct(row.ID); err != nil {
		return err
	}
	progress, err := p.readProgress()
	if err != nil {
		return err
	}
	if progress.Run == row.ID {
		end.since, end.fresh = progress.Started, progress.Fresh
	}
	for _, calls := range end.fresh {
		end.Skipped += calls
	}
	o.outcomes = append(o.outcomes, end)
	o.report(p.Engine.Config, end)
	o.reportBest(ctx, p, row)
	return nil
}

// reportBest prints the titles of the best hits, and the command that shows more. A published file that cannot be read
// is not an error of the run.
func (o *options) reportBest(ctx context.Context, p *program, row *runs.Run) {
	titles, more, err := bestTitles(ctx, p, row)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(o.world.out, "  the best hits cannot be shown: %s\n", term.Plain(err.Error()))
	}
	if len(titles) == 0 {
		return
	}
	command := fmt.Sprintf("sql %q", more)
	if p.daemon != nil && p.Engine.Config.Daemon.Listen != "" {
		command = "open"
	}
	fmt.Fprintf(o.world.out, "  the best are:\n    %s\n  more: %s\n", strings.Join(titles, "\n    "), o.typed(command))
}

// bestTitles returns the titles of the three best hits of a run of a job, as far as they are published, and a query that
// shows more.
func bestTitles(ctx context.Context, p *program, row *runs.Run) (titles []string, more string, err error) {
	spec, path := p.Engine.Config.Job(row.Job), published(p.Engine.Config)
	if spec == nil || path == "" || row.Hits == 0 || !row.Status.EndedWell() {
		return nil, "", nil
	}
	hits, err := p.Engine.Store.Runs.Best(row.ID, runs.Choice{Most: 3, All: true, Desc: !spec.EnrichSort.Ascending})
	if err != nil {
		return nil, "", err
	}
	var ids []string
	for _, hit := range hits {
		ids = append(ids, hit.VideoID)
	}
	text, more := query.RowsOf("outliers", "video_id", "t.title, t.channel_title", "", ids), best
	if spec.Verb == job.VerbFindChannels {
		more = "select title, handle, subscribers from found_channels order by subscribers desc limit 10"
		text = query.RowsOf("found_channels", "channel_id", "t.title, t.handle", "", ids)
	}
	err = query.Run(ctx, path, text, nil, func(values []any) error {
		title, _ := values[0].(string)
		channel, _ := values[1].(string)
		titles = append(titles, titled(title, channel))
		return nil
	})
	if errors.Is(err, query.ErrNotPublished) {
		return nil, "", nil
	}
	return titles, more, err
}

// report prints how a run ended and where its rows are.
func (o *options) report(config *job.Config, end outcome) {
	row := &end.Run
	fmt.Fprintf(o.world.out, "%s %s  %s in %s   run %s\n",
		mark(row.Status), shown(row.Job), row.Status, term.Duration(row.Ended.Sub(end.since)), row.ID)
	if !endedEmpty(row) {
		columns, _ := o.screen()
		for _, facts := range [][]string{
			found(row, end.Unknown, len(end.Ends) > 0), append(undone(row, end.Queued), retries(&end, config.Timezone)...), spared(end.Ends), skipped(end.fresh),
			tableCounts(row.Rows, end.distinct),
		} {
			if len(facts) > 0 {
				fmt.Fprint(o.world.out, term.Wrap(facts, columns))
			}
		}
	}
	for _, line := range slices.Concat(endLines(end.Ends), restLine(end), pagings(end.Ends)) {
		fmt.Fprintf(o.world.out, "  %s\n", term.Plain(line))
	}
	if end.why != "" {
		fmt.Fprintf(o.world.out, "  %s\n", term.Plain(end.why))
	}
	if endedEmpty(row) {
		return
	}
	for _, s := range config.Sinks {
		fmt.Fprintf(o.world.out, "  %s\n", relative(sinkPath(config, s)))
		if s.Bucket != "" {
			fmt.Fprintf(o.world.out, "  %s\n", s.Bucket)
		}
	}
}

// endedEmpty reports whether a run was refused before it found anything: then only the reason is printed.
func endedEmpty(row *runs.Run) bool {
	switch row.Status {
	case runs.Failed, runs.PausedBudget, runs.PausedQuota:
		return row.Hits == 0 && row.Credits == 0 && len(tableCounts(row.Rows, nil)) == 0
	}
	return false
}

// found describes what a run found and cost, with unknown credits apart. A run without searches has no hits
// to count.
func found(row *runs.Run, unknown outlier.Credits, searched bool) []string {
	var facts []string
	if searched || row.Pages > 0 {
		facts = append(facts, fmt.Sprintf("%s on %s, %d new", term.Count(row.Hits, "hit"),
			term.Count(row.Pages, "page"), row.NewHits))
	}
	facts = append(facts, term.Count(row.Requests, "request"), term.Count(row.Credits-unknown, "credit")+" spent")
	if unknown > 0 {
		facts = append(facts, fmt.Sprintf("%d unknown", unknown))
	}
	if row.Refunded > 0 {
		facts = append(facts, fmt.Sprintf("%d refunded", row.Refunded))
	}
	return facts
}

// undone describes what a run requested and did not get.
func undone(row *runs.Run, queued int) []string {
	var facts []string
	if row.Missing > 0 {
		facts = append(facts, term.Count(row.Missing, "call")+" returned nothing")
	}
	if row.Failures > 0 {
		facts = append(facts, term.Count(row.Failures, "call")+" failed")
	}
	switch {
	case queued > 0 && isOnce(row.Job):
		facts = append(facts, term.Count(queued, "call")+" left for the next request")
	case queued > 0:
		facts = append(facts, term.Count(queued, "call")+" left for the next run")
	}
	return facts
}

// retries describes when calls that failed are tried again.
func retries(end *outcome, zone *time.Location) []string {
	if end.retry.IsZero() {
		return nil
	}
	again := end.retry.In(zone).Format("15:04 MST")
	if isOnce(end.Run.Job) {
		return []string{"the same command tries again now, and schedules from " + again}
	}
	return []string{fmt.Sprintf("'outlierd run %s' tries again now, and its schedule from %s", end.Run.Job, again)}
}

// skipped counts the skipped data calls, by the maximum age of an answer.
func skipped(fresh map[time.Duration]int) (facts []string) {
	for _, age := range slices.Sorted(maps.Keys(fresh)) {
		facts = append(facts, fmt.Sprintf("%d skipped as fresh (%s)", fresh[age], engine.FreshFor(age)))
	}
	return facts
}

func mark(s runs.Status) string {
	switch s {
	case runs.OK, runs.OKEmpty:
		return "✓"
	case runs.Partial, runs.PausedBudget, runs.PausedQuota, runs.Interrupted:
		return "!"
	}
	return "✗"
}

// tableCounts lists the loaded rows, without the histories, which repeat them, and the number of
// distinct keys where it differs.
func tableCounts(rows, distinct map[string]int64) []string {
	var counts []string
	for name, n := range rows {
		if n > 0 && !strings.HasSuffix(name, "_history") {
			text := fmt.Sprintf("%s %d", name, n)
			if keys := distinct[name]; 0 < keys && keys < n {
				text += fmt.Sprintf(" (%d distinct)", keys)
			}
			counts = append(counts, text)
		}
	}
	slices.Sort(counts)
	if len(counts) > 0 {
		counts[0] = "rows " + counts[0]
	}
	return counts
}

// relative shortens a path below the working directory.
func relative(path string) string {
	here, err := filepath.Abs(".")
	if err != nil {
		return path
	}
	short, err := filepath.Rel(here, path)
	if err != nil || strings.HasPrefix(short, "..") {
		return path
	}
	return short
}

// saturated is the maximum of the service's count of hits: there may be more.
const saturated = 10_000

// sentence describes how a search ended; "" for an ordinary end.
func sentence(e *engine.Ending) string {
	switch {
	case e.Joined != "":
		return fmt.Sprintf("%s: joined scan %s, %s; no credits spent on its start",
			e.Search, e.Joined, startedBy(e.StartedBy, e.StartedAt))
	case e.FoundNothing():
		return nothingFound(e)
	case e.Short:
		return fmt.Sprintf("%s: %s; the service counted more than it returned", e.Search, seenOf(e))
	case e.Limited && e.More < 0:
		return fmt.Sprintf("%s: %s; the number of further hits is not known", e.Search, term.Count(e.Seen, "hit"))
	case e.Limited:
		return fmt.Sprintf("%s: %s; the rest costs %s", e.Search, seenOf(e), term.Count(e.More, "credit"))
	case e.Early != "":
		text := fmt.Sprintf("%s: %s after %s", e.Search, e.Early, term.Count(e.Pages, "page"))
		if e.Saved > 0 {
			text += fmt.Sprintf(", %s saved", term.Count(e.Saved, "credit"))
		}
		if e.Total < 0 && e.Pages > 1 {
			text += "; the service does not report the number of hits"
		}
		return text
	case e.Cut && e.More < 0:
		return fmt.Sprintf("%s: cut after %s; the number of further hits is not known",
			e.Search, term.Count(e.Pages, "page"))
	case e.Cut && e.Pages == 0:
		return fmt.Sprintf("%s: not started (%s)", e.Search, term.Count(e.More, "credit"))
	case e.Cut && e.Unread > 0:
		return fmt.Sprintf("%s: %s; the rest costs %s", e.Search, seenOf(e), term.Count(e.More, "credit"))
	case e.Cut:
		return fmt.Sprintf("%s: %s, %s more", e.Search, hitsOf(e), term.Count(e.More, "credit"))
	}
	return ""
}

// tightest are the filters that usually leave out most, in this order.
var tightest = []string{"z_score", "average_views_ratio", "view_count", "subscribers_count", "language"}

// nothingFound describes a search without hits: its filters, its window, and what to loosen.
func nothingFound(e *engine.Ending) string {
	terms, loosen := slices.Clone(e.Filters), "use other words"
	if e.Window != "" {
		terms, loosen = append(terms, "published "+e.Window), "search further back"
	}
	if slices.Contains(e.Filters, "by lexical") {
		loosen = "write by: semantic, or " + loosen
	}
	for _, name := range tightest {
		if slices.ContainsFunc(e.Filters, func(filter string) bool { return strings.HasPrefix(filter, name+" ") }) {
			loosen = "loosen " + name + ", or " + loosen
			break
		}
	}
	text := e.Search + ": no hits"
	if len(terms) > 0 {
		text += " with " + strings.Join(terms, " · ")
	}
	return text + "; " + loosen
}

// startedBy describes what started a scan, and when.
func startedBy(name string, at time.Time) string {
	who := "by job " + name
	if isOnce(name) {
		who = "by hand"
	}
	return fmt.Sprintf("started %s on %s", who, at.Format("2006-01-02 15:04 MST"))
}

// hitsOf describes how many hits a search has found, and of how many, if known.
func hitsOf(e *engine.Ending) string {
	switch {
	case e.Of < 0:
		return term.Count(e.Hits, "hit") + " so far"
	case e.Of >= saturated:
		return fmt.Sprintf("%d of %d hits or more", e.Hits, e.Of)
	}
	return fmt.Sprintf("%d of %s", e.Hits, term.Count(e.Of, "hit"))
}

// seenOf describes how many distinct hits a search has seen, and of how many.
func seenOf(e *engine.Ending) string {
	if e.Total >= saturated {
		return fmt.Sprintf("%d of %d hits or more", e.Seen, e.Total)
	}
	return fmt.Sprintf("%d of %s", e.Seen, term.Count(e.Total, "hit"))
}

// endLinesMost is the maximum number of searches listed one by one.
const endLinesMost = 10

// endLines lists the searches that ended early or were cut off, and counts the rest.
func endLines(all []engine.Ending) []string {
	var lines []string
	var saved, more outlier.Credits
	others, leaving := 0, 0
	for i := range all {
		if all[i].Rest != "" {
			leaving++
		}
	}
	for i := range all {
		line := sentence(&all[i])
		if leaving == 1 && all[i].Rest != "" {
			line += ": " + all[i].Rest
		}
		switch {
		case line == "":
		case len(lines) < endLinesMost:
			lines = append(lines, line)
		default:
			others++
			saved, more = saved+all[i].Saved, more+max(0, all[i].More)
		}
	}
	if others == 0 {
		return lines
	}
	rest := fmt.Sprintf("and %d more", others)
	if saved > 0 {
		rest += fmt.Sprintf(", %s saved", term.Count(saved, "credit"))
	}
	if more > 0 {
		rest += fmt.Sprintf(", %s more for what was cut", term.Count(more, "credit"))
	}
	return append(lines, rest)
}

// spared describes what the run did not have to buy.
func spared(all []engine.Ending) []string {
	pages, fresh, kept := 0, 0, outlier.Credits(0)
	for _, e := range all {
		pages, kept = pages+e.Reused, kept+e.Kept
		if e.Fresh {
			fresh++
		}
	}
	var facts []string
	if pages > 0 {
		facts = append(facts, term.Count(pages, "page")+" from the journal")
	}
	if kept > 0 {
		facts[0] += fmt.Sprintf(", %s saved", term.Count(kept, "credit"))
	}
	if fresh > 0 {
		searches := "searches"
		if fresh == 1 {
			searches = "search"
		}
		facts = append(facts, fmt.Sprintf("%d %s skipped as fresh", fresh, searches))
	}
	return facts
}

// pagings describes what the service's `from` was assumed to count, for searches of several pages.
func pagings(all []engine.Ending) []string {
	var lines []string
	for _, e := range all {
		line := "paging: `from` counts " + e.Paging + "s"
		if e.Paging == job.PagingOffset {
			line = "paging: `from` counts items"
		}
		if e.Paging != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// restLine returns the command that buys the rest of several searches; a single search has it in its own
// line.
func restLine(end outcome) []string {
	left := slices.DeleteFunc(slices.Clone(end.Ends), func(e engine.Ending) bool { return e.Rest == "" })
	if len(left) < 2 {
		return nil
	}
	return []string{fmt.Sprintf("the rest of these %d searches costs %s: %s",
		len(left), term.Count(end.rest.Credits, "credit"), left[0].Rest)}
}

// offerRest adds the command that buys the rest to the outcome of a run.
func (o *options) offerRest(p *program, end *outcome) error {
	if !end.Run.Status.EndedWell() || !slices.ContainsFunc(end.Ends, func(e engine.Ending) bool { return e.Leaves() }) {
		return nil
	}
	spec := engine.RestSpec(p.Engine.Config, &end.Run)
	if spec == nil {
		return nil
	}
	rest, err := p.Engine.Rest(spec, &end.Run)
	if err != nil || rest.Nothing() {
		return err
	}
	end.rest = rest
	for i := range end.Ends {
		if end.Ends[i].Leaves() {
			name := end.Run.Job + " "
			if isOnce(end.Run.Job) {
				name = "" // it is not the name of a job in the file
			}
			end.Ends[i].Rest = o.typed("run " + name + spec.Flags)
		}
	}
	return nil
}
