package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/schema"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// A search is a step of a run in progress.
type search struct {
	*run
	step *runs.Step
}

// takePage buys the step's next page, or reuses it from the journal. The step advances in the
// transaction that stores the answer.
func (s search) takePage(ctx context.Context, steps []runs.Step) error {
	at, err := nextPlace(s.engine.Facts(), steps, s.step)
	if err != nil {
		return err
	}
	request, err := s.step.Query.Page(at.from, s.engine.Config.Service.Prices)
	if err != nil {
		return err
	}
	if reused, err := s.reuse(request, at); reused || err != nil {
		return err
	}
	holder, err := facts.Holder(s.engine.Store.Scans, steps, s.step)
	if err != nil {
		return err
	}
	err = s.worker.calls.prepareCall(ctx, request, ledger.Purchase{FromHold: holder})
	if err == nil {
		err = s.checkDates()
	}
	if err == nil {
		_, err = s.worker.calls.fetch(ctx, request, ledger.Purchase{
			Run: s.row.ID, Job: s.row.Job, Step: s.step.ID, Item: s.step.Item,
			Page: s.step.Next, RankBase: s.step.Seen, Caps: s.caps, FromHold: holder,
		}, &s.step.Tries)
	}
	return s.pageResult(err)
}

// pageResult returns what the result of a page means for the run. If the search itself has ended, the
// run continues with the others, and the step keeps the error.
func (s search) pageResult(err error) error {
	step, failed := s.engine.Store.Steps.Get(s.step.ID)
	if failed != nil {
		return errors.Join(err, failed)
	}
	if lost := step.Unread - s.step.Unread; lost > 0 {
		s.engine.log().Warn("hits could not be stored", "job", s.row.Job, "run", s.row.ID,
			"search", step.Name(), "page", s.step.Next+1, "hits", step.Hits-s.step.Hits, "unreadable", lost)
	}
	if err == nil && step.Stop == runs.StopUnreadable && step.Unread == 0 {
		err = errors.New("the answer is not a search result; it was paid for and stays in the journal")
	}
	if err != nil {
		err = fmt.Errorf("page %d of %s: %w", step.Next+1, step.Title(), err)
	}
	if err != nil && runs.Final(step.Stop) { // a problem of this search only
		return s.engine.Store.Steps.Skip(step.ID, err.Error(), false)
	}
	return err
}

// reuse takes the step's next page from the journal if any job has received an answer to an identical
// request within reuse_for. It reports whether it did; that needs no credits and no request.
func (s search) reuse(request *outlier.Request, at place) (bool, error) {
	known, err := findAnswer(s.engine.Store.Journal, request, s.row.Plan.ReuseFor)
	if err != nil || known == nil {
		return false, err
	}
	next := *s.step
	if next.Began.IsZero() {
		next.Began = earlier(known.SentAt, s.engine.Store.Clock.Now())
	}
	page, err := s.worker.calls.readPage(s.step, known.Body)
	if s.isByHand() && (err != nil || len(page.Hits) > 0 && unread(page) == len(page.Hits)) {
		return false, nil // nothing of it could be stored
	}
	if err != nil { // it was unreadable when it arrived, too
		next.Stop = runs.StopUnreadable
		if err := s.saveStep(next); err != nil {
			return true, err
		}
		return true, s.pageResult(fmt.Errorf("the answer that was bought at %s cannot be read (%w); "+
			"with --again the page is bought once more", showTime(known.ReceivedAt, s.engine.Config), err))
	}
	if isMissing(s.step, at, page) && s.row.Trigger == string(Manual) {
		return false, nil // a person asks for what the service did not return then
	}
	next.Reused++
	err = s.engine.Store.DB.Update(func(tx *store.Tx) error {
		belongs, err := s.worker.calls.recordPage(tx, &s.row, &next, at, page)
		if err == nil && !belongs {
			next.Reused = s.step.Reused
			err = runs.SaveStep(tx, next)
		}
		return err
	})
	if err != nil {
		return true, err
	}
	return true, s.pageResult(nil)
}

// findAnswer returns the answer in the journal that can be reused for a request, or nil.
func findAnswer(in *journal.Journal, request *outlier.Request, reuseFor time.Duration) (*journal.Entry, error) {
	if reuseFor <= 0 {
		return nil, nil
	}
	now := time.Now()
	return in.Answered(request.Op(), request.Params().Encode(), job.FreshSince(now, reuseFor), now.Add(ledger.Skew))
}

// InJournal returns how many of the pages that a plan asks for are in the journal, so that they cost nothing.
func InJournal(known *facts.Reader, p *plan.Plan) (pages int, err error) {
	for i := range p.Steps {
		step := &p.Steps[i]
		if step.Stop != "" || step.Query.Op() == outlier.OpStartScan {
			continue
		}
		found, err := pagesKnown(known, &p.Stored, p.Steps, step, p.Stored.PagesOf(step.Ordinal)-step.Next)
		if err != nil {
			return 0, err
		}
		pages += found
	}
	return pages, nil
}

// pagesKnown returns how many of the next pages of a search, up to most, are in the journal.
func pagesKnown(known *facts.Reader, stored *plan.Stored, steps []runs.Step, of *runs.Step, most int) (pages int, err error) {
	for step := *of; pages < most && stored.ReuseFor > 0; pages++ {
		at, err := nextPlace(known, steps, &step)
		if err != nil {
			return 0, err
		}
		request, err := step.Query.Page(at.from, known.Config.Service.Prices)
		if err != nil {
			return 0, err
		}
		if answer, err := findAnswer(known.Store.Journal, request, stored.ReuseFor); answer == nil || err != nil {
			return pages, err
		}
		step.Next, step.Seen = step.Next+1, step.Seen+outlier.MaxSize
	}
	return pages, nil
}

// readPage reads a page as the sinks do. A hit for which the sinks store no row loses its id, because
// nothing more can be done with it.
func (a applier) readPage(step *runs.Step, body []byte) (outlier.Page, error) {
	page, err := outlier.PageOf(step.Query.Op(), body)
	if err != nil {
		return page, err
	}
	if page.Null { // null means no hits unless the service counts more than the search has seen
		left := page.Total - int64(step.Seen)
		if page.Total < 0 {
			return page, errors.New("hits are null")
		}
		page.Hits = make([]outlier.Hit, max(0, min(left, sizeOf(page))))
	}
	lost, err := a.decoder.Check(schema.Source{Op: step.Query.Op()}, body)
	if err != nil && len(page.Hits) == 0 {
		return page, err
	}
	if err != nil {
		clear(page.Hits)
	}
	for _, place := range lost {
		page.Hits[place] = outlier.Hit{}
	}
	return page, nil
}

// hitsOf returns what ranking and enrichment need of the hits of a page. Hits of a search for channels
// are identified by the channel's id.
func hitsOf(of *plan.Stored, step *runs.Step, page outlier.Page) []runs.Hit {
	wanted := outlier.NewHitFilter(step.Query.Op(), of.HitParams())
	hits := make([]runs.Hit, 0, len(page.Hits))
	for _, h := range page.Hits {
		hit := runs.Hit{
			VideoID: h.VideoID, ChannelID: h.ChannelID, Comments: h.Comments, Excluded: !wanted.Admits(h),
		}
		if step.Query.Op() == outlier.OpFindChannels || step.Query.Op() == outlier.OpFindRelatedChannels {
			hit.VideoID = h.ChannelID
		}
		if value, ok := h.SortValue(of.Sort.By); ok {
			hit.Value = &value
		}
		hits = append(hits, hit)
	}
	return hits
}

// unread returns the number of hits of a page that could not be read.
func unread(page outlier.Page) (n int) {
	for _, hit := range page.Hits {
		if idOf(hit) == "" && !hit.Forgotten {
			n++
		}
	}
	return n
}

// forgotten returns the number of hits that were removed from the page because their data was erased.
// They count as seen, because the service still counts them.
func forgotten(page outlier.Page) (n int) {
	for _, hit := range page.Hits {
		if hit.Forgotten {
			n++
		}
	}
	return n
}

func (r *run) saveStep(step runs.Step) error { return runs.SaveStep(r.engine.Store.DB, step) }
