package engine

import (
	"context"

	"outlierd/outlier"
	"outlierd/sync/state"
)

// LookAtScan asks the service how a scan stands, which is free, and notes that of a
// scan of ours that was going on, whoever waits for it or no longer does.
func (e *Engine) LookAtScan(ctx context.Context, scanID string) (outlier.Scan, error) {
	told, at, err := e.seeScan(ctx, scanID)
	if err != nil {
		return told, err
	}
	known, err := e.Store.ScanByID(scanID)
	if err != nil || known == nil || known.State != state.ScanRunning {
		return told, err
	}
	known.Status, known.Polled, known.NextPoll, known.State = told.Status, at, at, stateOf(told)
	known.Polls++
	return told, e.Store.Update(func(tx *state.Tx) error { return tx.SaveScan(*known) })
}
