package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// Origin is everything recorded about why an id is in the tables.
type Origin struct {
	ID        string          `json:"id"`
	Title     string          `json:"title,omitempty"`         // from the published tables
	Channel   string          `json:"channel_title,omitempty"` // of a video
	Imported  *runs.Imported  `json:"imported,omitempty"`      // if it was seen before
	Sightings []Sighting      `json:"sightings"`
	Calls     []ledger.Call   `json:"calls"`   // about it or its channel
	Waiting   []queue.Waiting `json:"waiting"` // queued calls
}

// Sighting is one hit of a search, with what its page cost.
type Sighting struct {
	runs.Sighting
	Op      outlier.Operation `json:"operation"`
	Filters string            `json:"filters,omitempty"` // in the words of the job file
	Sort    string            `json:"sort,omitempty"`
	Credits outlier.Credits   `json:"credits"`
	Unknown outlier.Credits   `json:"unknown,omitempty"`  // part of Credits, for lost answers
	Rule    string            `json:"rule,omitempty"`     // of `schedule: auto` that bought it
	Fate    facts.Fate        `json:"run_fate,omitempty"` // of an unfinished run
	FateWhy string            `json:"run_fate_why,omitempty"`
}

// NewSighting adds to a sighting what its search was and what the page cost.
func NewSighting(of runs.Sighting) Sighting {
	s := Sighting{Sighting: of, Op: of.Query.Op()}
	filters, sort := job.FiltersAndSort(of.Query)
	s.Filters, s.Sort = strings.Join(filters, " · "), sort
	for _, c := range of.Calls {
		switch c.Outcome {
		case outlier.Refunded:
			continue
		case outlier.Unknown:
			s.Unknown += c.Price
		}
		s.Credits += c.Price
	}
	return s
}

// Why describes where a video or a channel came from.
func Why(o *Origin, zone *time.Location) string {
	l := &lines{Style: Style{Zone: zone}}
	l.add("%s", strings.TrimSpace(o.ID+"  "+Title(o.Title, o.Channel)))
	if v := o.Imported; v != nil {
		l.add("first seen %s, as imported from %s on %s", l.At(v.FirstSeen), term.Plain(v.Origin), l.At(v.At))
	}
	for i := range o.Sightings {
		l.addSighting(&o.Sightings[i], i == 0)
	}
	if len(o.Calls) > 0 {
		waited := time.Duration(0)
		for i := range o.Calls {
			waited += o.Calls[i].Waited.Duration
		}
		l.add("\ncalls that followed; they waited %s for the rate limit", term.Duration(waited))
	}
	for i := range o.Calls {
		l.addCall(&o.Calls[i])
	}
	for _, w := range o.Waiting {
		text := fmt.Sprintf("still queued: %s %s, for job %s", w.Op, w.Entity, w.Job)
		if w.Attempts > 0 {
			text += fmt.Sprintf(", after %s that failed (%s)", term.Count(w.Attempts, "attempt"), w.Reason)
		}
		l.add("  %s", term.Clip(text, 96))
	}
	return l.String()
}

// addSighting adds one hit of a search, with the attempts that say more than its price.
func (l *lines) addSighting(b *Sighting, first bool) {
	note := ""
	if first && b.First {
		note = ", the first to find it"
	}
	l.add("\n%s  job %s%s", l.At(b.Started), b.Job, note)
	step := runs.Step{Query: b.Query, Queries: b.Queries, Seeds: b.Seeds, Item: b.Item}
	what := fmt.Sprintf("%s %q", b.Op, step.Name())
	if b.Item != "" && !slices.Contains(b.Queries, b.Item) {
		what += " for " + b.Item
	}
	if b.Scan != "" {
		what += ", from scan " + b.Scan
	}
	l.add("  %s", term.Clip(strings.TrimSpace(what+"  "+b.Window), 96))
	if how := narrowing(b); how != "" {
		l.add("  %s", term.Clip(how, 96))
	}
	l.add("  page %d, rank %d; %s", b.Page+1, b.Rank, pagePrice(b))
	if b.Rule != "" {
		l.add("  schedule: auto bought it: %s", b.Rule)
	}
	unfinished := ""
	if b.Fate != "" {
		unfinished = ", unfinished: " + b.FateWhy
	}
	l.add("  run %s (%s)%s", b.Run, b.Trigger, unfinished)
	for i := range b.Calls {
		if c := &b.Calls[i]; c.Outcome != outlier.Charged || len(b.Calls) > 1 || c.Waited.Duration >= time.Second {
			l.addCall(c)
		}
	}
}

// narrowing returns what distinguishes a search from another one for the same words.
func narrowing(b *Sighting) string {
	var parts []string
	if b.Filters != "" {
		parts = append(parts, "where "+b.Filters)
	}
	if b.Sort != "" {
		parts = append(parts, "sort "+b.Sort)
	}
	return strings.Join(parts, " · ")
}

// pagePrice returns the price of a page, for people.
func pagePrice(b *Sighting) string {
	if len(b.Calls) == 0 {
		return fmt.Sprintf("the page came from the journal, with %s, at no cost", term.Count(b.Hits, "hit"))
	}
	text := fmt.Sprintf("%s bought %s", term.Count(b.Credits, "credit"), term.Count(b.Hits, "hit"))
	if b.Unknown > 0 {
		text += fmt.Sprintf(", %d of them for answers that were lost", b.Unknown)
	}
	return text
}

// addCall adds one attempt on the wire.
func (l *lines) addCall(c *ledger.Call) {
	words := []string{cmp.Or(string(c.Outcome), "under way")}
	switch {
	case c.Price > 0:
		words = append(words, term.Count(c.Price, "credit"))
	case c.Empty:
		words = []string{"an empty answer", "free"}
	case c.Outcome == outlier.Charged:
		words = []string{"answered", "free"}
	case c.Status == 404:
		words = []string{"not found", "free"}
	case c.Outcome == outlier.Refunded:
		words = []string{"failed", "free"}
	}
	if c.Waited.Duration >= time.Second {
		words = append(words, "waited "+term.Duration(c.Waited.Duration))
	}
	if c.Error != "" && c.Status != 404 {
		words = append(words, term.Plain(c.Error))
	}
	at := c.SentAt
	if at.IsZero() {
		at = c.AnsweredAt
	}
	of := term.Pad(strings.TrimSpace(string(c.Op)+" "+c.Entity), 40)
	line := fmt.Sprintf("%s  %s %s", at.In(l.Zone).Format("2006-01-02 15:04"), of, strings.Join(words, " · "))
	l.add("  %s", term.Clip(line, 98))
}
