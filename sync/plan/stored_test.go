package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/job"
)

// TestDataCallsHaveTheDocumentedAgeAndWorth: docs/jobs.md, enrich, names them.
func TestDataCallsHaveTheDocumentedAgeAndWorth(t *testing.T) {
	const day = 24 * time.Hour
	want := []Call{
		{Op: outlier.OpChannelVideos, RefreshAfter: 7 * day, Value: 5},
		{Op: outlier.OpChannelShorts, RefreshAfter: 7 * day, Value: 4},
		{Op: outlier.OpTranscript, RefreshAfter: 36500 * day, Value: 3},
		{Op: outlier.OpComments, RefreshAfter: 2 * day, Value: 2},
		{Op: outlier.OpDetails, RefreshAfter: day, Value: 1},
	}
	var unsaid []job.Enrich
	for _, e := range want {
		unsaid = append(unsaid, job.Enrich{Op: e.Op})
	}
	if diff := cmp.Diff(want, EnrichCalls(&job.Spec{Enrich: unsaid})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
