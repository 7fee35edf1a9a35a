package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// Run is everything recorded about a run.
type Run struct {
	runs.Run
	Flags    string           `json:"flags,omitempty"` // of the command that started it
	Unknown  outlier.Credits  `json:"unknown"`         // of Credits, those whose outcome is unknown
	Queued   int              `json:"queued"`          // data calls of its job that are queued now
	Searches []Search         `json:"searches"`
	Endings  []engine.Ending  `json:"endings"` // how its searches ended
	Calls    []ledger.OpTotal `json:"calls"`

	// Known only when the run has just ended:
	Since time.Time `json:"-"` // when it was started or continued
	Retry time.Time `json:"-"` // when a schedule tries the first call that failed again; zero if none did
}

// Search is one search of a run, as in ops.searches: with null for what is not known.
type Search struct {
	runs.Step
	Op    outlier.Operation `json:"operation"`
	Total *int64            `json:"total"`
	Left  *int              `json:"left_pages"`
}

// NewSearch returns a search of a run.
func NewSearch(s runs.Step) Search {
	d := Search{Step: s, Op: s.Query.Op()}
	if s.Total >= 0 {
		d.Total = &d.Step.Total
	}
	if s.Left >= 0 && s.Stop != "" {
		d.Left = &d.Step.Left
	}
	return d
}

// hasBought reports whether a page of a search was bought.
func (r *Run) hasBought(i int) bool { return i < len(r.Searches) && r.Searches[i].Pages > 0 }

// Summary says how a run has ended, and where its rows are. An error that the caller prints is left out.
func Summary(r *Run, places []string, failed error, look term.Options) string {
	l := &lines{Style: Style{Zone: look.Zone}}
	l.add("%s %s  %s in %s   run %s", Mark(r.Status), job.Shown(r.Job), r.Status, term.Duration(r.Ended.Sub(r.Since)), r.ID)
	ended := EndedEmpty(&r.Run)
	if !ended {
		for _, facts := range r.facts(l.Style) {
			l.WriteString(term.Wrap(facts, look.Screen))
		}
	}
	l.addEndings(r)
	if failed == nil && r.Error != "" {
		l.add("  %s", term.Plain(r.Error))
	}
	for _, place := range places {
		if !ended {
			l.add("  %s", place)
		}
	}
	return l.String()
}

// RunDetails describes a run with its searches and calls.
func RunDetails(r *Run, look term.Options) string {
	l := &lines{Style: Style{Zone: look.Zone}}
	l.add("%s %s  %s   run %s", Mark(r.Status), job.Shown(r.Job), r.Status, r.ID)
	l.add("  %s", term.Plain(strings.Join(r.timing(l.Style), " · ")))
	if r.RestOf != "" {
		l.add("  the rest of run %s", r.RestOf)
	}
	for _, facts := range r.facts(l.Style) {
		l.WriteString(term.Wrap(facts, look.Screen))
	}
	l.addEndings(r)
	if r.Plan != nil && r.Plan.Auto != nil {
		l.add("  %s", term.Plain(r.Plan.Auto.Explain(r.hasBought, l.Zone)))
	}
	if why := r.stopReason(); why != "" {
		l.add("  %s", term.Plain(why))
	}
	var rows [][]any
	for _, s := range r.Searches {
		rows = append(rows, []any{s.Name(), int64(s.Pages), int64(s.Hits), int64(s.NewHits), orDash(s.Total), orDash(s.Left),
			int64(s.Credits), cmp.Or(s.Stop, "open")})
	}
	if len(rows) > 0 {
		l.add("")
		l.addTable(look, []string{"search", "pages", "hits", "new", "total", "left", "credits", "stop_reason"}, rows)
	}
	rows = nil
	for _, c := range r.Calls {
		rows = append(rows, []any{string(c.Op), int64(c.Requests), int64(c.Answered), int64(c.Failed), int64(c.Unknown),
			int64(c.Credits), term.Duration(c.Waited.Duration)})
	}
	if len(rows) > 0 {
		l.add("")
		l.addTable(look, []string{"call", "requests", "answered", "failed", "unknown", "credits", "waited"}, rows)
	}
	return l.String()
}

// Sentences describes a run without its searches and calls.
func (r *Run) Sentences(in Style) (all []string) {
	for _, facts := range append([][]string{r.timing(in)}, r.facts(in)...) {
		all = append(all, strings.Join(facts, " · "))
	}
	if r.RestOf != "" {
		all = append(all, "the rest of run "+r.RestOf)
	}
	if why := r.stopReason(); why != "" {
		all = append(all, why)
	}
	return all
}

// facts says what a run found, left, saved and stored, in groups.
func (r *Run) facts(in Style) [][]string {
	groups := [][]string{
		foundFacts(&r.Run, r.Unknown, len(r.Searches) > 0), undoneFacts(r, in),
		sparedFacts(r.Endings), factOf(r.Skipped, "%s skipped as fresh", term.Count(r.Skipped, "call")), tableCounts(r.Rows),
	}
	return slices.DeleteFunc(groups, func(facts []string) bool { return len(facts) == 0 })
}

// addEndings adds how the searches of a run ended, if that is not ordinary.
func (l *lines) addEndings(r *Run) {
	for _, line := range append(endingLines(r.Endings), restLine(r)...) {
		l.add("  %s", term.Plain(line))
	}
}

// timing says what started a run, when, and how long it took.
func (r *Run) timing(in Style) []string {
	by := r.Trigger
	if by == runs.Manual {
		by = "by hand"
	}
	if r.Flags != "" {
		by += " with " + r.Flags
	}
	facts := []string{by}
	if !r.Due.IsZero() {
		facts = append(facts, "due "+in.At(r.Due))
	}
	facts = append(facts, "started "+in.At(r.Started))
	if !r.Ended.IsZero() {
		facts = append(facts, "ended after "+term.Duration(r.Ended.Sub(r.Started)))
	}
	return append(facts, "waited "+term.Duration(r.Waited.Duration)+" for the rate limit")
}

// stopReason says why a run stopped, if its status does not.
func (r *Run) stopReason() string {
	switch {
	case r.Error != "":
		return r.Error
	case r.Status == runs.Running:
		return "it is under way"
	case r.Status == runs.Interrupted:
		return "its process was stopped or killed; to continue: " + facts.Command(r.ID)
	}
	return ""
}

// EndedEmpty reports whether a run was refused before it found anything: then only the reason is printed.
func EndedEmpty(row *runs.Run) bool {
	switch row.Status {
	case runs.Failed, runs.PausedBudget, runs.PausedQuota:
		return row.Hits == 0 && row.Credits == 0 && len(tableCounts(row.Rows)) == 0
	}
	return false
}

// foundFacts says what a run found and cost, with unknown credits apart. A run without searches has no hits
// to count.
func foundFacts(row *runs.Run, unknown outlier.Credits, searched bool) []string {
	var facts []string
	if searched || row.Pages > 0 {
		facts = append(facts, fmt.Sprintf("%s on %s, %d new", term.Count(row.Hits, "hit"),
			term.Count(row.Pages, "page"), row.NewHits))
	}
	facts = append(facts, term.Count(row.Requests, "request"), term.Count(row.Credits-unknown, "credit")+" spent")
	return slices.Concat(facts, factOf(unknown, "%d unknown", unknown), factOf(row.Refunded, "%d refunded", row.Refunded))
}

// factOf says something of a number, unless that is zero.
func factOf[N ~int | ~int64](n N, format string, args ...any) []string {
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf(format, args...)}
}

// undoneFacts says what a run requested and did not get, and when calls that failed are tried again.
func undoneFacts(r *Run, in Style) []string {
	facts := slices.Concat(factOf(r.Missing, "%s returned nothing", term.Count(r.Missing, "call")),
		factOf(r.Failures, "%s failed", term.Count(r.Failures, "call")),
		factOf(r.Queued, "%s left for the next run", term.Count(r.Queued, "call")))
	if !r.Retry.IsZero() {
		facts = append(facts, "the same command tries again now, and schedules from "+in.local(r.Retry).Format("15:04 MST"))
	}
	return facts
}

// Mark returns a mark for how a run ended: not yet, well, in part, or not.
func Mark(s runs.Status) string {
	switch s {
	case runs.Running:
		return "…"
	case runs.OK, runs.OKEmpty:
		return "✓"
	case runs.Partial, runs.PausedBudget, runs.PausedQuota, runs.Interrupted:
		return "!"
	}
	return "✗"
}

// tableCounts lists the loaded rows, without the histories, which repeat them.
func tableCounts(rows map[string]int64) []string {
	var counts []string
	for name, n := range rows {
		if n > 0 && !strings.HasSuffix(name, "_history") {
			counts = append(counts, fmt.Sprintf("%s %d", name, n))
		}
	}
	slices.Sort(counts)
	if len(counts) > 0 {
		counts[0] = "rows " + counts[0]
	}
	return counts
}

// saturated is the maximum of the service's count of hits: there may be more.
const saturated = 10_000

// describeEnding says how a search ended; "" for an ordinary end.
func describeEnding(e *engine.Ending) string {
	switch {
	case e.Joined != "":
		return fmt.Sprintf("%s: joined scan %s, %s; no credits spent on its start",
			e.Search, e.Joined, StartedBy(e.StartedBy, e.StartedAt))
	case e.FoundNothing():
		return explainNothing(e)
	case e.Short:
		return fmt.Sprintf("%s: %s; the service counted more than it returned", e.Search, countSeen(e))
	case e.Limited && e.More < 0:
		return fmt.Sprintf("%s: %s; the number of further hits is not known", e.Search, term.Count(e.Seen, "hit"))
	case e.Limited:
		return fmt.Sprintf("%s: %s; the rest costs %s", e.Search, countSeen(e), term.Count(e.More, "credit"))
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
		return fmt.Sprintf("%s: %s; the rest costs %s", e.Search, countSeen(e), term.Count(e.More, "credit"))
	case e.Cut:
		return fmt.Sprintf("%s: %s, %s more", e.Search, countHits(e), term.Count(e.More, "credit"))
	}
	return ""
}

// tightest are the filters that usually leave out most, in this order.
var tightest = []string{"z_score", "average_views_ratio", "view_count", "subscribers_count", "language"}

// explainNothing says of a search without hits: its filters, its window, and what to loosen.
func explainNothing(e *engine.Ending) string {
	terms, loosen := slices.Clone(e.Filters), "search for something else"
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

// StartedBy says what started a scan, and when.
func StartedBy(name string, at time.Time) string {
	who := "by job " + name
	if job.IsOnce(name) {
		who = "by hand"
	}
	return fmt.Sprintf("started %s on %s", who, at.Format("2006-01-02 15:04 MST"))
}

// countHits says how many hits a search has found, and of how many, if known.
func countHits(e *engine.Ending) string {
	switch {
	case e.Of < 0:
		return term.Count(e.Hits, "hit") + " so far"
	case e.Of >= saturated:
		return fmt.Sprintf("%d of %d hits or more", e.Hits, e.Of)
	}
	return fmt.Sprintf("%d of %s", e.Hits, term.Count(e.Of, "hit"))
}

// countSeen says how many distinct hits a search has seen, and of how many.
func countSeen(e *engine.Ending) string {
	if e.Total >= saturated {
		return fmt.Sprintf("%d of %d hits or more", e.Seen, e.Total)
	}
	return fmt.Sprintf("%d of %s", e.Seen, term.Count(e.Total, "hit"))
}

// maxEndings is the maximum number of searches listed one by one.
const maxEndings = 10

// endingLines lists the searches that ended early or were cut off, and counts the rest.
func endingLines(all []engine.Ending) []string {
	var lines []string
	var saved, more outlier.Credits
	others, leaving := 0, 0
	for i := range all {
		if all[i].Rest != "" {
			leaving++
		}
	}
	for i := range all {
		line := describeEnding(&all[i])
		if leaving == 1 && all[i].Rest != "" {
			line += ": " + all[i].Rest
		}
		switch {
		case line == "":
		case len(lines) < maxEndings:
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

// sparedFacts says what the run did not have to buy.
func sparedFacts(all []engine.Ending) []string {
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

// restLine returns the command that buys the rest of several searches; a single search has it in its own
// line.
func restLine(end *Run) []string {
	left := slices.DeleteFunc(slices.Clone(end.Endings), func(e engine.Ending) bool { return e.Rest == "" })
	if len(left) < 2 {
		return nil
	}
	more := outlier.Credits(0)
	for _, e := range left {
		more += max(0, e.More)
	}
	return []string{fmt.Sprintf("the rest of these %d searches costs %s: %s", len(left), term.Count(more, "credit"), left[0].Rest)}
}

// Price is what a run may cost, and what of it is stored already.
type Price struct {
	Job      string          `json:"job"`
	Credits  outlier.Credits `json:"credits"`
	Lost     outlier.Credits `json:"if_lost"`
	Requests int             `json:"requests"`
	Time     store.Seconds   `json:"seconds"`
	Known    int             `json:"in_journal"` // pages
	Fresh    int             `json:"fresh"`      // calls
}
