package command

import (
	"fmt"
	"slices"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/report"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// listRuns returns the runs that match a filter.
func listRuns(store *state.Store, f page.RunFilter, zone *time.Location) (*page.Runs, error) {
	list := &page.Runs{Statuses: statuses}
	for r, err := range store.Runs.Newest(runs.Filter{Job: f.Job, Status: runs.Status(f.Status), Before: f.Before}) {
		if err != nil {
			return nil, err
		}
		if len(list.Runs) == page.RunsPerPage {
			list.More = true
			break
		}
		list.Runs = append(list.Runs, localize(r, zone))
	}
	return list, nil
}

// listLast returns the last runs of all jobs.
func listLast(store *state.Store, most int, zone *time.Location) (all []runs.Run, err error) {
	for r, err := range store.Runs.Newest(runs.Filter{}) {
		if err != nil {
			return nil, err
		}
		if all = append(all, localize(r, zone)); len(all) == most {
			break
		}
	}
	return all, nil
}

// readSpark returns how many hits were new in the last runs of a job, the oldest first, and which of them failed.
func readSpark(store *state.Store, job string) (found []float64, failed []bool, err error) {
	for r, err := range store.Runs.Newest(runs.Filter{Job: job}) {
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
func localize(r *runs.Run, zone *time.Location) runs.Run {
	r.Started = r.Started.In(zone)
	return *r
}

// readRun returns one run with its searches and calls.
func readRun(store *state.Store, id string, zone *time.Location) (*page.RunDetails, error) {
	row, err := store.Runs.Get(id)
	if err == nil && row == nil {
		err = fmt.Errorf("run %.40q: %w", id, page.ErrUnknown)
	}
	if err != nil {
		return nil, err
	}
	d, err := runOf(store, row)
	if err != nil {
		return nil, err
	}
	all := &page.RunDetails{Run: localize(&d.Run, zone), Summary: d.Sentences(report.Style{Zone: zone})}
	for i := range d.Searches {
		all.Searches = append(all.Searches, d.Searches[i].Step)
	}
	all.Calls, err = store.Calls.OfRun(id)
	for i := range all.Calls {
		all.Calls[i].SentAt = all.Calls[i].SentAt.In(zone)
	}
	return all, err
}
