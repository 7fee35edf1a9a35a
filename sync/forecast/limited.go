package forecast

import (
	"cmp"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

// limitedFrom is the number of runs that show whether `pages` is too small for a job.
const limitedFrom = 3

// Limited is what a job's `pages` left out in each of its latest runs.
type Limited struct {
	Runs    int             `json:"runs"`    // number of runs
	Pages   int             `json:"pages"`   // the job's limit for each search
	Search  string          `json:"search"`  // the search that left out most in the last run
	Seen    int             `json:"seen"`    // hits of that search
	Total   int64           `json:"total"`   // hits of that search according to the service
	All     int             `json:"all"`     // the most pages that a search of the last run needed to be complete
	Credits outlier.Credits `json:"credits"` // what the missing pages would have cost
}

// Limited returns what `pages` left out in each of the latest runs with as many pages as spec has now;
// nil if there are none, or one of them was complete. Overridden runs do not count.
func (r *Reader) Limited(spec *job.Spec) (*Limited, error) {
	pages := cmp.Or(spec.Pages, 1)
	if pages == job.AllPages {
		return nil, nil
	}
	rows, err := r.Facts.Store.Runs.OwnRuns(spec.Name, limitedFrom)
	if err != nil {
		return nil, err
	}
	var last *Limited
	for i := range rows {
		if rows[i].Status != runs.OK && rows[i].Status != runs.Partial {
			continue
		}
		if rows[i].Plan == nil || rows[i].Plan.PagesOf(0) != pages {
			break // earlier runs had other `pages`
		}
		of, err := r.limitedIn(&rows[i])
		if of == nil || err != nil {
			return nil, err
		}
		if last == nil {
			last = of
		}
		last.Runs, last.Pages = last.Runs+1, pages
	}
	return last, nil
}

// limitedIn returns what `pages` left out in one run; nil if nothing.
func (r *Reader) limitedIn(run *runs.Run) (*Limited, error) {
	steps, err := r.Facts.Store.Steps.OfRun(run.ID)
	if err != nil {
		return nil, err
	}
	var of *Limited
	for i := range steps {
		step := &steps[i]
		left := facts.Beyond(step)
		if step.Stop != runs.StopPages || left <= 0 || step.Query.Op() == outlier.OpTrendingFormats {
			continue
		}
		if of == nil {
			of = &Limited{}
		}
		if unseen := step.Total - int64(step.Seen); of.Search == "" || unseen > of.Total-int64(of.Seen) {
			of.Search, of.Seen, of.Total = step.Name(), step.Seen, step.Total
		}
		of.All = max(of.All, step.Next+left)
		of.Credits += outlier.Credits(left) * r.Facts.PriceOf(step)
	}
	return of, nil
}
