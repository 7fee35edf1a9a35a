package engine

import (
	"slices"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// # Answers of an earlier process
//
// An answer is applied in the transaction that settles it: it turns into rows, and what happens next follows from
// the rows. An answer that an earlier process received and could not settle is applied by the same functions,
// before this process does anything else.

// applyRecovered applies the answers that an earlier process left. One that nothing waits for, or that cannot be
// applied, stays in the journal.
func (w *worker) applyRecovered() error {
	left, err := w.engine.Store.Ledger.Recovered()
	if err != nil {
		return err
	}
	for _, answer := range left {
		apply, err := w.applying(&answer)
		if err != nil {
			return err
		}
		err = w.engine.Store.DB.Update(func(tx *store.Tx) error {
			if err := ledger.DropRecovered(tx, answer.ID); err != nil || apply == nil {
				return err
			}
			return apply(tx, answer.Kept)
		})
		if err != nil && !store.IsLocked(err) {
			w.engine.log().Error("answer of an earlier process not usable", "op", answer.Op, "entity", answer.Entity,
				"run", answer.Run, "err", err)
			err = w.engine.Store.DB.Update(func(tx *store.Tx) error { return ledger.DropRecovered(tx, answer.ID) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// applying returns what an answer of an earlier process is applied with; nil if nothing waits for it. A scan is
// polled again.
func (w *worker) applying(answer *ledger.Recovered) (func(*store.Tx, ledger.Kept) error, error) {
	switch {
	case answer.Op == outlier.OpScan:
		return nil, nil
	case answer.Step == 0:
		return w.applyingToTask(answer)
	}
	unfinished, err := w.engine.Store.Runs.Unfinished(answer.Job)
	if err != nil {
		return nil, err
	}
	steps, err := w.engine.Store.Runs.Steps(answer.Run)
	if err != nil {
		return nil, err
	}
	of := slices.IndexFunc(unfinished, func(r runs.Run) bool { return r.ID == answer.Run })
	at := slices.IndexFunc(steps, func(s runs.Step) bool { return s.ID == answer.Step })
	if of < 0 || at < 0 || steps[at].Stop != "" || steps[at].Next != answer.Page || unfinished[of].Plan == nil {
		return nil, nil // without a plan the run cannot continue either
	}
	r, step := &run{engine: w.engine, worker: w, row: unfinished[of], plan: *unfinished[of].Plan, steps: steps}, steps[at]
	place, err := w.engine.place(steps, &step)
	if step.Began.IsZero() {
		step.Began = answer.SentAt
	}
	return func(tx *store.Tx, kept ledger.Kept) error { return r.storePage(tx, &step, kept, place) }, err
}

// applyingToTask is applying for the answer to a data call.
func (w *worker) applyingToTask(answer *ledger.Recovered) (func(*store.Tx, ledger.Kept) error, error) {
	tasks, err := w.engine.Store.Queue.PendingFor(answer.Entity)
	at := slices.IndexFunc(tasks, func(t queue.Waiting) bool { return t.Op == answer.Op })
	if err != nil || at < 0 {
		return nil, err
	}
	return func(tx *store.Tx, kept ledger.Kept) error {
		_, _, err := w.settle(tx, &tasks[at].Task, kept)
		return err
	}, nil
}
