package forecast

import (
	"cmp"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// historyOf is the number of earlier runs that are read.
const historyOf = 11

// History has the latest runs of a job that followed the file of their time, newest first.
type History []pastRun

type pastRun struct {
	runs.Run
	steps []runs.Step
}

// ReadHistory reads the history of a job, also under its former name.
func ReadHistory(known *state.Store, spec *job.Spec) (h History, err error) {
	rows, err := known.Runs.OwnRuns(spec.Name, historyOf)
	if more := historyOf - len(rows); err == nil && spec.Was != "" && more > 0 {
		var older []runs.Run
		older, err = known.Runs.OwnRuns(spec.Was, more)
		rows = append(rows, older...)
	}
	for i := 0; i < len(rows) && err == nil; i++ {
		h = append(h, pastRun{Run: rows[i]})
		h[i].steps, err = known.Steps.OfRun(rows[i].ID)
	}
	return h, err
}

// planned returns the newest run that has a plan, nil if there is none: others could not start.
func (h History) planned() *pastRun {
	for i := range h {
		if h[i].Plan != nil {
			return &h[i]
		}
	}
	return nil
}

// Known returns how many of the hits that the runs bought were known before, and the number of these runs. The oldest
// run does not count.
func (h History) Known() (known, hits int64, n int) {
	for i := range h[:max(0, len(h)-1)] {
		if run := &h[i]; run.Credits > 0 && run.Hits > 0 {
			known, hits, n = known+run.Hits-run.NewHits, hits+run.Hits, n+1
		}
	}
	return known, hits, n
}

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
// nil if there are none, or one of them was complete.
func (h History) Limited(spec *job.Spec, prices outlier.Prices) (last *Limited) {
	pages := cmp.Or(spec.Pages, 1)
	if pages == job.AllPages {
		return nil
	}
	for i := range h[:min(limitedFrom, len(h))] {
		run := &h[i]
		if run.Status != runs.OK && run.Status != runs.Partial {
			continue
		}
		if run.Plan == nil || run.Plan.PagesOf(0) != pages {
			break // earlier runs had other `pages`
		}
		of := run.limited(prices)
		if of == nil {
			return nil
		}
		if last == nil {
			last = of
		}
		last.Runs, last.Pages = last.Runs+1, pages
	}
	return last
}

// limited returns what `pages` left out in one run; nil if nothing.
func (p *pastRun) limited(prices outlier.Prices) (of *Limited) {
	for i := range p.steps {
		step := &p.steps[i]
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
		of.Credits += outlier.Credits(left) * step.Query.Price(prices)
	}
	return of
}

// spent is what earlier runs of a job bought, at today's prices.
type spent struct {
	runs              int
	credits, dearest  outlier.Credits
	requests, busiest int64
	used, shares      outlier.Credits // of the runs that had a share of the month: what they bought of it
}

// sumSpent adds up the latest runs that ended well, without those that took pages from the journal or joined a
// scan: a run soon after another one costs less than tomorrow's. If all did, they are added up.
func (h History) sumSpent(prices outlier.Prices) (whole spent) {
	var all spent
	for i := range h[:min(historyOf-1, len(h))] {
		run := &h[i]
		if !run.Status.EndedWell() {
			continue
		}
		bought, reused := outlier.Credits(0), false
		for j := range run.steps {
			step := &run.steps[j]
			bought += priceBought(step, prices)
			reused = reused || step.Reused > 0 || step.Joined != 0
		}
		all.addRun(run, bought)
		if !reused {
			whole.addRun(run, bought)
		}
	}
	if whole.runs == 0 {
		return all
	}
	return whole
}

func (s *spent) addRun(run *pastRun, bought outlier.Credits) {
	s.runs, s.credits, s.requests = s.runs+1, s.credits+bought, s.requests+run.Requests
	s.dearest, s.busiest = max(s.dearest, bought), max(s.busiest, run.Requests)
	if run.Plan != nil && run.Plan.Share != nil && *run.Plan.Share > 0 {
		s.used, s.shares = s.used+bought, s.shares+*run.Plan.Share
	}
}

// priceBought returns what the pages of a step would cost today.
func priceBought(step *runs.Step, prices outlier.Prices) outlier.Credits {
	price := step.Query.Price(prices)
	if step.Query.Op() != outlier.OpStartScan {
		return outlier.Credits(step.Pages-step.Reused) * price
	}
	if step.Began.IsZero() && step.Stop == "" || step.Joined != 0 {
		return 0
	}
	return price
}
