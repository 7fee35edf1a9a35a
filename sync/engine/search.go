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

// takePage buys the step's next page, or reuses it from the journal. The step advances in the
// transaction that stores the answer.
func (r *run) takePage(ctx context.Context, steps []runs.Step, step *runs.Step) error {
	at, err := r.engine.place(steps, step)
	if err != nil {
		return err
	}
	request, err := step.Query.Page(at.from, r.engine.Config.Service.Prices)
	if err != nil {
		return err
	}
	if reused, err := r.reuse(step, request, at); reused || err != nil {
		return err
	}
	holder, err := r.engine.Facts().Holder(steps, step)
	if err != nil {
		return err
	}
	r.doing(fmt.Sprintf("page %d", step.Next+1))
	err = r.worker.prepareCall(ctx, request, ledger.Purchase{FromHold: holder})
	if err == nil {
		err = r.checkDates(step)
	}
	if err == nil {
		_, err = r.worker.fetch(ctx, request, ledger.Purchase{
			Run: r.row.ID, Job: r.row.Job, Step: step.ID, Item: step.Item,
			Page: step.Next, RankBase: step.Seen, Caps: r.caps, FromHold: holder,
		}, &step.Tries)
	}
	return r.pageResult(step, err)
}

// pageResult returns what the result of a page means for the run. If the search itself has ended, the
// run continues with the others, and the step keeps the error. before is the step before the page.
func (r *run) pageResult(before *runs.Step, err error) error {
	step, failed := r.engine.Store.Steps.Get(before.ID)
	if failed != nil {
		return errors.Join(err, failed)
	}
	if lost := step.Unread - before.Unread; lost > 0 {
		r.engine.log().Warn("hits could not be stored", "job", r.row.Job, "run", r.row.ID,
			"search", step.Name(), "page", before.Next+1, "hits", step.Hits-before.Hits, "unreadable", lost)
	}
	r.updated()
	if err == nil && step.Stop == runs.StopUnreadable && step.Unread == 0 {
		err = errors.New("the answer is not a search result; it was paid for and stays in the journal")
	}
	if err != nil {
		err = fmt.Errorf("page %d of %s: %w", step.Next+1, step.Title(), err)
	}
	if err != nil && runs.Final(step.Stop) { // a problem of this search only
		return r.engine.Store.Steps.Skip(step.ID, err.Error(), false)
	}
	return err
}

// reuse takes the step's next page from the journal if any job has received an answer to an identical
// request within reuse_for. It reports whether it did; that needs no credits and no request.
func (r *run) reuse(step *runs.Step, request *outlier.Request, at place) (bool, error) {
	known, err := r.engine.known(request, r.plan.ReuseFor)
	if err != nil || known == nil {
		return false, err
	}
	next := *step
	if next.Began.IsZero() {
		next.Began = earlier(known.SentAt, r.engine.Store.Clock.Now())
	}
	page, err := r.read(step, known.Body)
	if r.byHand && (err != nil || len(page.Hits) > 0 && unread(page) == len(page.Hits)) {
		return false, nil // nothing of it could be stored
	}
	if err != nil { // it was unreadable when it arrived, too
		next.Stop = runs.StopUnreadable
		if err := r.saveStep(next); err != nil {
			return true, err
		}
		return true, r.pageResult(step, fmt.Errorf("the answer that was bought at %s cannot be read (%w); "+
			"with --again the page is bought once more", r.worker.clock(known.ReceivedAt), err))
	}
	if isMissing(step, at, page) && r.row.Trigger == string(Manual) {
		return false, nil // a person asks for what the service did not return then
	}
	next.Reused++
	err = r.engine.Store.DB.Update(func(tx *store.Tx) error {
		belongs, err := r.recordPage(tx, &next, at, page)
		if err == nil && !belongs {
			next.Reused = step.Reused
			err = runs.SaveStep(tx, next)
		}
		return err
	})
	if err != nil {
		return true, err
	}
	return true, r.pageResult(step, nil)
}

// known returns the answer in the journal that can be reused for a request, or nil.
func (e *Engine) known(request *outlier.Request, reuseFor time.Duration) (*journal.Entry, error) {
	if reuseFor <= 0 {
		return nil, nil
	}
	now := time.Now()
	params := request.Params().Encode()
	return e.Store.Journal.Answered(request.Op(), params, now.Add(-reuseFor), now.Add(ledger.Skew))
}

// read reads a page as the sinks do. A hit for which the sinks store no row loses its id, because
// nothing more can be done with it.
func (r *run) read(step *runs.Step, body []byte) (outlier.Page, error) {
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
	lost, err := r.worker.decoder.Check(schema.Source{Op: step.Query.Op()}, body)
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

// hits returns what ranking and enrichment need of the hits of a page. Hits of a search for channels
// are identified by the channel's id.
func (r *run) hits(step *runs.Step, page outlier.Page) []runs.Hit {
	wanted := outlier.NewHitFilter(step.Query.Op(), r.plan.HitParams())
	hits := make([]runs.Hit, 0, len(page.Hits))
	for _, h := range page.Hits {
		hit := runs.Hit{
			VideoID: h.VideoID, ChannelID: h.ChannelID, Comments: h.Comments, Excluded: !wanted.Admits(h),
		}
		if step.Query.Op() == outlier.OpFindChannels || step.Query.Op() == outlier.OpFindRelatedChannels {
			hit.VideoID = h.ChannelID
		}
		if value, ok := h.SortValue(r.plan.Sort); ok {
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

func distinct(hits []runs.Hit) int {
	ids := map[string]bool{}
	for _, hit := range hits {
		if hit.VideoID != "" {
			ids[hit.VideoID] = true
		}
	}
	return len(ids)
}

// pagesLeft returns how many more pages of a step the run may take, or for a step that ended at the
// job's last page how many more the service has; -1 if unknown.
func pagesLeft(f *plan.Stored, step *runs.Step) int {
	if step.Query.Op() == outlier.OpStartScan || step.Query.Op() == outlier.OpTrendingFormats {
		return -1
	}
	beyond := facts.Beyond(step)
	switch step.Stop {
	case runs.StopPages, runs.StopUnreadable, runs.StopMissing:
		return beyond
	}
	left := f.PagesOf(step.Ordinal) - step.Next
	if beyond >= 0 {
		left = min(left, beyond)
	}
	if left > job.AllPages/2 {
		return -1
	}
	return left
}

func (r *run) saveStep(step runs.Step) error {
	return r.engine.Store.DB.Update(func(tx *store.Tx) error { return runs.SaveStep(tx, step) })
}
