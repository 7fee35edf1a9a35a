package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// A video in a list of channels stands for its channel, which its details tell for free, however long the rate
// limit delays them. What nothing tells is named and does not stop the others. None is asked for twice.
func TestVideosStandForTheirChannels(t *testing.T) {
	t.Parallel()
	const file = `{version: 1, service: {url: "sim://", limit: 4/min}, jobs: {one: {%s}}}`
	single(t, fmt.Sprintf(file, "search: {query: espresso}"), func(w *workshop) {
		w.renew(simulator.Options{Limit: 4})
		w.bare = true
		w.mustRun(runs.OK)
		var videos []string
		w.inspect(func(e *Engine) {
			var err error
			if videos, err = store.Values[string](e.Store.DB, `SELECT min(video) FROM run_hits GROUP BY channel LIMIT 4`); err != nil {
				t.Fatal(err)
			}
		})
		w.bare, w.dir = false, t.TempDir()
		time.Sleep(time.Minute) // a new folder does not know what the service has counted
		w.use(fmt.Sprintf(file, `channels: {id: ["`+strings.Join(videos, `", "`)+
			`", AAAAAAAAAAA, nowhere.at.all], fetch: channel_videos}`))
		for range 2 {
			row := w.mustRun(runs.Partial)
			if !strings.HasPrefix(row.Error, "AAAAAAAAAAA, @nowhere.at.all are not in the published tables") {
				t.Errorf("the run says %s", row.Error)
			}
		}
		details, uploads := w.calls(outlier.OpDetails), w.calls(outlier.OpChannelVideos)
		if details != len(videos)+1 || uploads != 2*len(videos) || w.spent() != 2 {
			t.Errorf("%d calls about videos, %d about channels and %d credits, want %d, %d and 2", details, uploads,
				w.spent(), len(videos)+1, 2*len(videos))
		}
		if n := w.count("select count(distinct channel_id) from channels"); n != len(videos) {
			t.Errorf("the tables have %d channels, want %d", n, len(videos))
		}
	})
}
