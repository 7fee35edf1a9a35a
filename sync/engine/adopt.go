package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
)

// adoptWithin is how far the service's creation of a scan may lie from our wish for it:
// the pace, a slow network, and clocks that are set apart.
const adoptWithin = 15 * time.Minute

// AdoptScan takes over a scan of which it was not known whether it was started. The
// service is asked about it, which is free: its queries, its size and the time of its
// creation must be those of a scan that waits to be settled. With an intent (0 for none)
// only that one is compared, and its time is not, which a clock may have told wrongly.
func (e *Engine) AdoptScan(ctx context.Context, scanID string, intent int64) (*runs.Scan, error) {
	told, answer, err := e.seeScan(ctx, scanID)
	if err != nil {
		return nil, err
	}
	all, err := e.Store.Runs.Scans("")
	if err != nil {
		return nil, err
	}
	var misfits []string
	for _, scan := range all {
		if scan.State != runs.ScanUnknown || intent != 0 && scan.Intent != intent {
			continue
		}
		wish := scan
		if intent != 0 {
			wish.Intended = told.CreatedAt
		}
		if why := misfit(&wish, told); why != "" {
			misfits = append(misfits, fmt.Sprintf("the scan of job %s, intent %d: %s", scan.Job, scan.Intent, why))
			continue
		}
		adopted := scan
		adopted.ScanID, adopted.Status, adopted.Created, adopted.Polled = scanID, told.Status, told.CreatedAt, answer
		adopted.NextPoll, adopted.State = answer, stateOf(told)
		_, err := e.Store.Runs.SettleScan(scan.Intent, adopted)
		return &adopted, err
	}
	switch {
	case len(misfits) == 0 && intent != 0:
		return nil, fmt.Errorf("no scan of intent %d waits to be adopted; `outlierd scan list` shows all", intent)
	case len(misfits) == 0:
		return nil, errors.New("no scan waits to be adopted; `outlierd scan list` shows all")
	}
	return nil, fmt.Errorf("scan %s is none of those that wait to be adopted: %s", scanID, strings.Join(misfits, "; "))
}

// seeScan asks the service about a scan.
func (e *Engine) seeScan(ctx context.Context, scanID string) (outlier.Scan, time.Time, error) {
	request, err := outlier.DataRequest(outlier.OpScan, scanID)
	if err != nil {
		return outlier.Scan{}, time.Time{}, err
	}
	answer, err := e.Client.Do(ctx, request, e.Store.Ledger.Meter(ledger.Purchase{}))
	if err != nil {
		return outlier.Scan{}, time.Time{}, err
	}
	body, err := answer.JSON()
	if err != nil {
		return outlier.Scan{}, time.Time{}, err
	}
	told, err := readScan(body, scanID)
	return told, answer.ReceivedAt, err
}

// readScan reads an answer about a scan. One about another scan tells nothing.
func readScan(body []byte, scanID string) (outlier.Scan, error) {
	told, err := outlier.ReadScan(body)
	if err == nil && !strings.EqualFold(told.ID, scanID) {
		err = fmt.Errorf("the service was asked about scan %s and answered about %s", scanID, told.ID)
	}
	return told, err
}

func stateOf(told outlier.Scan) runs.ScanState {
	switch {
	case told.Succeeded():
		return runs.ScanEnded
	case told.Ended():
		return runs.ScanFailed
	}
	return runs.ScanRunning
}

// misfit says why a scan of the service is not the one that was wished for; "" if it is.
func misfit(wish *runs.Scan, told outlier.Scan) string {
	sorted := func(s []string) []string { return slices.Sorted(slices.Values(s)) }
	switch {
	case !slices.Equal(sorted(wish.Queries), sorted(told.Query)):
		return fmt.Sprintf("asked for %q, not for %q", wish.Queries, told.Query)
	case !sized(wish, told):
		return "is of another mode: its threshold is another"
	case told.CreatedAt.Sub(wish.Intended).Abs() > adoptWithin:
		created := "at an unknown time"
		if !told.CreatedAt.IsZero() {
			created = "at " + told.CreatedAt.UTC().Format(time.DateTime)
		}
		return fmt.Sprintf("was sent at %s, and this one was created %s; if the clock was wrong then and it is the same scan, say --intent %d",
			wish.Intended.UTC().Format(time.DateTime), created, wish.Intent)
	}
	return ""
}

// sized compares a scan's threshold with that of the mode that was asked for
// (interface, Limits, Scan thresholds). Of the two sides one is unlimited; a
// threshold that was not told fits everything.
func sized(wish *runs.Scan, told outlier.Scan) bool {
	side, want := told.OutlierVideos, int64(1000)
	if wish.FindBy == outlier.FindByChannels {
		side, want = told.Channels, 100
		if side == nil {
			side = told.OutlierVideos // a plain number, which says of neither
		}
	}
	if wish.Mode == outlier.ModeStandard {
		want = want * 5 / 2
	}
	return side == nil || *side == want
}
