package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// An entity that the service does not have is requested again after missingFor, and one that it refused
// after refusedFor. A call that failed is retried after failedPause times the number of failures.
const (
	missingFor  = 30 * 24 * time.Hour
	refusedFor  = 7 * 24 * time.Hour
	failedPause = 15 * time.Minute
)

// failuresInARow is the number of consecutive failures after which the queue is paused: by then the
// service is the problem rather than the entities.
const failuresInARow = 5

// queueEnrichment ranks the run's hits that enrich.where admits, and queues the calls about the best
// ones. Fresh ones among them are not replaced by the next best. For a watch it queues the calls about its channels or
// videos. In the same transaction the run's searches have ended, and its follow-ups are recorded.
func (r *run) queueEnrichment(steps []runs.Step) error {
	best := make([][]runs.Hit, len(r.row.Plan.Enrich))
	for i, e := range r.row.Plan.Enrich {
		var err error
		choice := runs.Choice{Most: e.Top, Each: e.TopPerItem, Desc: !r.row.Plan.Ascending}
		best[i], err = r.engine.Store.Hits.Best(r.row.ID, choice)
		if err != nil {
			return err
		}
	}
	err := r.engine.Store.DB.Update(func(tx *store.Tx) (err error) {
		r.row.Skipped = 0
		for i, e := range r.row.Plan.Enrich {
			since := earlier(job.FreshSince(time.Now(), e.RefreshAfter), r.row.Started) // what this run requested is fresh
			err = errors.Join(err, r.queueCalls(tx, e, best[i], since))
		}
		for _, e := range r.row.Plan.Fetch {
			err = errors.Join(err, r.queueCalls(tx, e, entities(r.row.Plan.IDs), r.row.Plan.FreshSince(e, time.Now())))
		}
		if r.isByHand() {
			err = errors.Join(err, queue.RetryNow(tx, r.row.Job))
		}
		return errors.Join(err, runs.NoteDues(tx, r.followUps(steps)), runs.EndSearches(tx, r.row.ID, r.row.Skipped))
	})
	if err != nil {
		return fmt.Errorf("queue data calls of run %s: %w", r.row.ID, err)
	}
	r.row.Searched = true
	err = r.read(r.engine.Store, time.Now(), nil)
	if r.pending && !r.spent && len(steps) > 0 { // else the end of the run publishes
		r.worker.loader.PagesIn = true
	}
	return err
}

// entities returns ids in the form of hits.
func entities(ids []string) (all []runs.Hit) {
	for _, id := range ids {
		all = append(all, runs.Hit{VideoID: id, ChannelID: id})
	}
	return all
}

// queueCalls queues the calls for one line of `enrich`: one for each video, or one for each channel of the
// videos. Neither hits nor ids repeat a video. Data received after since is fresh. It counts the calls that are skipped
// because the data is fresh, without data that the run itself requested before it was interrupted.
func (r *run) queueCalls(tx *store.Tx, e job.Call, best []runs.Hit, since time.Time) error {
	channels := map[string]bool{}
	for rank, hit := range best {
		task := queue.Task{
			Op: e.Op, Entity: hit.VideoID, Run: r.row.ID, Job: r.row.Job,
			Value: float64(e.Value) - float64(rank)/1e6, MaxAge: time.Since(since),
			Once: job.IsOnce(r.row.Job),
		}
		switch e.Op {
		case outlier.OpChannelVideos, outlier.OpChannelShorts:
			if task.Entity = hit.ChannelID; channels[hit.ChannelID] {
				continue
			}
			channels[hit.ChannelID] = true
		case outlier.OpComments:
			task.Mark = hit.Comments // if unchanged since the last fetch, there are no new comments
		}
		// The service would refuse an id that breaks the interface's pattern: the hit keeps its
		// row, but no call is made about it.
		if _, err := outlier.DataRequest(e.Op, task.Entity); err != nil {
			continue
		}
		learned, known, err := r.engine.Store.Queue.Add(tx, task)
		if err != nil {
			return fmt.Errorf("%s: %w", task, err)
		}
		if known && learned.Before(r.row.Started) {
			r.row.Skipped++
		}
	}
	return nil
}

// perform makes one data call and updates its queue row in the transaction of the answer. "Not found" is
// an answer as well. waiters are the runs in progress that wait for it. The call is recorded for the run that
// queued it, and counts for the first of them if that is not one of them.
func (w *worker) perform(ctx context.Context, task *queue.Task, waiters []*run) error {
	request, err := outlier.DataRequest(task.Op, task.Entity)
	if err != nil {
		return err
	}
	purchase := ledger.Purchase{Run: task.Run, Job: task.Job}
	if own := func(r *run) bool { return r.row.ID == task.Run }; len(waiters) > 0 && !slices.ContainsFunc(waiters, own) {
		purchase.CountsFor = waiters[0].row.ID
	}
	got, err := w.calls.fetch(ctx, request, purchase, &task.Tries)
	if err == nil {
		err = got.wrong
	}
	switch v := judge(err); {
	case got.missing:
		return countCall(w.engine.Store.DB, waiters, false)
	case v.kind == outlier.Invalid: // removed from the queue
		return err
	case err != nil && ctx.Err() == nil && !v.waits() && v.scope < ofRun:
		now := time.Now()
		retry := now.Add(failedPause * time.Duration(task.Attempts+1))
		return errors.Join(err, queue.Fail(w.engine.Store.DB, *task, now, err.Error(), retry))
	}
	return err
}
