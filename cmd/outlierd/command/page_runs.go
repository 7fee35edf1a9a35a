package command

import (
	"context"
	"fmt"
	"slices"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/report"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// runsOnRecord provides the pages of runs. It reads only the store, which is available even while the
// schedule makes a call.
type runsOnRecord struct {
	store *state.Store
	zone  *time.Location
}

// listRuns returns the runs that match a filter.
func (c runsOnRecord) listRuns(_ context.Context, f page.RunFilter) (*page.Runs, error) {
	list := &page.Runs{Statuses: statuses}
	for r, err := range c.store.Runs.Newest(runs.Filter{Job: f.Job, Status: runs.Status(f.Status), Before: f.Before}) {
		if err != nil {
			return nil, err
		}
		if len(list.Runs) == page.RunsPerPage {
			list.More = true
			break
		}
		list.Runs = append(list.Runs, c.localize(r))
	}
	return list, nil
}

// listLast returns the last runs of all jobs.
func (c runsOnRecord) listLast(most int) (all []runs.Run, err error) {
	for r, err := range c.store.Runs.Newest(runs.Filter{}) {
		if err != nil {
			return nil, err
		}
		if all = append(all, c.localize(r)); len(all) == most {
			break
		}
	}
	return all, nil
}

// readSpark returns how many hits were new in the last runs of a job, the oldest first, and which of them failed.
func (c runsOnRecord) readSpark(job string) (found []float64, failed []bool, err error) {
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

// localize returns a run with its times in the zone of the page.
func (c runsOnRecord) localize(r *runs.Run) runs.Run {
	r.Started = r.Started.In(c.zone)
	return *r
}

// readRun returns one run with its searches and calls.
func (c runsOnRecord) readRun(_ context.Context, id string) (*page.RunDetails, error) {
	row, err := c.store.Runs.Get(id)
	if err == nil && row == nil {
		err = fmt.Errorf("run %.40q: %w", id, page.ErrUnknown)
	}
	if err != nil {
		return nil, err
	}
	d, err := runOf(c.store, row)
	if err != nil {
		return nil, err
	}
	all := &page.RunDetails{Run: c.localize(&d.Run), Summary: d.Sentences(report.Style{Zone: c.zone})}
	for i := range d.Searches {
		all.Searches = append(all.Searches, d.Searches[i].Step)
	}
	all.Calls, err = c.store.Calls.OfRun(id)
	for i := range all.Calls {
		all.Calls[i].SentAt = all.Calls[i].SentAt.In(c.zone)
	}
	return all, err
}
