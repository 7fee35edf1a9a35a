package engine

import (
	"context"
	"errors"
	"time"

	"outlierd/sync/journal"
	"outlierd/sync/store"
)

// # Retention
//
// The scheduler prunes the journal as `retention` says, in short transactions and only while no call can
// leave. It keeps the bodies of answers that a sink has not published, or that a job may reuse. Age is measured by the
// time agreed on with the service: a local clock that is years ahead must not prune everything.

// pruneEvery is the interval of checks for answers to prune once none are left.
const pruneEvery = maxRest

// upkeep performs one step of pruning, or returns some space to the disk. It returns when the next step may
// follow: the database is then left alone for as long as the step took.
func (w *worker) upkeep() (again time.Time, err error) {
	began := time.Now()
	if began.Before(w.pruneAt) {
		return w.pruneAt, nil
	}
	w.pruneAt = began.Add(pruneEvery)
	more, err := w.pruneStep()
	switch {
	case store.IsLocked(err): // another program is using it, such as a backup
		return w.pruneAt, nil
	case err == nil && more:
		w.pruneAt = time.Now().Add(time.Since(began))
	}
	return w.pruneAt, err
}

func (w *worker) pruneStep() (more bool, err error) {
	if w.engine.Config.Retention == 0 {
		return false, nil
	}
	mark, err := w.engine.Store.Journal.Pruned()
	if err != nil {
		return false, err
	}
	if w.pruned < 0 {
		w.pruned = mark
	}
	keep, may, err := w.keep()
	if err == nil && may {
		more, err = w.engine.Store.Journal.Prune(keep)
	}
	if err != nil || more {
		return more, err
	}
	if mark > w.pruned {
		w.engine.log().Info("journal pruned", "answers", mark-w.pruned, "up_to", mark)
		w.pruned = mark
	}
	return w.engine.Store.DB.GiveBack()
}

// keep returns which answers keep their bodies now. It reports false if all do, also because that cannot
// be determined.
func (w *worker) keep() (k journal.Keep, known bool, err error) {
	now, known, err := w.engine.Store.Ledger.CertainTime()
	if err != nil || !known {
		return k, false, err
	}
	shown, known := w.loader.ShownByAll()
	if !known {
		return k, false, nil
	}
	k.UpTo = shown.Answers
	config := w.engine.Config
	k.Since = now.Add(-max(config.Least(), config.Retention))
	kept, err := w.engine.Store.Journal.Kept()
	return k, err == nil && kept.Since.Before(k.Since), err // usually nothing is old
}

// Prune prunes all that may be pruned now, and returns the space to the disk. After each step it calls at
// with the last pruned answer. Sinks that lack answers are brought up to date first, because what they
// lack is kept. If none does, nothing is published: a disk that pruning is to relieve may have no
// space for that.
func (e *Engine) Prune(ctx context.Context, at func(pruned int64)) error {
	w, err := newWorker(ctx, e)
	if err != nil {
		return err
	}
	end, err := e.Store.Journal.End()
	if err != nil {
		return err
	}
	if shown, known := w.loader.ShownByAll(); !known || shown.Answers < end {
		if err := w.publish(ctx); err != nil {
			return err
		}
	}
	if err := w.loader.Problems(); err != nil {
		return err
	}
	if _, known, err := e.Store.Ledger.CertainTime(); err != nil {
		return err
	} else if !known && e.Config.Retention > 0 {
		return errors.New("no answer of the service has had a date yet, so the age of answers is unknown")
	}
	for more := true; more; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if more, err = w.pruneStep(); err != nil {
			return err
		}
		pruned, err := e.Store.Journal.Pruned()
		if err != nil {
			return err
		}
		at(pruned)
	}
	return nil
}
