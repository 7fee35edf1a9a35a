package command

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

func planCommand(o *options) *cobra.Command {
	var whatIf string
	c := &cobra.Command{
		Use:   "plan [JOB…]",
		Short: "Show what the next runs will do and cost, offline",
		Long: `Show what the next run of each job will do, what it will cost in credits, requests and
minutes, and the forecast for the billing cycle. It uses the same rules as the run itself,
sends nothing and changes nothing. It works while another instance is running.

  expected  the average of the job's last ten runs
  at worst  if every page is full; answers that are lost and requested again can cost
            more, up to the cap of the run

A share of the month (budget.pace: even) applies to scheduled runs; a run by hand may spend
all that the job asks for. SQL may find more by the time of the run.`,
		Example: `  outlierd plan
  outlierd plan coffee
  outlierd plan --what-if per_month=400
  outlierd plan -o json | jq '.jobs[] | {job, worst}'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, names []string) error {
			if err := o.tableOrJSON(); err != nil {
				return err
			}
			config, err := sound(c.Context(), o.loadToRead)
			if err != nil {
				return err
			}
			if err := assumeBudget(config, whatIf); err != nil {
				return usageError{err}
			}
			for _, name := range names {
				if config.Job(name) == nil {
					return noJob(config, name, "")
				}
			}
			return o.with(c.Context(), config, toRead, func(p *program) error {
				f, err := forecastOf(c.Context(), p, names)
				if err != nil {
					return err
				}
				if o.forPrograms() {
					return o.whole(f)
				}
				_, err = fmt.Fprint(o.world.out, planText(f, config.Timezone, len(names) == 0))
				return err
			})
		},
	}
	c.Flags().StringVar(&whatIf, "what-if", "", "assume another budget, as in per_month=400")
	return c
}

// assumeBudget changes the budget as --what-if says.
func assumeBudget(config *job.Config, text string) error {
	if text == "" {
		return nil
	}
	amount, isMonth := strings.CutPrefix(text, "per_month=")
	n, err := strconv.ParseInt(amount, 10, 64)
	if !isMonth || err != nil || job.CheckCredits(n) != nil {
		return fmt.Errorf("--what-if must be per_month=CREDITS, such as per_month=400, got %q", text)
	}
	config.Budget.PerMonth = new(outlier.Credits(n))
	return nil
}

// forecastOf returns the forecast.
func forecastOf(ctx context.Context, p *program, names []string) (*forecast.Forecast, error) {
	f, err := p.forecasts().Forecast(ctx, names...)
	if err != nil {
		return nil, err
	}
	// One-off requests are never in the job file, so they are not missing there.
	f.Orphans = slices.DeleteFunc(f.Orphans, func(orphan forecast.Orphan) bool { return isOnce(orphan.Job) })
	return f, nil
}

// A planPrinter writes a forecast for people, at 100 columns.
type planPrinter struct {
	strings.Builder
	zone *time.Location
	near bool // times that are not far away are short, as on the page
}

// planText formats a forecast for people. If jobs are named, it leaves out the rest of the file.
func planText(f *forecast.Forecast, zone *time.Location, whole bool) string {
	p := &planPrinter{zone: zone}
	for _, r := range f.Refused {
		p.line("! the service has refused calls since %s: %s", p.at(r.Since), term.Plain(r.Reason))
		p.line("  'outlierd budget' shows what was refused\n")
	}
	for i := range f.Jobs {
		p.job(&f.Jobs[i])
	}
	p.cycle(&f.Cycle, f.Pace)
	for _, paging := range f.Paging {
		p.line("%s", pagingPlan(paging, p.zone))
	}
	if whole {
		p.orphans(f.Orphans)
	}
	return p.String()
}

func (p *planPrinter) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *planPrinter) at(t time.Time) string  { return t.In(p.zone).Format("2006-01-02 15:04 MST") }
func (p *planPrinter) day(t time.Time) string { return t.In(p.zone).Format(time.DateOnly) }

// fateOf says what becomes of an unfinished run, and why. The plan is that of the one that continues first.
func fateOf(u *forecast.Unfinished, first bool) string {
	switch {
	case first:
		return fmt.Sprintf("continues run %s (%s): %s; this is what is left of it", u.Run, u.Status, u.Why)
	case u.Fate == facts.Supersede:
		return fmt.Sprintf("closes run %s (%s): %s", u.Run, u.Status, u.Why)
	case u.Fate == facts.ByHand:
		return fmt.Sprintf("leaves run %s (%s) unfinished: %s", u.Run, u.Status, u.Why)
	}
	return fmt.Sprintf("then continues run %s (%s): %s", u.Run, u.Status, u.Why)
}

func (p *planPrinter) job(f *forecast.Job) {
	p.line("%s  %s", f.Job, p.when(f))
	for _, u := range f.Unfinished {
		p.line("  %s", fateOf(&u, u.Run == f.Continues))
	}
	if f.Problem != "" {
		for i, line := range strings.Split(f.Problem, "\n") { // a list has several mistakes
			begin := "  ✗ cannot run:"
			if i > 0 {
				begin = "               "
			}
			p.line("%s %s", begin, term.Plain(line))
		}
		p.line("")
		return
	}
	if f.Assumed {
		p.line("  its SQL finds nothing now; the cost is that of one row, or of what earlier runs found")
	}
	if len(f.Unknown) > 0 {
		p.line("  ! %s", &job.UnknownChannelsError{Channels: f.Unknown})
	}
	p.cost("expected", f.Expected, basis(f))
	p.cost("at worst", f.Worst, lost(f.Worst))
	for _, line := range searchPlans(f.Searches) {
		if f.Auto == nil { // else its topics say more
			p.line("  %s", line)
		}
	}
	if len(f.Searches) == 0 && f.Calls+f.Fresh == 0 && f.Worst.Requests == 0 && f.Auto == nil {
		p.line("  there is nothing to request now")
	}
	if f.Calls+f.Fresh > 0 {
		p.line("  %s to make, %s fresh", term.Count(f.Calls, "call"), isAre(f.Fresh))
	}
	if len(f.Where) > 0 {
		p.line("  fetches data only for hits with %s", strings.Join(f.Where, ", "))
	}
	if f.Auto != nil {
		p.topics(f)
	}
	if f.Share != nil {
		p.line("  its share of the month is %s%s", term.Count(*f.Share, "credit"), turns(f))
	}
	for _, c := range f.Cuts {
		p.line("  ! %s leaves %d of %s, and %d are needed", c.Cap, c.Leaves, term.Count(c.Max, "credit"), c.Wants)
	}
	if f.Limited != nil {
		p.line("  ! %s; %s", limitedText(f.Limited), limitedHint(f.Limited))
	}
	for _, change := range f.Changes {
		p.line("  ~ %s", term.Clip(change, 160))
	}
	p.line("")
}

// topics explains what `schedule: auto` decides, topic by topic.
func (p *planPrinter) topics(f *forecast.Job) {
	a := f.Auto
	pages := a.Expected()
	for i := range f.Searches[:min(1, len(f.Searches))] {
		for _, line := range termLines("each with ", &f.Searches[i]) {
			p.line("%s", line)
		}
	}
	facts := strings.Split(a.Explain(func(i int) bool { return pages[i] > 0 }, p.zone), "; ")
	for i := range facts {
		facts[i] = term.Clip(facts[i], 94)
	}
	p.WriteString(term.Wrap(facts, 98))
	p.line("  %s %8s %6s %9s  %s", term.Pad("topic", 36), "new/day", "last", "expected", "next")
	for i := range a.Choices {
		c, last := &a.Choices[i], "–"
		if c.Wait >= 0 {
			last = fmt.Sprintf("%.0f d", c.Wait)
		}
		p.line("  %s %8.1f %6s %9.1f  %s", term.Pad(term.Clip(c.Name, 36), 36), c.Rate, last, c.Expected, c.Next(pages[i]))
	}
}

// limitedText returns the message that `pages` was too small in earlier runs.
func limitedText(l *forecast.Limited) string {
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

// limitedHint returns how many pages would have been enough, if known.
func limitedHint(l *forecast.Limited) string {
	if l.Total >= saturated {
		return "more pages or narrower filters miss less"
	}
	return fmt.Sprintf("pages: %d would take all, for %s more per run", l.All, term.Count(l.Credits, "credit"))
}

// when describes when a job runs next, and how often in this cycle.
func (p *planPrinter) when(f *forecast.Job) string {
	switch {
	case f.Disabled:
		return "disabled: runs by name only"
	case f.Paused != nil && len(f.Due) == 0:
		return fmt.Sprintf("%s · %s in this cycle", pausedBy(f.Job, f.Paused, p.zone), term.Count(f.Runs, "run"))
	case f.After != "":
		return fmt.Sprintf("after %s · %s in this cycle", f.After, term.Count(f.Runs, "run"))
	case len(f.Due) == 0:
		return "by hand"
	}
	var due []string
	for i, t := range f.Due {
		t = t.In(p.zone)
		form := "Mon 01-02 15:04"
		switch {
		case i == 0:
			form = "Mon 2006-01-02 15:04 MST"
		case t.Year() != f.Due[i-1].In(p.zone).Year():
			form = "Mon 2006-01-02 15:04"
		}
		due = append(due, t.Format(form))
	}
	if !f.Begins.IsZero() {
		due[0] += f.Begins.In(p.zone).Format(" (begins 15:04:05)")
	}
	paused := ""
	if f.Paused != nil {
		paused = pauseText(f.Paused, p.zone) + ", "
	}
	return paused + fmt.Sprintf("next %s · %s in this cycle", strings.Join(due, ", "), term.Count(f.Runs, "run"))
}

// pausedBy returns the message that the job, or the one that it comes after, is paused.
func pausedBy(job string, pause *runs.Pause, zone *time.Location) string {
	said := pauseText(pause, zone)
	if pause.Job != job {
		said = fmt.Sprintf("after %s, which is %s", pause.Job, said)
	}
	return said
}

func (p *planPrinter) cost(name string, c forecast.Estimate, note string) {
	p.line("%s", strings.TrimRight(fmt.Sprintf("  %-9s %12s %15s %10s   %s", name, term.Count(c.Credits, "credit"),
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

func lost(c forecast.Estimate) string {
	if c.Lost == c.Credits || c.Credits == 0 {
		return ""
	}
	return fmt.Sprintf("%s if answers are lost", term.Count(c.Lost, "credit"))
}

func isAre(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

func turns(f *forecast.Job) string {
	if f.Round == 0 {
		return ": not enough for a page, so it is kept for a later run"
	}
	if f.Round == 1 {
		return ": less than it needs, but enough for a page of every search"
	}
	return fmt.Sprintf("; each search gets a turn every %d runs", f.Round)
}

// searchPlansMost is the maximum number of searches listed one by one.
const searchPlansMost = 12

// searchPlans returns a line for each search, up to a maximum, and one that counts the rest.
func searchPlans(all []forecast.Search) []string {
	var lines []string
	same := len(all) > 1 && !slices.ContainsFunc(all, func(s forecast.Search) bool {
		return !slices.Equal(termsOf(&s), termsOf(&all[0]))
	})
	for i := range min(len(all), searchPlansMost) {
		s := &all[i]
		line := fmt.Sprintf("%s %s %s", term.Pad(term.Clip(asked(s), askedColumns), askedColumns), term.Pad(s.Window, 22), searchCost(s))
		if len(s.Queries) > 1 && s.Skipped == "" {
			all := "both"
			if len(s.Queries) > 2 {
				all = fmt.Sprintf("all %d", len(s.Queries))
			}
			line += "  one request per page covers " + all + " queries"
		}
		switch s.Joins {
		case "":
		case "this run":
			line += "  joins the scan of a search above"
		default:
			line += "  joins scan " + s.Joins
		}
		lines = append(lines, line)
		if text := asked(s); term.Width(term.Plain(text)) > askedColumns {
			lines = append(lines, "  "+term.Clip(text, 96))
		}
		if !same {
			lines = append(lines, termLines("", s)...)
		}
	}
	if same {
		lines = append(lines, termLines("each with ", &all[0])...)
	}
	pages, skipped := 0, 0
	credits := outlier.Credits(0)
	shown := min(len(all), searchPlansMost)
	for i := shown; i < len(all); i++ {
		pages, credits = pages+all[i].Pages, credits+all[i].Credits
		if all[i].Skipped != "" {
			skipped++
		}
	}
	if more := len(all) - shown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more: %s, %s, %d skipped", more, term.Count(pages, "page"),
			term.Count(credits, "credit"), skipped))
	}
	return lines
}

// askedColumns is the width of the name of a search in its line.
const askedColumns = 40

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

// asked returns the name of a search, with its for_each value if that adds something.
func asked(s *forecast.Search) string {
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

// skips are the reasons for skipped searches, for people.
var skips = map[string]string{
	"fresh": "fresh: bought recently",
	"share": "not its turn",
}

func searchCost(s *forecast.Search) string {
	if s.Skipped != "" {
		why := skips[s.Skipped]
		if why == "" {
			why = s.Skipped
		}
		return why
	}
	pages := term.Count(s.Pages, "page")
	if s.Pages >= job.AllPages {
		pages = "all pages"
	}
	return fmt.Sprintf("%9s %11s", pages, term.Count(s.Credits, "credit"))
}

// cycle prints the forecast of the billing cycle.
func (p *planPrinter) cycle(c *forecast.Cycle, pace string) {
	p.line("the cycle from %s to %s, at %s", p.day(c.From), p.day(c.To), pace)
	held := term.Count(c.Held, "credit") + " spent or held"
	switch {
	case c.Cap == nil:
		held += ", no cap"
	case c.Reserve > 0:
		held += fmt.Sprintf(" of %d, beside a reserve of %d", *c.Cap, c.Reserve)
	default:
		held += fmt.Sprintf(" of %d", *c.Cap)
	}
	p.line("  %s", held)
	p.line("  %s", p.needs(c))
	if c.Cap == nil || c.Held+c.Worst <= *c.Cap {
		p.line("  at worst they need %s", term.Count(c.Worst, "credit"))
	} else {
		p.line("  ! at worst they need %s, and the budget leaves %d",
			term.Count(c.Worst, "credit"), max(0, *c.Cap-c.Held))
	}
	if !c.LastsTo.IsZero() {
		p.line("  ! lasts until %s", p.day(c.LastsTo))
	}
}

// needs describes what scheduled runs are expected to spend in the rest of the cycle.
func (p *planPrinter) needs(c *forecast.Cycle) string {
	return fmt.Sprintf("scheduled runs need about %s, %d in total by %s", term.Count(c.Wanted, "more credit"),
		c.Projected, p.day(c.To))
}

// pagingPlan describes what `from` is assumed to count at an endpoint.
func pagingPlan(f forecast.Paging, zone *time.Location) string {
	counts := map[string]string{job.PagingPage: "pages", job.PagingOffset: "items"}[f.Counts]
	switch {
	case counts == "":
		return fmt.Sprintf("paging of %s: not known yet whether `from` counts pages or items, "+
			"so page two may be bought twice", f.Op)
	case f.Since.IsZero():
		return fmt.Sprintf("paging of %s: `from` counts %s (as service.paging says)", f.Op, counts)
	}
	return fmt.Sprintf("paging of %s: `from` counts %s (learned on %s)",
		f.Op, counts, f.Since.In(zone).Format(time.DateOnly))
}

// orphans lists jobs that have records but are not in the file.
func (p *planPrinter) orphans(all []forecast.Orphan) {
	for _, o := range all {
		var kept []string
		if o.Watermarks > 0 {
			kept = append(kept, term.Count(o.Watermarks, "cursor"))
		}
		if o.Queued > 0 {
			kept = append(kept, term.Count(o.Queued, "queued call"))
		}
		if o.Unfinished != "" {
			kept = append(kept, "the unfinished run "+o.Unfinished)
		}
		p.line("\n%s is not in the job file, but the state has:\n  %s", term.Plain(o.Job), strings.Join(kept, ", "))
	}
	if len(all) > 0 {
		p.line("\nTo keep this for a renamed job, set `was: OLD_NAME`; 'outlierd cursor reset JOB' deletes cursors.")
	}
}
