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

// TestPlansOfEarlierVersionsAreRead: runs under way survive an upgrade.
func TestPlansOfEarlierVersionsAreRead(t *testing.T) {
	f, err := Decode([]byte(`{"pages":3,"window":"last 30d","enrich":[{"op":"transcript","top":5,"refresh_after":3153600000000000000,"value":3}],
		"cap":12,"most":18,"share":4,"rations":{"0":2},"reads":{"1":{"params":"sortBy=views","queries":["tea"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	share := outlier.Credits(4)
	want := Stored{
		Pages: 3, Cap: 12, Most: 18, Share: &share, SharePages: map[int]int{0: 2},
		Enrich: []Call{{Op: outlier.OpTranscript, Top: 5, RefreshAfter: Once, Value: 3}},
		Reads:  map[int]Read{1: {outlier.UncheckedQuery(outlier.OpSearch, "sortBy=views")}},
	}
	if diff := cmp.Diff(want, f, sameQuery); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
