package engine

import (
	"context"

	"outlierd/outlier"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// LookAtScan asks the service how a scan stands, which is free, and notes that of a
// scan of ours that was going on, whoever waits for it or no longer does.
func (e *Engine) LookAtScan(ctx context.Context, scanID string) (outlier.Scan, error) {
	told, at, err := e.seeScan(ctx, scanID)
	if err != nil {
		return told, err
	}
	known, err := e.Store.Runs.ScanByID(scanID)
	if err != nil || known == nil || known.State != runs.ScanRunning {
		return told, err
	}
	known.Status, known.Polled, known.NextPoll, known.State = told.Status, at, at, stateOf(told)
	known.Polls++
	return told, e.Store.DB.Update(func(tx *store.Tx) error { return runs.SaveScan(tx, *known) })
}
