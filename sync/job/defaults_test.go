package job

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
)

// TestDefaultsAreTheDocumentedOnes has those of jobs of every kind as numbers, so that no change of one is an accident.
// [TestWhatIsNotSaidHasDefaults] has the others.
func TestDefaultsAreTheDocumentedOnes(t *testing.T) {
	config := parse(t, `
version: 1
service: {url: "sim://"}
jobs:
  search: {search: {query: x, where: {published_at: since last success}}, enrich: {channel_videos: {}, channel_shorts: {}, details: {}, comments: {}, transcript: {}}}
  related: {related: {title: x}}
  scan: {scan: {query: x}}
  channels: {channels: {id: UC1234567890abcdefghijkl}}
  videos: {videos: {id: dQw4w9WgXcQ}}
  find_channels: {find_channels: {query: x}}
  kin: {find_channels: {related_to: UC1234567890abcdefghijkl}}
  trending_formats: {trending_formats: {}}
`)
	of := func(name string) *Spec { return config.Job(name) }
	const hour, day = time.Hour, 24 * time.Hour
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"pages of search", of("search").Pages, 1},
		{"pages of related", of("related").Pages, 1},
		{"pages of find_channels", of("find_channels").Pages, 1},
		{"pages of find_channels with related_to", of("kin").Pages, 1},
		{"pages of trending_formats", of("trending_formats").Pages, 1},
		{"read.pages", of("scan").Pages, 5},
		{"mode, poll and deadline", of("scan").Scan, &Scan{Mode: "fast", PollMin: time.Minute, PollMax: 10 * time.Minute, Deadline: 24 * hour}},

		{"refresh_after of related", of("related").SeedsFresh, 7 * day},
		{"refresh_after of search", of("search").SeedsFresh, time.Duration(0)},
		{"refresh_after of scan", of("scan").SeedsFresh, time.Duration(0)},
		{"refresh_after of find_channels with related_to", of("kin").SeedsFresh, time.Duration(0)},
		{"fetch of channels", of("channels").Fetch, []Call{{Op: outlier.OpChannelVideos, Value: 5}, {Op: outlier.OpChannelShorts, Value: 4}}},
		{"fetch of videos", of("videos").Fetch, []Call{{Op: outlier.OpDetails, Value: 1}}},
		{"enrich", of("search").Enrich, []Call{
			{Op: outlier.OpChannelVideos, RefreshAfter: 7 * day, Value: 5},
			{Op: outlier.OpChannelShorts, RefreshAfter: 7 * day, Value: 4},
			{Op: outlier.OpDetails, RefreshAfter: day, Value: 1},
			{Op: outlier.OpComments, RefreshAfter: 2 * day, Value: 2},
			{Op: outlier.OpTranscript, RefreshAfter: 36500 * day, Value: 3},
		}},
		{"enrich.sort", of("search").Sort, Sort{By: "zScore"}},
		{"enrich.sort of find_channels", of("find_channels").Sort, Sort{By: "subscribers"}},
		{"published_at: since last success", of("search").ask.Window, window{Since: true, Last: 30 * day, Overlap: 14 * day}},
	} {
		if diff := cmp.Diff(c.want, c.got, plain, cmp.AllowUnexported(window{})); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.what, diff)
		}
	}
	for _, spec := range config.Jobs {
		got := []any{spec.ReuseFor, spec.CatchUp, spec.StopAfter, spec.NewBelow, spec.Disabled, spec.Budget}
		want := []any{6 * hour, CatchUpLatest, time.Duration(0), 0.0, false, JobBudget{}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: reuse_for, catch_up, stop_after, stop_when, enabled and budget (-want +got)\n%s", spec.Name, diff)
		}
	}
}
