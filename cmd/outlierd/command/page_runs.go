package command

import (
	"fmt"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/report"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// listRuns returns a page of the runs that match a filter.
func listRuns(store *state.Store, f runs.Filter, zone *time.Location) (*page.Runs, error) {
	all, err := listLast(store, f, page.RunsPerPage+1, zone)
	shown := min(len(all), page.RunsPerPage)
	return &page.Runs{Runs: all[:shown], Statuses: statuses, More: shown < len(all)}, err
}

// listLast returns the last runs that match a filter, the newest first.
func listLast(store *state.Store, f runs.Filter, most int, zone *time.Location) (all []runs.Run, err error) {
	for r, err := range store.Runs.Newest(f) {
		if err != nil {
			return nil, err
		}
		if all = append(all, localize(r, zone)); len(all) == most {
			break
		}
	}
	return all, nil
}

// localize returns a run with its times in the zone of the page.
func localize(r *runs.Run, zone *time.Location) runs.Run {
	r.Started = r.Started.In(zone)
	return *r
}

// readRun returns one run with its searches and a page of its calls.
func readRun(store *state.Store, id string, number int, zone *time.Location) (*page.RunDetails, error) {
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
	d.Run = localize(&d.Run, zone)
	all := &page.RunDetails{Run: d, In: report.Style{Zone: zone}}
	all.Attempts, all.Count, err = store.Calls.PartOfRun(id, (number-1)*page.CallsPerPage, page.CallsPerPage)
	for i := range all.Attempts {
		all.Attempts[i].SentAt = all.Attempts[i].SentAt.In(zone)
	}
	return all, err
}
