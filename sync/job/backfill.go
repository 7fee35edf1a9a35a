package job

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"outlierd/outlier"
)

// Backfill returns the job as a one-time search of past dates, for at most the given credits. The dates
// have the form of published_at, and error messages call them --from and --to.
func (s Spec) Backfill(from, to, each string, most outlier.Credits) (Spec, error) {
	begin, end := instantParsers(s.zone)
	first, err := begin(from)
	if err != nil {
		return Spec{}, fmt.Errorf("--from: %w", err)
	}
	last, err := end(to)
	switch {
	case err != nil:
		return Spec{}, fmt.Errorf("--to: %w", err)
	case last.Before(first):
		return Spec{}, fmt.Errorf("--to %s is before --from %s", to, from)
	case !slices.Contains(Windows, each):
		return Spec{}, fmt.Errorf("--each must be month, week or day, got %s", each)
	case CheckCredits(int64(most)) != nil:
		return Spec{}, fmt.Errorf("--max-credits %w", CheckCredits(int64(most)))
	case s.Verb != VerbSearch && s.Verb != VerbRelated:
		return Spec{}, fmt.Errorf("job %s: a backfill is for jobs of search and related, this is one of %s",
			s.Name, s.Verb)
	}
	since := s.ask.Window.Since
	if err := s.setWindow(window{}); err != nil {
		return Spec{}, fmt.Errorf("job %s: %w", s.Name, err)
	}
	s.decideByHand()
	s.Dates, s.backfill = &Dates{From: first, To: last, Each: each, Since: since}, &Backfill{from, to, each, most}
	s.SeedsFresh, s.ReuseFor = 0, max(s.ReuseFor, backfillReuse)
	s.Request = s.hashRequest()
	s.Budget.PerRun = &most
	s.Overridden, s.Flags = true, strings.TrimSpace(fmt.Sprintf("--from %s --to %s --each %s %s",
		from, to, each, s.Flags))
	return s, nil
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
