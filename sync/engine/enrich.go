package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/state"
)

// What the service does not have is asked for again after this long; a call that
// failed, after the pause times the number of failures.
const (
	missingFor  = 30 * 24 * time.Hour
	failedPause = 15 * time.Minute
)

// failuresInARow pauses the queue: when this many calls fail one after another, it is the
// service that is ill and not the entity.
const failuresInARow = 5

// worth orders data calls by what one request brings. A channel page holds up to
// 120 uploads and the channel's statistics; a transcript never changes; comments
// are a hundred rows; a hit already carries most of the details. A job may say
// otherwise.
var worth = map[outlier.Operation]float64{
	outlier.OpChannelVideos: 5,
	outlier.OpChannelShorts: 4,
	outlier.OpTranscript:    3,
	outlier.OpComments:      2,
	outlier.OpDetails:       1,
}

// choose ranks the run's hits and queues what is wanted of the best. It is
// idempotent: what is queued or fresh is not queued again. With it the searches are
// over, and the jobs that come after this one owe a run.
func (r *run) choose() error {
	debts := r.debts()
	err := r.Store.Update(func(tx *state.Tx) error {
		for _, e := range r.plan.Enrich {
			best, err := tx.Top(r.row.ID, e.Top, !r.plan.Ascending)
			if err != nil {
				return err
			}
			if _, err := tx.Enqueue(r.tasks(e, best)); err != nil {
				return fmt.Errorf("queue %s calls: %w", e.Op, err)
			}
		}
		for _, debt := range debts {
			if err := tx.Owe(debt); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.searched, r.shift.owing = true, r.shift.owing || len(debts) > 0
	return nil
}

// want queues what a watch asks about its channels or videos.
func (r *run) want() error {
	return r.Store.Update(func(tx *state.Tx) error {
		for _, e := range r.plan.Fetch {
			if _, err := tx.Enqueue(r.tasks(e, entities(r.plan.IDs))); err != nil {
				return fmt.Errorf("queue %s calls: %w", e.Op, err)
			}
		}
		return nil
	})
}

// entities are ids in the place of hits.
func entities(ids []string) []state.Hit {
	var hits []state.Hit
	for _, id := range ids {
		hits = append(hits, state.Hit{VideoID: id, ChannelID: id})
	}
	return hits
}

// tasks are the calls that one line of `enrich` asks for: videos, or the channels
// of those videos, each once.
func (r *run) tasks(e frozenEnrich, best []state.Hit) []state.Task {
	var tasks []state.Task
	known := map[string]bool{}
	for rank, hit := range best {
		entity := hit.VideoID
		if e.Op == outlier.OpChannelVideos || e.Op == outlier.OpChannelShorts {
			entity = hit.ChannelID
		}
		// An id that breaks the interface's pattern would be refused: the hit keeps
		// its row, but nothing is asked about it.
		if _, err := outlier.DataRequest(e.Op, entity); err != nil || known[entity] {
			continue
		}
		known[entity] = true
		task := state.Task{
			Op: e.Op, Entity: entity, Run: r.row.ID, Job: r.row.Job,
			Value: e.Value - float64(rank)/1e6, MaxAge: e.RefreshAfter,
		}
		if e.Op == outlier.OpComments {
			task.Mark = hit.Comments // as many as there were when they were fetched: nothing has been said since
		}
		tasks = append(tasks, task)
	}
	return tasks
}

// fatal errors are not the entity's: every other call would meet them too.
func fatal(err error) bool {
	switch kindOf(err) {
	case outlier.Lost, outlier.Foreign, outlier.Failed, outlier.Malformed, outlier.Invalid, outlier.NoCredits:
		return false
	}
	return true
}

// perform makes one data call and settles its queue row in the transaction of the
// answer. A thing that the service does not have is an answer too. The run that the
// call is for may have ended long ago; the waiters are those under way.
func (s *shift) perform(ctx context.Context, task *state.Task, waiters []*run) error {
	request, err := outlier.DataRequest(task.Op, task.Entity)
	if err != nil {
		return err
	}
	for _, r := range waiters {
		r.doing(fmt.Sprintf("%s %s", task.Op, task.Entity))
	}
	missing := false
	_, err = s.fetch(ctx, request, state.Purchase{
		Run: task.Run, Job: task.Job,
		Commit: func(tx *state.Tx, kept state.Kept) error {
			var err error
			missing, err = settle(tx, task, kept)
			return err
		},
	})
	switch {
	case missing && !unkept(err):
	case err != nil && ctx.Err() == nil && !fatal(err):
		return errors.Join(err, s.postpone(task, err))
	case err != nil:
		return err
	}
	for _, r := range waiters {
		r.answered(task.Op, missing)
	}
	return nil
}

// answered counts a data call that the service has answered.
func (r *run) answered(op outlier.Operation, missing bool) {
	if missing {
		r.progress.Missing++
	}
	r.progress.Done++
	r.progress.Tasks[op]++
	r.updated()
}

// settle notes what an answer says about the task's entity.
func settle(tx *state.Tx, task *state.Task, kept state.Kept) (missing bool, err error) {
	answer := kept.Answer
	if answer.Err != nil && kindOf(answer.Err) != outlier.NotFound {
		return false, nil
	}
	missing = answer.Err != nil
	if !missing {
		if body, err := kept.Body(); err == nil {
			missing = outlier.Empty(task.Op, body)
		}
	}
	var retry time.Time
	if missing {
		retry = answer.ReceivedAt.Add(missingFor)
	}
	return missing, tx.Done(*task, kept.Response, missing, retry)
}

// postpone leaves a failed call in the queue for later.
func (s *shift) postpone(task *state.Task, cause error) error {
	now := time.Now()
	retry := now.Add(failedPause * time.Duration(task.Attempts+1))
	return s.Store.Update(func(tx *state.Tx) error {
		return tx.Fail(*task, now, cause.Error(), retry)
	})
}
