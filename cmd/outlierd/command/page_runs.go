package command

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// runsOnRecord provides the pages of runs. It reads only the store, which is available even while the
// schedule makes a call.
type runsOnRecord struct {
	store *state.Store
	zone  *time.Location
}

// runs returns the runs that match a filter.
func (c runsOnRecord) runs(_ context.Context, f page.RunFilter) (*page.Runs, error) {
	list := &page.Runs{Statuses: statuses}
	for r, err := range c.store.Runs.Newest(runs.Filter{Job: f.Job, Status: runs.Status(f.Status), Before: f.Before}) {
		if err != nil {
			return nil, err
		}
		if len(list.Runs) == page.RunsPerPage {
			list.More = true
			break
		}
		list.Runs = append(list.Runs, c.row(r))
	}
	return list, nil
}

// last returns the last runs of all jobs.
func (c runsOnRecord) last(most int) (all []page.Run, err error) {
	for r, err := range c.store.Runs.Newest(runs.Filter{}) {
		if err != nil {
			return nil, err
		}
		row := c.row(r)
		row.Started = page.Near(time.Now().In(c.zone), r.Started.In(c.zone))
		if all = append(all, row); len(all) == most {
			break
		}
	}
	return all, nil
}

// spark returns how many hits were new in the last runs of a job, the oldest first, and which of them failed.
func (c runsOnRecord) spark(job string) (found []float64, failed []bool, err error) {
	for r, err := range c.store.Runs.Newest(runs.Filter{Job: job}) {
		if err != nil {
			return nil, nil, err
		}
		found, failed = append(found, float64(r.NewHits)), append(failed, r.Status == runs.Failed)
		if len(found) == sparkRuns {
			break
		}
	}
	slices.Reverse(found)
	slices.Reverse(failed)
	return found, failed, nil
}

func (c runsOnRecord) row(r *runs.Run) page.Run {
	row := page.Run{
		ID: r.ID, Short: r.ID[:min(shortID, len(r.ID))], Job: shown(r.Job), Status: string(r.Status), Level: levels[r.Status],
		Started: r.Started.In(c.zone).Format("2006-01-02 15:04"), Hits: r.Hits, New: r.NewHits,
		Credits: int64(r.Credits), Error: r.Error,
	}
	if !r.Ended.IsZero() {
		row.Took = term.Duration(r.Ended.Sub(r.Started))
	}
	return row
}

// run returns one run with its searches and calls.
func (c runsOnRecord) run(_ context.Context, id string) (*page.RunDetails, error) {
	row, err := c.store.Runs.Get(id)
	if err == nil && row == nil {
		err = fmt.Errorf("run %.40q: %w", id, page.ErrUnknown)
	}
	if err != nil {
		return nil, err
	}
	d, err := detailsOf(c.store, row)
	if err != nil {
		return nil, err
	}
	all := &page.RunDetails{Run: c.row(row)}
	printer := &planPrinter{zone: c.zone}
	for _, facts := range [][]string{
		d.timing(printer), found(&d.Run, d.Unknown, len(d.Searches) > 0), undone(&d.Run, d.Queued),
		tableCounts(d.Rows, nil),
	} {
		if len(facts) > 0 {
			all.Summary = append(all.Summary, strings.Join(facts, " · "))
		}
	}
	if d.RestOf != "" {
		all.Summary = append(all.Summary, "the rest of run "+d.RestOf)
	}
	if why := d.why(); why != "" {
		all.Summary = append(all.Summary, why)
	}
	for _, s := range d.Searches {
		all.Searches = append(all.Searches, searchShown(&s))
	}
	calls, err := c.store.Ledger.CallsOf(id)
	if err != nil {
		return nil, err
	}
	steps, err := c.store.Runs.Steps(id)
	if err != nil {
		return nil, err
	}
	searched := map[int64]string{}
	for i := range steps {
		searched[steps[i].ID] = steps[i].Name()
	}
	for i := range calls {
		all.Calls = append(all.Calls, c.call(&calls[i], searched[calls[i].Step]))
	}
	slices.SortStableFunc(all.Calls, func(a, b page.Call) int { return a.Asked.Compare(b.Asked) })
	return all, nil
}

func searchShown(s *searchDetails) page.Search {
	row := page.Search{
		Name: s.Name(), Operation: string(s.Op), Pages: int64(s.Pages), Hits: int64(s.Hits), New: int64(s.NewHits),
		Credits: int64(s.Credits), Total: s.Total, Stop: s.Stop,
	}
	if s.Left != nil {
		row.Left = new(int64(*s.Left))
	}
	return row
}

// call converts an attempt, which is about an id or belongs to a search.
func (c runsOnRecord) call(l *ledger.Call, search string) page.Call {
	left := l.SentAt
	if left.IsZero() {
		left = l.AnsweredAt // when it was cancelled
	}
	call := page.Call{
		Operation: string(l.Op), About: cmp.Or(l.Entity, search), Asked: left.Add(-l.Waited), Sent: l.SentAt,
		Answered: l.AnsweredAt, Credits: int64(l.Price),
		Bad: l.Outcome != outlier.Charged && l.Outcome != "" && l.Status != http.StatusNotFound,
	}
	switch {
	case l.Outcome == "":
		call.Status = "under way"
	case l.SentAt.IsZero():
		call.Status = "not sent"
	case l.Status == 0:
		call.Status = string(l.Outcome)
	default:
		call.Status = fmt.Sprint("HTTP ", l.Status)
	}
	if l.Outcome == outlier.Refunded {
		call.Credits = 0
	}
	if !left.IsZero() {
		call.At = left.In(c.zone).Format("2006-01-02 15:04:05")
	}
	return call
}
