package engine

import (
	"fmt"
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// TestImportedVideosAreNotNew of 10,000 that were imported, also for stop_when.
func TestImportedVideosAreNotNew(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	const file = `
version: 1
service: {url: "sim://", limit: 600/min, paging: page}
jobs:
  one: {search: {query: [x], pages: 4, stop_when: {new_below: 10%}}}
`
	bare(t, file, func(w *workshop) {
		w.inspect(func(e *Engine) {
			var videos []runs.Imported
			for _, n := range numbers(0, 10_000) {
				videos = append(videos, runs.Imported{Video: fmt.Sprintf("video-%05d", n), FirstSeen: time.Now().Add(-time.Hour)})
			}
			err := e.Store.DB.Update(func(tx *store.Tx) error {
				added, err := runs.Import(tx, "seen.csv", videos)
				if added != len(videos) {
					t.Errorf("%d videos imported, want %d", added, len(videos))
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		})
		w.wire = pagesOf(t, 1000, numbers(0, 40), numbers(5_000, 40), numbers(9_900, 40), numbers(200, 40))
		if row := w.mustRun(runs.OK); row.Pages != 2 || row.Hits != 80 || row.NewHits != 0 {
			t.Errorf("%d pages, %d hits, %d new; want 2 pages of 80 hits, none of them new", row.Pages, row.Hits, row.NewHits)
		}
	})
}
