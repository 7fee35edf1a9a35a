package job

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"outlierd/outlier"
)

// Backfill makes a run a one-time search of past dates, for at most the given credits. The dates have the form of
// published_at.
type Backfill struct {
	From string          `json:"from"`
	To   string          `json:"to"`
	Each string          `json:"each"`
	Most outlier.Credits `json:"max_credits"`
}

// applyBackfill replaces published_at by the dates of a backfill. Its errors name flags.
func (s *Spec) applyBackfill(b *Backfill) error {
	first, err := parseInstant(b.From, 0, s.zone)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	last, err := parseInstant(b.To, 1, s.zone)
	switch {
	case err != nil:
		return fmt.Errorf("--to: %w", err)
	case last.Before(first):
		return fmt.Errorf("--to %s is before --from %s", b.To, b.From)
	case !slices.Contains(Windows, b.Each):
		return fmt.Errorf("--each must be month, week or day, got %s", b.Each)
	case CheckCredits(int64(b.Most)) != nil:
		return fmt.Errorf("--max-credits %w", CheckCredits(int64(b.Most)))
	case s.Verb != VerbSearch && s.Verb != VerbRelated:
		return fmt.Errorf("a backfill is for jobs of search and related, this is one of %s", s.Verb)
	}
	s.Backfill = &Dates{From: first, To: last, Each: b.Each, Since: s.ask.Window.Since}
	s.SeedsFresh, s.ReuseFor = 0, max(s.ReuseFor, backfillReuse)
	s.Budget.PerRun = &b.Most
	return s.setWindow(window{})
}

// backfillReuse is the reuse_for of a backfill: results for past dates hardly change, and an interrupted
// window is not bought twice.
const backfillReuse = 30 * day

// Dates are the publication dates of a backfill, inclusive, and how they are divided into windows.
type Dates struct {
	From, To time.Time
	Each     string // length of a window: month, week or day
	Since    bool   // the job searches since its last success, and continues from there
}

// Windows are the possible lengths of a backfill's windows, by the calendar. Weeks begin on Monday.
var Windows = []string{"month", "week", "day"}

// Windows yields the windows of the dates, newest first.
func (d *Dates) Windows(zone *time.Location) iter.Seq2[time.Time, time.Time] {
	return func(yield func(from, to time.Time) bool) {
		for to := d.To; !to.Before(d.From); {
			from := d.beginAt(to.In(zone), zone)
			if from.Before(d.From) {
				from = d.From
			}
			if !yield(from, to) {
				return
			}
			to = from.Add(-time.Second)
		}
	}
}

// beginAt returns the midnight at which the window of the given time begins.
func (d *Dates) beginAt(at time.Time, zone *time.Location) time.Time {
	year, month, date := at.Date()
	switch d.Each {
	case "month":
		date = 1
	case "week":
		date -= (int(at.Weekday()) + 6) % 7
	}
	return clock(time.Date(year, month, date, 0, 0, 0, 0, time.UTC), zone).UTC()
}
