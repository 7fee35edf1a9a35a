package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/journal"
	"outlierd/sync/plan"
)

// Plan describes a forecast at 100 columns. If jobs are named, it leaves out the rest of the file.
func Plan(f *forecast.Forecast, zone *time.Location, whole bool) string {
	p := &lines{Style: Style{Zone: zone}}
	for _, r := range f.Refused {
		p.add("! the service has refused calls since %s: %s", p.At(r.Since), term.Plain(r.Reason))
		p.add("  'outlierd budget' shows what was refused\n")
	}
	for i := range f.Jobs {
		p.addJob(&f.Jobs[i])
	}
	p.addCycle(&f.Cycle, f.Pace)
	for _, paging := range f.Paging {
		p.add("%s", describePaging(paging, p.Zone))
	}
	if whole && len(f.Orphans) > 0 {
		p.add("\nthe state has cursors of jobs that are not in the job file: %s\n"+
			"To keep them for a renamed job, set `was: OLD_NAME`; 'outlierd cursor reset JOB' deletes them.",
			term.Plain(strings.Join(f.Orphans, ", ")))
	}
	return p.String()
}

// addJob adds the next run of a job.
func (l *lines) addJob(f *forecast.Job) {
	l.add("%s  %s", f.Job, l.dueTimes(f))
	for _, u := range f.Unfinished {
		l.add("  %s", fateOf(&u, u.Run.ID == f.Continues))
	}
	if f.Problem != "" {
		for i, line := range strings.Split(f.Problem, "\n") { // a list has several mistakes
			begin := "  ✗ cannot run:"
			if i > 0 {
				begin = "               "
			}
			l.add("%s %s", begin, term.Plain(line))
		}
		l.add("")
		return
	}
	if f.Assumed {
		l.add("  its SQL finds nothing now; the cost is that of one row, or of what earlier runs found")
	}
	if len(f.Unknown) > 0 {
		l.add("  ! %s", &job.UnknownChannelsError{Channels: f.Unknown})
	}
	l.addCost("expected", f.Expected, basis(f))
	l.addCost("at worst", f.Worst, ifLost(f.Worst))
	for _, line := range searchPlans(f.Searches) {
		if f.Auto == nil { // else its topics say more
			l.add("  %s", line)
		}
	}
	if len(f.Searches) == 0 && f.Calls+f.Fresh == 0 && f.Worst.Requests == 0 && f.Auto == nil {
		l.add("  there is nothing to request now")
	}
	if f.Calls+f.Fresh > 0 {
		l.add("  %s to make, %s fresh", term.Count(f.Calls, "call"), countAre(f.Fresh))
	}
	if len(f.Where) > 0 {
		l.add("  fetches data only for hits with %s", strings.Join(f.Where, ", "))
	}
	if f.Auto != nil {
		l.addTopics(f)
	}
	if f.Share != nil {
		l.add("  its share of the month is %s%s", term.Count(*f.Share, "credit"), nextTurn(f))
	}
	for _, c := range f.Cuts {
		l.add("  ! %s leaves %d of %s, and %d are needed", c.Cap, c.Leaves, term.Count(c.Max, "credit"), c.Wants)
	}
	if f.Limited != nil {
		l.add("  ! %s; %s", Limited(f.Limited), LimitedHint(f.Limited))
	}
	for _, change := range f.Changes {
		l.add("  ~ %s", term.Clip(change, 160))
	}
	l.add("")
}

// fateOf says what becomes of an unfinished run, and why. The plan is that of the one that continues first.
func fateOf(u *facts.Unfinished, first bool) string {
	switch {
	case first:
		return fmt.Sprintf("continues run %s (%s): %s; this is what is left of it", u.Run.ID, u.Run.Status, u.Why)
	case u.Fate == facts.Supersede:
		return fmt.Sprintf("closes run %s (%s): %s", u.Run.ID, u.Run.Status, u.Why)
	case u.Fate == facts.ByHand:
		return fmt.Sprintf("leaves run %s (%s) unfinished: %s", u.Run.ID, u.Run.Status, u.Why)
	}
	return fmt.Sprintf("then continues run %s (%s): %s", u.Run.ID, u.Run.Status, u.Why)
}

// addTopics explains what `schedule: auto` decides, topic by topic.
func (l *lines) addTopics(f *forecast.Job) {
	a := f.Auto
	pages := a.Expected()
	for i := range f.Searches[:min(1, len(f.Searches))] {
		for _, line := range termLines("each with ", &f.Searches[i]) {
			l.add("%s", line)
		}
	}
	why := strings.Split(a.Explain(func(i int) bool { return pages[i] > 0 }, l.Zone), "; ")
	for i := range why {
		why[i] = term.Clip(why[i], 94)
	}
	l.WriteString(term.Wrap(why, 98))
	l.add("  %s %8s %6s %9s  %s", term.Pad("topic", 36), "new/day", "last", "expected", "next")
	for i := range a.Choices {
		c, last := &a.Choices[i], "–"
		if c.Wait >= 0 {
			last = fmt.Sprintf("%.0f d", c.Wait)
		}
		l.add("  %s %8.1f %6s %9.1f  %s", term.Pad(term.Clip(c.Name, 36), 36), c.Rate, last, c.Expected, c.Next(pages[i]))
	}
}

// Limited returns the message that `pages` was too small in earlier runs.
func Limited(l *forecast.Limited) string {
	rows := "the last run"
	if l.Runs > 1 {
		rows = fmt.Sprintf("each of the last %d runs", l.Runs)
	}
	total := fmt.Sprint(l.Total)
	if l.Total >= saturated {
		total = fmt.Sprintf("%d or more", l.Total)
	}
	return fmt.Sprintf("pages: %d cut off hits in %s, such as %d of %s hits of %q", l.Pages, rows, l.Seen,
		total, term.Clip(l.Search, 40))
}

// LimitedHint returns how many pages would have been enough, if known.
func LimitedHint(l *forecast.Limited) string {
	if l.Total >= saturated {
		return "more pages or narrower filters miss less"
	}
	return fmt.Sprintf("pages: %d would take all, for %s more per run", l.All, term.Count(l.Credits, "credit"))
}

// dueTimes describes when a job runs next, and how often in this cycle.
func (l *lines) dueTimes(f *forecast.Job) string {
	switch {
	case f.Disabled:
		return "disabled: runs by name only"
	case f.Paused != nil && len(f.Due) == 0:
		return fmt.Sprintf("%s · %s in this cycle", pausedBy(f.Job, f.Paused, l.Zone), term.Count(f.Runs, "run"))
	case f.After != "":
		return fmt.Sprintf("after %s · %s in this cycle", f.After, term.Count(f.Runs, "run"))
	case len(f.Due) == 0:
		return "by hand"
	}
	var due []string
	for i, t := range f.Due {
		t = t.In(l.Zone)
		form := "Mon 01-02 15:04"
		switch {
		case i == 0:
			form = "Mon 2006-01-02 15:04 MST"
		case t.Year() != f.Due[i-1].In(l.Zone).Year():
			form = "Mon 2006-01-02 15:04"
		}
		due = append(due, t.Format(form))
	}
	if !f.Begins.IsZero() {
		due[0] += f.Begins.In(l.Zone).Format(" (begins 15:04:05)")
	}
	paused := ""
	if f.Paused != nil {
		paused = Paused(f.Paused, l.Zone) + ", "
	}
	return paused + fmt.Sprintf("next %s · %s in this cycle", strings.Join(due, ", "), term.Count(f.Runs, "run"))
}

func (l *lines) addCost(name string, c forecast.Estimate, note string) {
	l.add("%s", strings.TrimRight(fmt.Sprintf("  %-9s %12s %15s %10s   %s", name, term.Count(c.Credits, "credit"),
		term.Count(c.Requests, "request"), term.Duration(time.Duration(c.Minutes*float64(time.Minute))), note), " "))
}

// basis describes what the expected cost of a run is based on. For a job of channels or videos the calls
// are known exactly.
func basis(f *forecast.Job) string {
	switch {
	case f.Calls+f.Fresh > 0 || f.Auto != nil:
		return ""
	case f.Basis == 0 && f.Expected.Credits < f.Worst.Credits:
		return "no runs yet: what the caps leave"
	case f.Basis == 0:
		return "no runs yet: the worst case"
	case f.Basis == 1:
		return "like the last run"
	}
	return fmt.Sprintf("like the last %d runs", f.Basis)
}

// ifLost says what a run costs if answers are lost, if that is more.
func ifLost(c forecast.Estimate) string {
	if c.Lost == c.Credits || c.Credits == 0 {
		return ""
	}
	return fmt.Sprintf("%s if answers are lost", term.Count(c.Lost, "credit"))
}

func countAre(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

// nextTurn says how often a share is enough for each search.
func nextTurn(f *forecast.Job) string {
	if f.Round == 0 {
		return ": not enough for a page, so it is kept for a later run"
	}
	if f.Round == 1 {
		return ": less than it needs, but enough for a page of every search"
	}
	return fmt.Sprintf("; its searches take turns in this order, each every %d runs", f.Round)
}

// maxSearchPlans is the maximum number of searches listed one by one.
const maxSearchPlans = 12

// searchPlans returns a line for each search, up to a maximum, and one that counts the rest. Below searches with the
// same filters and order are those.
func searchPlans(all []forecast.Search) (lines []string) {
	shown, prefix := min(len(all), maxSearchPlans), ""
	for i := range shown {
		s := &all[i]
		line := fmt.Sprintf("%s %s %s", term.Pad(term.Clip(nameSearch(s), nameColumns), nameColumns), term.Pad(s.Window, 22), searchCost(s))
		if len(s.Queries) > 1 && s.Skipped == "" {
			line += fmt.Sprintf("  one request per page covers %d queries", len(s.Queries))
		}
		switch s.Joins {
		case "":
		case "this run":
			line += "  joins the scan of a search above"
		default:
			line += "  joins scan " + s.Joins
		}
		lines = append(lines, line)
		if text := nameSearch(s); term.Width(term.Plain(text)) > nameColumns {
			lines = append(lines, "  "+term.Clip(text, 96))
		}
		if i+1 < shown && slices.Equal(termsOf(s), termsOf(&all[i+1])) {
			prefix = "each with "
			continue
		}
		lines, prefix = append(lines, termLines(prefix, s)...), ""
	}
	var rest forecast.Search
	skipped := 0
	for _, s := range all[shown:] {
		rest.Pages, rest.Credits = rest.Pages+s.Pages, rest.Credits+s.Credits
		if s.Skipped != "" {
			skipped++
		}
	}
	if more := len(all) - shown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more: %s, %s, %d skipped", more, term.Count(rest.Pages, "page"),
			term.Count(rest.Credits, "credit"), skipped))
	}
	return lines
}

// nameColumns is the width of the name of a search in its line.
const nameColumns = 40

// termsOf returns the filters and the order of a search.
func termsOf(s *forecast.Search) []string {
	terms := slices.Clone(s.Filters)
	if s.Sort != "" {
		terms = append(terms, "sort "+s.Sort)
	}
	return terms
}

// termLines returns the lines below a search with its filters and its order.
func termLines(prefix string, s *forecast.Search) []string {
	terms := termsOf(s)
	if len(terms) == 0 {
		return nil
	}
	terms[0] = prefix + terms[0]
	for i := range terms {
		terms[i] = term.Clip(terms[i], 94)
	}
	return strings.Split(strings.TrimSuffix(term.Wrap(terms, 98), "\n"), "\n")
}

// nameSearch returns the name of a search, with its for_each value if that adds something.
func nameSearch(s *forecast.Search) string {
	words := strings.Join(slices.Concat(s.Queries, s.Seeds), ", ")
	text := strings.TrimSpace(fmt.Sprintf("%s %s", verbs[s.Op], words))
	if s.Item != "" && s.Item != words {
		text += " [" + s.Item + "]"
	}
	return text
}

// verbs are the names of operations for people.
var verbs = map[outlier.Operation]string{
	outlier.OpSearch: "search", outlier.OpRelated: "related", outlier.OpStartScan: "scan",
	outlier.OpFindChannels: "find channels", outlier.OpFindRelatedChannels: "find channels",
	outlier.OpTrendingFormats: "trending formats",
}

func searchCost(s *forecast.Search) string {
	switch s.Skipped {
	case "":
	case plan.StopFresh:
		return "fresh: bought recently"
	default:
		return s.Skipped
	}
	pages := term.Count(s.Pages, "page")
	if s.Pages >= job.AllPages {
		pages = "all pages"
	}
	return fmt.Sprintf("%9s %11s", pages, term.Count(s.Credits, "credit"))
}

// addCycle adds the forecast of the billing cycle.
func (l *lines) addCycle(c *forecast.Cycle, pace string) {
	l.add("the cycle from %s to %s, at %s", l.Day(c.From), l.Day(c.To), pace)
	held := term.Count(c.Held, "credit") + " spent or held"
	switch {
	case c.Cap == nil:
		held += ", no cap"
	case c.Reserve > 0:
		held += fmt.Sprintf(" of %d, beside a reserve of %d", *c.Cap, c.Reserve)
	default:
		held += fmt.Sprintf(" of %d", *c.Cap)
	}
	l.add("  %s", held)
	l.add("  %s", l.needs(c))
	if c.Cap == nil || c.Held+c.Worst <= *c.Cap {
		l.add("  at worst they need %s", term.Count(c.Worst, "credit"))
	} else {
		l.add("  ! at worst they need %s, and the budget leaves %d",
			term.Count(c.Worst, "credit"), max(0, *c.Cap-c.Held))
	}
	if !c.LastsTo.IsZero() {
		l.add("  ! lasts until %s", l.Day(c.LastsTo))
	}
}

// needs says what scheduled runs are expected to spend in the rest of the cycle.
func (l *lines) needs(c *forecast.Cycle) string {
	return fmt.Sprintf("scheduled runs need about %s, %d in total by %s", term.Count(c.Wanted, "more credit"),
		c.Held+c.Wanted, l.Day(c.To))
}

// describePaging says what `from` is assumed to count at an endpoint.
func describePaging(p journal.Paging, zone *time.Location) string {
	counts := map[string]string{job.PagingPage: "pages", job.PagingOffset: "items"}[p.Reading]
	switch {
	case counts == "":
		return fmt.Sprintf("paging of %s: not known yet whether `from` counts pages or items, "+
			"so page two may be bought twice", p.Op)
	case p.Learned.IsZero():
		return fmt.Sprintf("paging of %s: `from` counts %s (as service.paging says)", p.Op, counts)
	}
	return fmt.Sprintf("paging of %s: `from` counts %s (learned on %s)",
		p.Op, counts, p.Learned.In(zone).Format(time.DateOnly))
}
