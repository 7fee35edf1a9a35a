package engine

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/sync/runs"
)

// TestRemovedDataLeavesBothSinks: the comments of a video that has no comments any more, and the row that
// says that a transcript is missing once there is one. A rebuilt sink has the same rows.
func TestRemovedDataLeavesBothSinks(t *testing.T) {
	t.Parallel()
	const id, other = "dQw4w9WgXcQ", "9bZkp7q19f0" // does not change
	item := func(id, inside string) *http.Response {
		return page(http.StatusOK, "application/json", `{"ids":["`+id+`"],"items":[{"id":"`+id+`",`+inside+`}]}`)
	}
	none := func() *http.Response {
		return page(http.StatusNotFound, "application/json", `{"status":"error","error":{"message":"Not found"}}`)
	}
	bubble(t, "version: 1\nservice: {url: \"sim://\"}\njobs: {watch: {videos: {id: ["+id+", "+other+"], fetch: [comments, transcript]}}}\n", func(w *workshop) {
		changed := false
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			connect(r)
			asked := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
			switch comments := strings.HasPrefix(r.URL.Path, "/video/comments/"); {
			case comments && changed && asked == id:
				return item(id, `"comments":[],"statistics":{"count":0}`), nil
			case comments:
				return item(asked, `"comments":[{"text":"one"},{"text":"two"}],"statistics":{"count":2}`), nil
			case changed && asked == id:
				return item(id, `"events":[{"startMs":0,"text":"hello"}],"transcript":"hello"`), nil
			}
			return none(), nil
		})
		check := func(when string, want ...string) {
			t.Helper()
			for sink, table := range map[string]func(string) string{
				"duckdb": func(name string) string { return name },
				"parquet": func(name string) string {
					return fmt.Sprintf("read_parquet('%s/**/*.parquet')", filepath.Join(w.data(), "parquet", name))
				},
			} {
				got := []string{
					fmt.Sprint(w.rows("select video_id, text from " + table("comments") + " order by all")),
					fmt.Sprint(w.rows("select sampled from " + table("comment_counts") + " order by all")),
					fmt.Sprint(w.rows("select id from " + table("missing") + " order by all")),
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s: comments, their count and what is missing are %v in %s, want %v",
						when, got, sink, want)
				}
			}
		}
		w.mustRun(runs.OK)
		few := "[" + other + "one " + other + "two"
		check("at first", few+" "+id+"one "+id+"two]", "[2 2]", "["+other+" "+id+"]")
		changed = true
		time.Sleep(60 * day) // when a missing transcript is requested again
		w.mustRun(runs.OK)
		check("later", few+"]", "[0 2]", "["+other+"]")
		for _, lost := range []string{"outliers.duckdb", "state/warehouse.duckdb", "parquet"} {
			if err := os.RemoveAll(filepath.Join(w.data(), lost)); err != nil {
				t.Fatal(err)
			}
		}
		w.mustRun(runs.OK)
		check("rebuilt", few+"]", "[0 2]", "["+other+"]")
	})
}
