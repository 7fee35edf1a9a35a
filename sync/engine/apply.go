package engine

import (
	"errors"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/outlier"
	"outlierd/schema"
	"outlierd/sync/facts"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// # Answers
//
// An answer is applied in the transaction that settles it: it turns into rows, and what happens next follows from
// the rows. What it is applied to is read then, so an answer that an earlier process received and could not settle
// is applied in the same way when the state is opened.

// An applier turns answers into rows.
type applier struct {
	engine  *Engine
	decoder *schema.Decoder // checks that an answer is usable
}

// A result is what the caller of a call needs to know beside the rows.
type result struct {
	answer  *outlier.Answer // nil if nothing was reserved
	missing bool            // the service does not have the entity
	wrong   error           // why the answer says nothing about its subject; it stays in the journal
	before  *runs.Scan      // the recorded scan that the answer to a start names
}

// apply turns an answer into rows.
func (a applier) apply(tx *store.Tx, kept ledger.Kept) (got result, err error) {
	switch {
	case kept.Step == 0:
		return a.applyToEntity(tx, kept)
	case kept.Op == outlier.OpStartScan:
		got.before, err = a.applyStart(tx, kept)
	case kept.Op == outlier.OpScan:
		got.wrong, err = a.applyPoll(tx, kept)
	default:
		err = a.applyPage(tx, kept)
	}
	return got, err
}

// Apply turns an answer that an earlier process could not settle into rows; see [state.Options].
func (e *Engine) Apply(s *state.Store, tx *store.Tx, kept ledger.Kept) error {
	a := applier{&Engine{Config: e.Config, Store: s, Log: e.Log}, schema.NewDecoder(memory.DefaultAllocator)}
	_, err := a.apply(tx, kept)
	return err
}

// searchOf returns a step and its run; nil if the run will not continue.
func (a applier) searchOf(id int64) (*runs.Run, *runs.Step, error) {
	step, err := a.engine.Store.Steps.Get(id)
	if err != nil || step == nil {
		return nil, nil, err
	}
	row, err := a.engine.Store.Runs.ContinuingRun(step.Run)
	if err != nil || row == nil || row.Plan == nil {
		return nil, nil, err
	}
	return row, step, nil
}

// applyPage records a page. An attempt without an answer leaves the step unchanged, and so does a page that does not
// belong to the search.
func (a applier) applyPage(tx *store.Tx, kept ledger.Kept) error {
	r, step, err := a.searchOf(kept.Step)
	if err != nil || r == nil || step.Stop != "" || step.Next != kept.Page {
		return err
	}
	if step.Began.IsZero() {
		step.Began = a.serviceTimeAt(kept.Answer.SentAt)
	}
	if kept.Answer.Err != nil {
		if step.Stop = stopFor(judge(kept.Answer.Err).kind); step.Stop == "" {
			return nil
		}
		return runs.SaveStep(tx, *step)
	}
	steps, err := a.engine.Store.Steps.OfRun(step.Run)
	if err != nil {
		return err
	}
	at, err := nextPlace(a.engine.Facts(), steps, step)
	if err != nil {
		return err
	}
	body, err := kept.Body()
	var page outlier.Page
	if err == nil {
		page, err = a.readPage(step, body)
	}
	if err != nil {
		step.Stop = runs.StopUnreadable
		return runs.SaveStep(tx, *step)
	}
	if err := ledger.Paging(tx, kept, page.From, page.Size, page.Total); err != nil {
		return err
	}
	belongs, err := a.recordPage(tx, r, step, at, page)
	if err == nil && !belongs {
		err = errors.Join(journal.SetAside(tx, kept.Response), runs.SaveStep(tx, *step))
	}
	return err
}

// serviceTimeAt returns the service's time at a local one.
func (a applier) serviceTimeAt(local time.Time) time.Time {
	return a.engine.Store.Clock.Now().Add(-time.Since(local))
}

// applyStart records what the answer to the start of a scan says. If that names a scan of another intent, it
// returns it; see [runs.RecordStart].
func (a applier) applyStart(tx *store.Tx, kept ledger.Kept) (before *runs.Scan, err error) {
	scan, before, err := runs.RecordStart(tx, kept.Intent, kept.Answer, kept.Outcome)
	if err != nil || scan.ScanID == "" {
		return before, err
	}
	r, _, err := a.searchOf(kept.Step)
	if err != nil || r == nil {
		return before, err
	}
	planPoll(scan, r.Plan, a.engine.Store.Clock.Now())
	return before, runs.SaveScan(tx, *scan)
}

// applyPoll updates a scan from an answer about it. If that cannot be read, or is about another scan, wrong says so,
// and the next poll may say more.
func (a applier) applyPoll(tx *store.Tx, kept ledger.Kept) (wrong, err error) {
	r, step, err := a.searchOf(kept.Step)
	if err != nil || r == nil || kept.Answer.Err != nil {
		return nil, err
	}
	scan, err := a.engine.Store.Scans.OfStep(step.ID)
	if err != nil || scan == nil || scan.State != runs.ScanRunning {
		return nil, err
	}
	body, wrong := kept.Body()
	if wrong != nil {
		return wrong, nil
	}
	seen, wrong := readScan(body, scan.ScanID)
	if wrong != nil {
		return wrong, nil
	}
	now := a.engine.Store.Clock.Now()
	countPoll(scan, r.Plan, now)
	scan.Saw(seen, kept.Answer.ReceivedAt)
	planPoll(scan, r.Plan, now)
	return nil, runs.SaveScan(tx, *scan)
}

// applyToEntity records what an answer says about an entity. If it says nothing about it, the task stays in the
// queue. A refused request is not retried soon, because it would be refused again.
func (a applier) applyToEntity(tx *store.Tx, kept ledger.Kept) (got result, err error) {
	answer, refused := kept.Answer, false
	switch kind := judge(answer.Err).kind; {
	case answer.Err == nil:
		got.missing, got.wrong = a.readEntity(kept)
	case kind == outlier.NotFound:
		got.missing = true
	case kind == outlier.Invalid:
		refused = true
	default:
		return got, nil
	}
	if got.wrong != nil {
		return got, nil
	}
	task := queue.Task{Op: kept.Op, Entity: kept.Entity}
	if task.Mark, err = queue.MarkOf(tx, kept.Op, kept.Entity); err != nil {
		return got, err
	}
	retry := time.Time{}
	switch {
	case refused:
		retry = answer.ReceivedAt.Add(refusedFor)
	case got.missing:
		retry = answer.ReceivedAt.Add(missingFor)
	}
	return got, queue.Done(tx, task, kept.Response, got.missing || refused, retry)
}

// readEntity reports whether a complete answer says that the service does not have the entity. wrong is set if the
// answer says nothing about it: then the sinks would store no row of it.
func (a applier) readEntity(kept ledger.Kept) (missing bool, wrong error) {
	body, err := kept.Body()
	if err == nil && outlier.Empty(kept.Op, kept.Entity, body) {
		return true, nil
	}
	if err == nil {
		_, err = a.decoder.Check(schema.Source{Op: kept.Op, Entity: kept.Entity}, body)
	}
	if err != nil {
		return false, &outlier.Error{Kind: outlier.Malformed, Op: kept.Op, Entity: kept.Entity,
			Status: kept.Answer.Status, Message: "not usable", Cause: err}
	}
	return false, nil
}

// recordPage records the page's hits and advances the step, if the page belongs to its search. A search that ends by
// itself moves the job's watermark, whatever happens to the rest of its run, unless the run has overrides.
func (a applier) recordPage(tx *store.Tx, of *runs.Run, step *runs.Step, at place, page outlier.Page) (belongs bool, err error) {
	if belongs, err = a.learnPaging(tx, of, step, at, page); err != nil || !belongs {
		return false, err
	}
	hits := hitsOf(of.Plan, step, page)
	known, err := runs.Sighted(tx, step, hits)
	if err != nil {
		return true, err
	}
	seen, err := runs.AddHits(tx, of.ID, step.ID, step.Next, step.Seen, hits)
	if err != nil {
		return true, err
	}
	distinct := len(runs.VideoIDs(hits))
	seen.Distinct = distinct - known // less those that this search, or the one it continues, has seen
	step.Stop = decideStop(of.Plan, step, at, page, seen, distinct)
	if step.Stop != runs.StopMissing { // else the rest begins with this page
		step.Next++
	}
	step.Pages++
	step.Hits += len(page.Hits)
	step.Unread += unread(page)
	step.NewHits += seen.New
	step.Seen += seen.Distinct + forgotten(page)
	step.Total = max(step.Total, page.Total)
	noteOldest(step, page)
	if step.Stop == "" && of.Plan.Auto != nil {
		steps, err := a.engine.Store.Steps.OfRun(step.Run)
		if err != nil {
			return true, err
		}
		step.Stop = of.Plan.Auto.StopAfter(steps, step)
	}
	switch step.Stop {
	case runs.StopPages, plan.StopShare, runs.StopUnreadable, runs.StopMissing:
		step.Left = facts.PagesLeft(of.Plan, step)
	}
	if of.Plan.Teaches() {
		if err := moveCursors(tx, of, step); err != nil {
			return true, err
		}
	}
	return true, runs.SaveStep(tx, *step)
}

// moveCursors records what a search has covered, and that its seeds were bought.
func moveCursors(tx *store.Tx, of *runs.Run, step *runs.Step) error {
	complete := runs.Covered(step.Stop) && step.Unread == 0
	if complete {
		if err := runs.Cover(tx, of.ID, step.ID); err != nil {
			return err
		}
	}
	mark := runs.Watermark{Job: of.Job, Key: step.Watermark, At: step.Began, Run: of.ID}
	if step.Watermark != "" && complete {
		if err := runs.MoveWatermark(tx, mark); err != nil {
			return err
		}
	}
	bought := step.Stop != runs.StopUnreadable && step.Stop != runs.StopMissing
	if mark.Key = facts.BoughtKey(step.Watermark); len(step.Seeds) == 0 || !bought {
		return nil
	}
	return runs.MoveWatermark(tx, mark)
}
