package engine

import (
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// Progress is what a run has done and what it has left, for display.
type Progress struct {
	Job, Run string
	Started  time.Time
	Searches Searches
	Pages    int // maximum for each search; job.AllPages if only the budget limits it
	Done     int // data calls answered, including by "not found"
	Queued   int // data calls left
	Spend    ledger.Spend
	Pace     pace.Status
	Until    time.Time       // when the scan is polled that the run waits for; zero if it waits for none
	Cap      outlier.Credits // of the run, as it began

	// Left is the minimum time that the known pages and data calls take at the current rate limit. It
	// assumes that no other job makes calls, as while a command performs a run. Package forecast
	// estimates what a daemon has left to do.
	Left time.Duration
}

// Searches is what the searches of a run have brought so far, together.
type Searches struct {
	All, Ended int
	Scan       bool // the run waits for one, or is about to start it
	Pages      int
	Left       int // pages that may follow; 0 if only the budget limits them
	Hits, New  int
}

// addSteps adds the steps of a run with at most so many pages for each search.
func (s *Searches) addSteps(steps []runs.Step, most int) {
	for i := range steps {
		step := &steps[i]
		isOpen, isScan := step.Stop == "", step.Query.Op() == outlier.OpStartScan
		s.All, s.Pages, s.Hits, s.New = s.All+1, s.Pages+step.Pages, s.Hits+step.Hits, s.New+step.NewHits
		switch {
		case !isOpen:
			s.Ended++
		case isScan:
			s.Scan = true
		case most != job.AllPages:
			s.Left += most - step.Next
		}
	}
}

// dataCalls are the operations of data calls.
var dataCalls = []outlier.Operation{
	outlier.OpDetails, outlier.OpComments, outlier.OpTranscript, outlier.OpChannelVideos, outlier.OpChannelShorts,
}

// ProgressOf returns the progress of a run.
func (e *Engine) ProgressOf(id string) (Progress, error) {
	row, err := e.Store.Runs.Get(id)
	if err != nil {
		return Progress{}, err
	}
	return progressOf(e.Store, e.Pace, row)
}

// progressOf returns the progress of a run, as its rows say; that of none if it is nil.
func progressOf(in *state.Store, limit *pace.Limiter, row *runs.Run) (p Progress, err error) {
	if row == nil || row.Plan == nil {
		return Progress{Pace: limit.Status()}, nil
	}
	id := row.ID
	p = Progress{Job: row.Job, Run: id, Started: row.Started, Pages: row.Plan.MostPages(), Cap: row.Plan.Cap}
	steps, err := in.Steps.OfRun(id)
	if err != nil {
		return p, err
	}
	p.Searches.addSteps(steps, p.Pages)
	if p.Spend, err = in.Ledger.Spent(id); err != nil {
		return p, err
	}
	calls, err := in.Calls.ByOperation(id)
	if err != nil {
		return p, err
	}
	for _, c := range calls {
		if slices.Contains(dataCalls, c.Op) {
			p.Done += c.Answered
		}
	}
	for i := range steps {
		if step := &steps[i]; step.Stop == "" && step.Query.Op() == outlier.OpStartScan {
			scan, err := in.Scans.OfStep(step.ID)
			if err != nil {
				return p, err
			}
			if scan != nil && scan.State == runs.ScanRunning {
				p.Until = soonest(p.Until, scan.NextPoll)
			}
		}
	}
	if p.Queued, err = in.Queue.Queued(queue.Filter{Job: p.Job}); err != nil {
		return p, err
	}
	p.Pace, p.Left = limit.Status(), limit.ETA(p.Queued+p.Searches.Left)
	return p, nil
}
