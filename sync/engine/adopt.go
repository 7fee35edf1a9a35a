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

// adoptWithin is the maximum difference between the time when the service created a scan and the time
// of our intent. It allows for the rate limit, a slow network, and clocks that differ.
const adoptWithin = 15 * time.Minute

// AdoptScan links a scan of the service to a start that was not confirmed. It asks the service about the
// scan, which is free, and compares its queries, size and creation time with those of the unconfirmed
// starts. If intent is not 0, it compares only that one, and not its time, which may come from a
// wrong clock.
func (e *Engine) AdoptScan(ctx context.Context, scanID string, intent int64) (*runs.Scan, error) {
	seen, answer, err := e.getScan(ctx, scanID)
	if err != nil {
		return nil, err
	}
	all, err := e.Store.Scans.List()
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
			wish.Intended = seen.CreatedAt
		}
		if why := mismatch(&wish, seen); why != "" {
			misfits = append(misfits, fmt.Sprintf("the scan of job %s, intent %d: %s", scan.Job, scan.Intent, why))
			continue
		}
		adopted := scan
		adopted.ScanID = scanID
		adopted.Saw(seen, answer)
		_, err := e.Store.Scans.Settle(scan.Intent, adopted)
		return &adopted, err
	}
	switch {
	case len(misfits) == 0 && intent != 0:
		return nil, fmt.Errorf("no unconfirmed start has intent %d; `outlierd scan list` shows all scans", intent)
	case len(misfits) == 0:
		return nil, errors.New("there is no unconfirmed start; `outlierd scan list` shows all scans")
	}
	return nil, fmt.Errorf("scan %s matches no unconfirmed start: %s",
		scanID, strings.Join(misfits, "; "))
}

// getScan asks the service about a scan. While a schedule is running, it is called between two of its
// turns, which must not wait for the rate limit: it returns a [waitError] instead.
func (e *Engine) getScan(ctx context.Context, scanID string) (outlier.Scan, time.Time, error) {
	request, err := outlier.DataRequest(outlier.OpScan, scanID)
	if err != nil {
		return outlier.Scan{}, time.Time{}, err
	}
	if e.turns.schedule.Load() != nil {
		if at, err := e.Pace.Slot(request.Op()); err == nil && at.After(time.Now()) {
			return outlier.Scan{}, time.Time{}, &waitError{at}
		}
	}
	answer, err := e.Client.Do(ctx, request, e.Store.Ledger.Meter(ledger.Purchase{}))
	if err != nil {
		return outlier.Scan{}, time.Time{}, err
	}
	body, err := answer.JSON()
	if err != nil {
		return outlier.Scan{}, time.Time{}, err
	}
	seen, err := readScan(body, scanID)
	return seen, answer.ReceivedAt, err
}

// readScan reads an answer about a scan. It is an error if the answer is about another scan.
func readScan(body []byte, scanID string) (outlier.Scan, error) {
	seen, err := outlier.ReadScan(body)
	if err == nil && !strings.EqualFold(seen.ID, scanID) {
		err = fmt.Errorf("the service answered a request for scan %s with scan %s", scanID, seen.ID)
	}
	return seen, err
}

// mismatch returns why a scan of the service is not the one that wish asked for; "" if it is.
func mismatch(wish *runs.Scan, seen outlier.Scan) string {
	sorted := func(s []string) []string { return slices.Sorted(slices.Values(s)) }
	switch {
	case !slices.Equal(sorted(wish.Queries), sorted(seen.Query)):
		return fmt.Sprintf("asked for %q, not for %q", wish.Queries, seen.Query)
	case !sameMode(wish, seen):
		return "is of another mode: its threshold differs"
	case seen.CreatedAt.Sub(wish.Intended).Abs() > adoptWithin:
		created := "at an unknown time"
		if !seen.CreatedAt.IsZero() {
			created = "at " + seen.CreatedAt.UTC().Format(time.DateTime)
		}
		return fmt.Sprintf("was sent at %s, and this one was created %s; "+
			"if the clock was wrong then and it is the same scan, pass --intent %d",
			wish.Intended.UTC().Format(time.DateTime), created, wish.Intent)
	}
	return ""
}

// sameMode compares a scan's threshold with that of the requested mode (interface, Limits, Scan
// thresholds). One of the two sides is unlimited; a missing threshold fits every mode.
func sameMode(wish *runs.Scan, seen outlier.Scan) bool {
	side, want := seen.OutlierVideos, int64(1000)
	if wish.FindBy == outlier.FindByChannels {
		side, want = seen.Channels, 100
		if side == nil {
			side = seen.OutlierVideos // a plain number, which does not say which side it is
		}
	}
	if wish.Mode == outlier.ModeStandard {
		want = want * 5 / 2
	}
	return side == nil || *side == want
}

// PollScan asks the service for the status of a scan, which is free. If the scan is recorded as running,
// PollScan updates the record, whether or not a run waits for it.
func (e *Engine) PollScan(ctx context.Context, scanID string) (outlier.Scan, error) {
	seen, at, err := e.getScan(ctx, scanID)
	if err != nil {
		return seen, err
	}
	known, err := e.Store.Scans.ByID(scanID)
	if err != nil || known == nil || known.State != runs.ScanRunning {
		return seen, err
	}
	known.Saw(seen, at)
	known.Polls++
	return seen, runs.SaveScan(e.Store.DB, *known)
}
