package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// TestOnlyAMatchingScanIsAdopted: its queries, its size and the time of its creation must match, in
// either shape of the threshold.
func TestOnlyAMatchingScanIsAdopted(t *testing.T) {
	t.Parallel()
	sent := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	limit := func(n int64) *int64 { return &n }
	const unlimited = 9007199254740991
	queries := runs.Scan{FindBy: outlier.FindByQuery, Mode: outlier.ModeFast, Queries: []string{"b", "a"}, Intended: sent}
	channels := runs.Scan{FindBy: outlier.FindByChannels, Mode: outlier.ModeStandard, Queries: []string{"a", "b"}, Intended: sent}
	told := outlier.Scan{Query: []string{"a", "b"}, CreatedAt: sent.Add(time.Minute)}
	with := func(change func(*outlier.Scan)) outlier.Scan {
		s := told
		change(&s)
		return s
	}
	for name, test := range map[string]struct {
		wish runs.Scan
		told outlier.Scan
		why  string
	}{
		"no threshold":            {queries, told, ""},
		"both limits":             {queries, with(func(s *outlier.Scan) { s.OutlierVideos, s.Channels = limit(1000), limit(unlimited) }), ""},
		"a plain number":          {queries, with(func(s *outlier.Scan) { s.OutlierVideos = limit(1000) }), ""},
		"of channels":             {channels, with(func(s *outlier.Scan) { s.OutlierVideos, s.Channels = limit(unlimited), limit(250) }), ""},
		"of channels, one number": {channels, with(func(s *outlier.Scan) { s.OutlierVideos = limit(250) }), ""},
		"another mode":            {queries, with(func(s *outlier.Scan) { s.OutlierVideos = limit(2500) }), "another mode"},
		"channels of the other":   {channels, with(func(s *outlier.Scan) { s.OutlierVideos, s.Channels = limit(unlimited), limit(100) }), "another mode"},
		"other queries":           {queries, with(func(s *outlier.Scan) { s.Query = []string{"a"} }), "asked for"},
		"long before":             {queries, with(func(s *outlier.Scan) { s.CreatedAt = sent.Add(-time.Hour) }), "was sent at"},
		"long after":              {queries, with(func(s *outlier.Scan) { s.CreatedAt = sent.Add(time.Hour) }), "was sent at"},
		"no time":                 {queries, with(func(s *outlier.Scan) { s.CreatedAt = time.Time{} }), "was sent at"},
	} {
		if why := mismatch(&test.wish, test.told); (why == "") != (test.why == "") || !strings.Contains(why, test.why) {
			t.Errorf("%s: %q, want %q", name, why, test.why)
		}
	}
}

// TestAdoptedScanSurvivesFailedPoll: it is polled again, although no answer has said yet when the scan began.
func TestAdoptedScanSurvivesFailedPoll(t *testing.T) {
	t.Parallel()
	bare(t, scanFile, func(w *workshop) {
		w.renew(anHour)
		w.service.FailNext(outlier.OpStartScan, simulator.DropAnswer)
		_, err := w.run()
		unsettled, ok := errors.AsType[*UnsettledScanError](err)
		if !ok {
			t.Fatalf("error %v, want an *UnsettledScanError", err)
		}
		w.settle(unsettled.Scan.Intent)
		for range plan.Attempts {
			w.service.FailNext(outlier.OpScan, simulator.ServerError)
		}
		if row := w.mustRun(runs.OK); row.Pages != 3 || w.spent() != 56 {
			t.Errorf("%d pages for %d credits, want the 3 pages of the scan for 56", row.Pages, w.spent())
		}
	})
}

// TestMisdatedScanIsAdoptedByIntent: the date in its record is off by a month, so only a user can link the
// service's scan to it.
func TestMisdatedScanIsAdoptedByIntent(t *testing.T) {
	t.Parallel()
	asking(t, scanFile, func(w *workshop) {
		w.renew(anHour)
		w.wire = slow{w.service.Transport(), 30 * 24 * time.Hour}
		w.service.FailNext(outlier.OpStartScan, simulator.DropAnswer)
		_, err := w.run()
		unsettled, ok := errors.AsType[*UnsettledScanError](err)
		if !ok {
			t.Fatalf("error %v, want an *UnsettledScanError", err)
		}
		w.wire = w.service.Transport()
		intent := unsettled.Scan.Intent
		w.withSinks(func(e *Engine) {
			if _, err := e.AdoptScan(w.ctx, w.started()[0], 0); err == nil || !strings.Contains(err.Error(), fmt.Sprint("--intent ", intent)) {
				t.Errorf("error %v, want one that names --intent %d", err, intent)
			}
			if _, err := e.AdoptScan(w.ctx, w.started()[0], intent+1); err == nil {
				t.Error("a scan was adopted for an intent that does not exist")
			}
			if _, err := e.AdoptScan(w.ctx, w.started()[0], intent); err != nil {
				t.Error(err)
			}
		})
		if row := w.mustRun(runs.OK); row.Pages != 3 || w.spent() != 56 {
			t.Errorf("%d pages for %d credits, want the 3 pages of the scan for 56", row.Pages, w.spent())
		}
	})
}
