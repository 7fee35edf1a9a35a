package engine

import (
	"encoding/json"
	"time"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// # How searches end
//
// A search that ends by itself before the job's last page, although the service has more, has saved
// the price of the remaining pages, as far as the caps had room for them and the journal does not have
// them. A search that is ended by a cap, an error, the clock or the run's share of the month leaves
// pages that cost as much and may still be wanted. Nothing was paid for a page reused from the
// journal, nor for a search by seeds that were bought recently.
//
// Pages beyond the job's own `pages` were not wanted, but are reported because they can be bought; see
// [job.Spec.RestOf]. A search that ended by itself with fewer hits than the service counts is reported as
// well: its list changed between two pages, or the service does not return all of it.

// Ending is how one search of a run ended. At most one of Early, Cut, Limited and Fresh is set, and none
// after an ordinary end. The start of a scan is included only if the run had no time or no
// share for it; other events of scans have their own messages.
type Ending struct {
	Search string // [runs.Step.Name]
	Pages  int    // pages taken
	Hits   int
	Of     int64 // hits that the job's pages could have returned; -1 if unknown
	Seen   int   // distinct hits, including those of the searches that this one continues
	Total  int64 // largest total that the service reported; -1 if it reported none

	Early string // why the search ended by itself before the job's last page; else ""
	Cut   bool   // a cap, an error, the clock or the run's share ended it
	Fresh bool   // nothing was sent: the same seeds were bought recently

	Limited bool   // `pages` ended it, and there are or may be more hits
	Short   bool   // it ended by itself, and the service counts more hits than it returned
	Paging  string // what `from` counts, if several pages were taken: "page" or "offset"; "" if unknown

	Unread int             // those of Hits that could not be stored
	Reused int             // pages reused from the journal
	Kept   outlier.Credits // what the reused pages would have cost
	Saved  outlier.Credits // what the pages not taken would have cost, if the search ended early
	Left   int             // pages left by a cut or by `pages`; -1 if unknown
	More   outlier.Credits // their price; -1 if unknown
	Rest   string          // the command that buys them; set by the caller of [Endings]

	Filters []string // of a search without hits, in the words of the file
	Window  string   // its publication dates

	step *runs.Step

	Joined    string    // id of a scan that another run had started; "" unless the ending is about one
	StartedBy string    // the job that started it
	StartedAt time.Time // in the time zone of the configuration
}

// FoundNothing reports whether the service answered a search and has no hit for it.
func (e *Ending) FoundNothing() bool {
	return e.Pages > 0 && e.Hits+e.Unread == 0 && e.Total <= 0 && e.Joined == ""
}

// early holds the reason for each end that a search can come to before its last page.
var early = map[string]string{
	runs.StopEmpty:    "there were no more hits",
	runs.StopShort:    "there were no more hits",
	runs.StopRepeated: "a page repeated earlier hits",
	runs.StopKnown:    "hardly anything was new",
	plan.StopPrice:    "the next page was expected to bring less than a page must",
}

// endedRun is a run that has ended, with its searches.
type endedRun struct {
	*facts.Reader
	row   *runs.Run
	steps []runs.Step
}

// Endings returns how the searches of a run ended, in their order. The run must have ended; searches
// that are still open count as cut. Of steps whose pages have not shown what `from` counts, it says what is believed.
func Endings(known *facts.Reader, row *runs.Run) ([]Ending, error) {
	if row.Plan == nil {
		return nil, nil // it failed before it had a plan
	}
	steps, err := known.Store.Steps.OfRun(row.ID)
	if err != nil {
		return nil, err
	}
	for i := range steps {
		if step := &steps[i]; step.Next > 1 && step.Reading == "" {
			if step.Reading, err = readingOf(known, steps, step); err != nil {
				return nil, err
			}
		}
	}
	r := endedRun{known, row, steps}
	joined, err := r.joined()
	if err != nil {
		return nil, err
	}
	own := job.JobBudget{}
	if spec := known.Config.Job(row.Job); spec != nil {
		own = spec.Budget
	}
	room, err := known.Caps().Leaves(row, *row.Plan, own)
	if err != nil {
		return nil, err
	}
	ends, err := r.endings(room)
	if err != nil {
		return nil, err
	}
	for i := range ends {
		if end := &ends[i]; end.Short {
			unread, err := known.Store.Steps.Unread(end.step) // hits that were returned and could not be read
			if err != nil {
				return nil, err
			}
			end.Short = int64(end.Seen+unread) < end.Total
		}
	}
	return append(joined, ends...), nil
}

// joined returns an ending for each scan of another run that the run has joined.
func (r *endedRun) joined() (all []Ending, err error) {
	for i := range r.steps {
		step := &r.steps[i]
		if step.Joined == 0 {
			continue
		}
		scan, err := r.Store.Scans.OfStep(step.ID)
		if err != nil {
			return nil, err
		}
		if scan != nil && scan.Run != r.row.ID {
			all = append(all, Ending{Search: step.Name(), Of: -1,
				Joined: scan.ScanID, StartedBy: scan.Job, StartedAt: scan.Intended.In(r.Config.Timezone)})
		}
	}
	return all, nil
}

// endings returns how the steps ended. room is what is left under all caps: the credits saved by
// searches that ended early are limited to it, because what could not have been spent is not saved. Nor are
// the pages that the journal has. Each page reused from the journal saved its price.
func (r *endedRun) endings(room outlier.Credits) (all []Ending, err error) {
	for i := range r.steps {
		step := &r.steps[i]
		if step.Query.Op() == outlier.OpStartScan && step.Stop != runs.StopTime && step.Stop != plan.StopShare {
			continue
		}
		end := r.ending(step)
		if end.Early != "" && !end.Short {
			left := untaken(r.row.Plan, step)
			journaled, err := pagesKnown(r.Reader, r.row.Plan, r.steps, step, left)
			if err != nil {
				return nil, err
			}
			end.Saved = fitting(&room, left-journaled, step.Query.Price(r.Config.Service.Prices))
		}
		all = append(all, end)
	}
	return all, nil
}

// fitting takes the price of the given pages, or of as many as fit, out of room and returns it.
func fitting(room *outlier.Credits, pages int, price outlier.Credits) outlier.Credits {
	if price == 0 {
		return 0
	}
	fit := price * min(outlier.Credits(pages), *room/price)
	*room -= fit
	return fit
}

// ending returns how a step ended, without the credits saved.
func (r *endedRun) ending(s *runs.Step) Ending {
	stored, price := r.row.Plan, s.Query.Price(r.Config.Service.Prices)
	end := Ending{step: s, Search: s.Name(), Pages: s.Pages, Reused: s.Reused, Kept: outlier.Credits(s.Reused) * price,
		Hits: s.Hits, Unread: s.Unread, Of: reachable(stored, s), Seen: s.Seen, Total: s.Total}
	if s.Next > 1 {
		end.Paging = s.Reading
	}
	if end.FoundNothing() {
		end.Filters, _ = job.FiltersAndSort(s.Query)
		end.Window = s.Window
	}
	switch s.Stop {
	case plan.StopFresh:
		end.Fresh = true
	case "", runs.StopTime, plan.StopShare, runs.StopUnreadable, runs.StopMissing:
		if left := leftOf(stored, s); left != 0 && (s.Stop != runs.StopUnreadable || facts.CanSkipPage(s)) {
			end.Cut, end.Left, end.More = true, left, -1
			if left > 0 {
				end.More = outlier.Credits(left) * price
			}
			if s.Query.Op() == outlier.OpStartScan {
				end.More = stored.PriceOfScan(r.Config.Service.Prices, s.Ordinal)
			}
		}
	case runs.StopPages:
		end.Left = facts.Beyond(s)
		end.Limited = end.Left != 0 && s.Query.Op() != outlier.OpTrendingFormats
		end.Short = end.Left == 0 && int64(s.Seen) < s.Total
		if end.More = -1; end.Left >= 0 {
			end.More = outlier.Credits(end.Left) * price
		}
	default:
		if s.Next < stored.PagesOf(s.Ordinal) {
			end.Early = early[s.Stop]
		}
		end.Short = s.Stop != runs.StopKnown && s.Stop != plan.StopPrice && early[s.Stop] != "" && int64(s.Seen) < s.Total
	}
	return end
}

// untaken returns the number of pages that the service had and that a search did not take because it
// ended early, up to the pages of the run; 0 for a search that ended because there were no more hits.
func untaken(f *plan.Stored, s *runs.Step) int {
	if s.Stop != runs.StopKnown && s.Stop != runs.StopRepeated {
		return 0
	}
	there := (int(s.Total) - s.Hits + outlier.MaxSize - 1) / outlier.MaxSize
	return max(0, min(there, f.PagesOf(s.Ordinal)-s.Pages))
}

// leftOf returns how many pages of a cut search were not taken; -1 if unknown.
func leftOf(f *plan.Stored, s *runs.Step) int {
	if s.Query.Op() == outlier.OpTrendingFormats {
		return 1 - s.Pages
	}
	return facts.PagesLeft(f, s)
}

// reachable returns how many hits the job's pages could have returned; -1 while the service has
// reported no total.
func reachable(f *plan.Stored, s *runs.Step) int64 {
	if s.Total < 0 || f.PagesOf(s.Ordinal) == job.AllPages {
		return s.Total
	}
	return min(s.Total, int64(f.PagesOf(s.Ordinal))*outlier.MaxSize)
}

// Leaves reports whether the search left pages that a run can buy; see [job.Spec.RestOf].
func (e *Ending) Leaves() bool { return e.Limited || e.Cut && e.Left != 0 }

// message returns the log message of an ending; "" for an ordinary one.
func (e *Ending) message() string {
	switch {
	case e.Short:
		return "search incomplete"
	case e.FoundNothing():
		return "search found nothing"
	case e.Early != "":
		return "search ended early"
	case e.Cut:
		return "search cut"
	case e.Limited:
		return "search limited by pages"
	case e.Fresh:
		return "search skipped as fresh"
	}
	return ""
}

// Attrs returns the ending as log attributes. Unknown values and savings of zero are omitted, and so is
// whether it is a cut, which the message says.
func (e *Ending) Attrs() []any {
	attrs := []any{"search", e.Search, "pages", e.Pages, "hits", e.Hits}
	add := func(known bool, name string, value any) {
		if known {
			attrs = append(attrs, name, value)
		}
	}
	add(e.Joined != "", "joined", e.Joined)
	add(e.Joined != "", "started_by", e.StartedBy)
	add(e.Of >= 0, "of", e.Of)
	add(e.Early != "", "early", e.Early)
	add(e.Fresh, "fresh", e.Fresh)
	add(len(e.Filters) > 0, "filters", e.Filters)
	add(e.Window != "", "window", e.Window)
	add(e.Unread > 0, "unreadable", e.Unread)
	add(e.Reused > 0, "pages_reused", e.Reused)
	add(e.Kept+e.Saved > 0, "credits_saved", e.Kept+e.Saved)
	add(e.Limited || e.Short, "seen", e.Seen)
	add((e.Limited || e.Short) && e.Total >= 0, "total", e.Total)
	add((e.Cut || e.Limited) && e.Left >= 0, "pages_left", e.Left)
	add((e.Cut || e.Limited) && e.More >= 0, "credits_left", e.More)
	return attrs
}

// Unseen returns how many of the hits that the service counts the search has not seen; -1 if the
// service reported no total.
func (e *Ending) Unseen() int64 {
	if e.Total < 0 {
		return -1
	}
	return max(0, e.Total-int64(e.Seen))
}

// MarshalJSON writes an ending with the keys of its log line, and with `cut`, `limited` or `incomplete`
// in place of the message.
func (e Ending) MarshalJSON() ([]byte, error) {
	members, attrs := map[string]any{}, e.Attrs()
	for i := 0; i < len(attrs); i += 2 {
		members[attrs[i].(string)] = attrs[i+1]
	}
	for name, holds := range map[string]bool{"cut": e.Cut, "limited": e.Limited, "incomplete": e.Short} {
		if holds {
			members[name] = true
		}
	}
	members["seen"] = e.Seen
	if e.Total >= 0 {
		members["total"], members["left"] = e.Total, e.Unseen()
	}
	for name, text := range map[string]string{"paging": e.Paging, "rest": e.Rest} {
		if text != "" {
			members[name] = text
		}
	}
	return json.Marshal(members)
}

// sumOf returns the totals of endings as log attributes; totals of zero are omitted.
func sumOf(all []Ending) (attrs []any) {
	cut, limited, reused, saved, more := 0, 0, 0, outlier.Credits(0), outlier.Credits(0)
	for _, e := range all {
		reused, saved, more = reused+e.Reused, saved+e.Kept+e.Saved, more+max(0, e.More)
		switch {
		case e.Cut:
			cut++
		case e.Limited:
			limited++
		}
	}
	if reused > 0 {
		attrs = append(attrs, "pages_reused", reused)
	}
	if saved > 0 {
		attrs = append(attrs, "credits_saved", saved)
	}
	if cut > 0 {
		attrs = append(attrs, "searches_cut", cut)
	}
	if limited > 0 {
		attrs = append(attrs, "searches_limited", limited)
	}
	if cut+limited > 0 {
		attrs = append(attrs, "credits_left", more)
	}
	return attrs
}
