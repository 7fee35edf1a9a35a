package engine

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
)

// TestTenJobsFetchSharedChannelsOnce, and leave no slot of the rate limit unused while anything is due.
func TestTenJobsFetchSharedChannelsOnce(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	const channels = 60
	var file strings.Builder
	file.WriteString("version: 1\nservice: {url: \"sim://\", limit: 10/min}\nlists:\n  shelf: [")
	for i := range channels {
		fmt.Fprintf(&file, "UC%022d, ", i)
	}
	file.WriteString("]\njobs:\n")
	for i := range 10 {
		fmt.Fprintf(&file, "  job-%d: {every: 24h, channels: {id: {list: shelf}, fetch: [channel_videos]}}\n", i)
	}
	bare(t, file.String(), func(w *workshop) {
		var sent []time.Time
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			sent = append(sent, time.Now())
			return w.service.Transport().RoundTrip(r)
		})
		time.Sleep(23 * time.Hour)
		rows := w.serve(2 * time.Hour)
		if calls := w.service.Books().Operations[outlier.OpChannelVideos].Calls; calls != channels || len(sent) != channels {
			t.Fatalf("%d channel calls and %d in all, want %d: one for each", calls, len(sent), channels)
		}
		last := sent[len(sent)-1]
		for _, r := range rows {
			if r.Status != runs.OK || r.Ended.Before(last) {
				t.Errorf("%s ended at %s as %s; its last answer came after %s", r.Job, r.Ended, r.Status, last)
			}
		}
		if len(rows) != 10 {
			t.Errorf("%d runs, want 10", len(rows))
		}
		const slack = time.Second // the limiter's margin for jitter; an unused slot would be six seconds
		for i := 10; i < len(sent); i++ {
			if gap := sent[i].Sub(sent[i-10]); gap > time.Minute+slack {
				t.Errorf("call %d left %s after the tenth before it: a slot was idle", i, gap)
			}
		}
	})
}

// TestFreeSlotIsNotWaitedFor when the clock advances between two readings, which a bubble's clock does
// not do.
func TestFreeSlotIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	limiter, err := pace.Open(pace.Quota{Requests: 10, Window: time.Minute}, pace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	request, err := outlier.DataRequest(outlier.OpDetails, "dQw4w9WgXcQ")
	if err != nil {
		t.Fatal(err)
	}
	c := &caller{applier: applier{engine: &Engine{Pace: limiter}}}
	for range 1000 {
		if err := c.slotFor(request, &ledger.Purchase{}); err != nil {
			t.Fatalf("a call that may leave at once: %v", err)
		}
	}
}

// TestRunReportsRateLimitWait, including that of its data calls, of which the first one in the queue waits.
func TestRunReportsRateLimitWait(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		row := w.mustRun(runs.OK)
		took := row.Ended.Sub(row.Started)
		if took < time.Minute || row.Waited.Duration < took*9/10 || row.Waited.Duration > took {
			t.Errorf("the run took %s, and its calls waited %s", took, row.Waited)
		}
	})
}
