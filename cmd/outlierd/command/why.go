package command

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

func whyCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "why VIDEO_ID|URL",
		Short: "Show which searches found a video, and what it cost",
		Long: `Show which job, run, search, page and rank found a video or a channel, given by id or
address, earliest first; which calls about it and its channel followed; and what each cost
in credits, and how long they waited for the rate limit.

A page has one price for all its hits, so the price is shown with their number. It works
while another instance is running.`,
		Example: `  outlierd why dQw4w9WgXcQ
  outlierd why https://youtu.be/dQw4w9WgXcQ -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.tableOrJSON(); err != nil {
				return err
			}
			id, err := anyID(args[0])
			if err != nil {
				return usageError{err}
			}
			config, err := o.loadToRead()
			if err != nil {
				return err
			}
			return o.with(c.Context(), config, toRead, func(p *program) error { return o.why(c.Context(), p, id) })
		},
	}
}

// anyID parses the id of a video or a channel.
func anyID(text string) (string, error) {
	id, err := outlier.ParseVideoID(text)
	if err == nil {
		return id, nil
	}
	if channel, other := outlier.ParseChannelID(text); other == nil {
		return channel, nil
	}
	return "", err
}

// origin is everything recorded about why an id is in the tables.
type origin struct {
	ID        string        `json:"id"`
	Title     string        `json:"title,omitempty"`         // from the published tables
	Channel   string        `json:"channel_title,omitempty"` // of a video
	Sightings []sighting    `json:"sightings"`
	Calls     []attempt     `json:"calls"`   // calls about it or its channel
	Waiting   []waitingCall `json:"waiting"` // queued calls
	Waited    float64       `json:"waited_s"`
}

// sighting is one hit of a search, on a page counted from 1, with what the page cost.
type sighting struct {
	runs.Sighting
	Op       outlier.Operation `json:"operation"`
	Filters  string            `json:"filters,omitempty"` // in the words of the job file
	Sort     string            `json:"sort,omitempty"`
	Page     int               `json:"page"`
	Credits  outlier.Credits   `json:"credits"`
	Unknown  outlier.Credits   `json:"unknown,omitempty"`  // part of Credits, for lost answers
	Fate     facts.Fate        `json:"run_fate,omitempty"` // of an unfinished run
	FateWhy  string            `json:"run_fate_why,omitempty"`
	Attempts []attempt         `json:"attempts"`       // none if the page came from the journal
	Rule     string            `json:"rule,omitempty"` // of `schedule: auto` that bought it
}

// attempt is one attempt on the wire.
type attempt struct {
	ledger.Call
	Outcome string  `json:"outcome"`
	Waited  float64 `json:"waited_s"` // for the rate limit
}

type waitingCall struct {
	Op        string    `json:"operation"`
	Entity    string    `json:"entity"`
	Job       string    `json:"job"`
	Attempts  int       `json:"failed_attempts"`
	NotBefore time.Time `json:"not_before,omitzero"`
	Reason    string    `json:"reason,omitempty"`
}

func (o *options) why(ctx context.Context, p *program, id string) error {
	why, err := originOf(p.Engine.Store, id)
	if err != nil {
		return err
	}
	if err := why.explainUnfinished(p.Engine.Facts()); err != nil {
		return err
	}
	if err := why.name(ctx, published(p.Engine.Config)); err != nil {
		return err
	}
	if len(why.Sightings)+len(why.Calls)+len(why.Waiting) == 0 {
		return fmt.Errorf("%s is not in this data folder: no search found it, and no call requested it", id)
	}
	if o.forPrograms() {
		return o.whole(why)
	}
	_, err = fmt.Fprint(o.world.out, why.text(p.Engine.Config.Timezone))
	return err
}

// explainUnfinished adds what becomes of the runs that have not ended, and why.
func (w *origin) explainUnfinished(known *facts.Reader) error {
	for i := range w.Sightings {
		s := &w.Sightings[i]
		spec := known.Config.Job(s.Job)
		if spec == nil {
			continue
		}
		all, err := known.Unfinished(spec, time.Time{})
		if err != nil {
			return err
		}
		if at := slices.IndexFunc(all, func(u facts.Unfinished) bool { return u.Run.ID == s.Run }); at >= 0 {
			s.Fate, s.FateWhy = all[at].Fate, all[at].Why
		}
	}
	return nil
}

// name adds the title from the published file, if there is one.
func (w *origin) name(ctx context.Context, path string) error {
	if _, err := os.Stat(path); err != nil {
		return nil // the records have everything else
	}
	title, channel, err := query.TitleOf(ctx, path, w.ID)
	w.Title, w.Channel = term.Raw(title), term.Raw(channel)
	return err
}

// originOf collects the records of an id, and for a video those of its channel.
func originOf(store *state.Store, id string) (*origin, error) {
	why := &origin{ID: id, Sightings: []sighting{}, Calls: []attempt{}, Waiting: []waitingCall{}}
	times, err := store.Runs.Sightings(id)
	if err != nil {
		return nil, err
	}
	ids := []string{id}
	for i := range times {
		b := sightingOf(&times[i])
		if b.Rule, err = ruleOf(store, &times[i]); err != nil {
			return nil, err
		}
		why.Sightings = append(why.Sightings, b)
		if channel := times[i].Channel; channel != "" && !slices.Contains(ids, channel) {
			ids = append(ids, channel)
		}
	}
	for _, id := range ids {
		calls, err := store.Ledger.CallsAbout(id)
		if err != nil {
			return nil, err
		}
		why.Calls = append(why.Calls, attemptsOf(calls)...)
	}
	slices.SortStableFunc(why.Calls, func(a, b attempt) int { return a.AnsweredAt.Compare(b.AnsweredAt) })
	for i := range why.Calls {
		c := &why.Calls[i]
		why.Waited += c.Waited
	}
	waiting, err := store.Queue.PendingFor(ids...)
	for _, w := range waiting {
		why.Waiting = append(why.Waiting, waitingCall{string(w.Op), w.Entity, w.Job, w.Attempts, w.NotBefore, w.Reason})
	}
	return why, err
}

func sightingOf(b *runs.Sighting) sighting {
	page := sighting{Sighting: *b, Op: b.Query.Op(), Page: b.Page + 1, Attempts: attemptsOf(b.Calls)}
	filters, sort := job.FiltersAndSort(b.Query)
	page.Filters, page.Sort = strings.Join(filters, " · "), sort
	for _, c := range b.Calls {
		switch c.Outcome {
		case outlier.Refunded:
			continue
		case outlier.Unknown:
			page.Unknown += c.Price
		}
		page.Credits += c.Price
	}
	return page
}

// ruleOf returns why `schedule: auto` bought the search of a sighting; "" for other runs.
func ruleOf(store *state.Store, b *runs.Sighting) (string, error) {
	row, err := store.Runs.Get(b.Run)
	if err != nil || row.Plan == nil || row.Plan.Auto == nil {
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

func attemptsOf(calls []ledger.Call) []attempt {
	all := []attempt{}
	for _, c := range calls {
		all = append(all, attempt{c, cmp.Or(string(c.Outcome), "under way"), c.Waited.Seconds()})
	}
	return all
}

// text formats it for people.
func (w *origin) text(zone *time.Location) string {
	p := &planPrinter{zone: zone}
	p.line("%s", strings.TrimSpace(w.ID+"  "+titled(w.Title, w.Channel)))
	for i := range w.Sightings {
		printSighting(p, &w.Sightings[i], i == 0)
	}
	if len(w.Calls) > 0 {
		p.line("\ncalls that followed; they waited %s for the rate limit",
			term.Duration(time.Duration(w.Waited*float64(time.Second))))
	}
	for i := range w.Calls {
		printAttempt(p, &w.Calls[i])
	}
	for _, c := range w.Waiting {
		p.line("  %s", term.Clip(c.String(), 96))
	}
	return p.String()
}

// printSighting prints one hit of a search, with the attempts that say more than its price.
func printSighting(p *planPrinter, b *sighting, first bool) {
	note := ""
	if first && b.First {
		note = ", the first to find it"
	}
	p.line("\n%s  job %s%s", p.at(b.Started), b.Job, note)
	step := runs.Step{Query: b.Query, Queries: b.Queries, Seeds: b.Seeds, Item: b.Item}
	what := fmt.Sprintf("%s %q", b.Op, step.Name())
	if b.Item != "" && !slices.Contains(b.Queries, b.Item) {
		what += " for " + b.Item
	}
	if b.Scan != "" {
		what += ", from scan " + b.Scan
	}
	p.line("  %s", term.Clip(strings.TrimSpace(what+"  "+b.Window), 96))
	if how := narrowed(b); how != "" {
		p.line("  %s", term.Clip(how, 96))
	}
	p.line("  page %d, rank %d; %s", b.Page, b.Rank, priceOf(b))
	if b.Rule != "" {
		p.line("  schedule: auto bought it: %s", b.Rule)
	}
	unfinished := ""
	if b.Fate != "" {
		unfinished = ", unfinished: " + b.FateWhy
	}
	p.line("  run %s (%s)%s", b.Run, b.Trigger, unfinished)
	for i := range b.Attempts {
		if a := &b.Attempts[i]; a.Outcome != string(outlier.Charged) || len(b.Attempts) > 1 || a.Waited >= 1 {
			printAttempt(p, a)
		}
	}
}

// titled returns a title with the title of its channel, on one line.
func titled(title, channel string) string {
	if channel == "" {
		return term.Clip(title, 80)
	}
	return term.Clip(title, 60) + " · " + term.Clip(channel, 24)
}

// narrowed returns what distinguishes a search from another one for the same words.
func narrowed(b *sighting) string {
	var parts []string
	if b.Filters != "" {
		parts = append(parts, "where "+b.Filters)
	}
	if b.Sort != "" {
		parts = append(parts, "sort "+b.Sort)
	}
	return strings.Join(parts, " · ")
}

// priceOf returns the price of a page, for people.
func priceOf(b *sighting) string {
	if len(b.Attempts) == 0 {
		return fmt.Sprintf("the page came from the journal, with %s, at no cost", term.Count(b.Hits, "hit"))
	}
	text := fmt.Sprintf("%s bought %s", term.Count(b.Credits, "credit"), term.Count(b.Hits, "hit"))
	if b.Unknown > 0 {
		text += fmt.Sprintf(", %d of them for answers that were lost", b.Unknown)
	}
	return text
}

// printAttempt prints one attempt on the wire.
func printAttempt(p *planPrinter, c *attempt) {
	words := []string{c.Outcome}
	switch {
	case c.Price > 0:
		words = append(words, term.Count(c.Price, "credit"))
	case c.Empty:
		words = []string{"an empty answer", "free"}
	case c.Outcome == string(outlier.Charged):
		words = []string{"answered", "free"}
	case c.Status == 404:
		words = []string{"not found", "free"}
	case c.Outcome == string(outlier.Refunded):
		words = []string{"failed", "free"}
	}
	if c.Waited >= 1 {
		words = append(words, "waited "+term.Duration(time.Duration(c.Waited*float64(time.Second))))
	}
	if c.Explained {
		words = append(words, "a later attempt succeeded")
	}
	if c.Error != "" && c.Status != 404 {
		words = append(words, term.Plain(c.Error))
	}
	at := c.SentAt
	if at.IsZero() {
		at = c.AnsweredAt
	}
	of := term.Pad(strings.TrimSpace(string(c.Op)+" "+c.Entity), 40)
	line := fmt.Sprintf("%s  %s %s", at.In(p.zone).Format("2006-01-02 15:04"), of, strings.Join(words, " · "))
	p.line("  %s", term.Clip(line, 98))
}

// String describes a queued call for people.
func (w waitingCall) String() string {
	text := fmt.Sprintf("still queued: %s %s, for job %s", w.Op, w.Entity, w.Job)
	if w.Attempts > 0 {
		text += fmt.Sprintf(", after %s that failed (%s)", term.Count(w.Attempts, "attempt"), w.Reason)
	}
	return text
}
