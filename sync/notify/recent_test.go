package notify

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/sync/store"
)

// TestRecentListsEachEventOnce with all its targets, and whether one has not accepted it yet.
func TestRecentListsEachEventOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		begin := time.Now()
		w.put("old")
		stop := w.start(func(a http.ResponseWriter, _ *http.Request) {})
		time.Sleep(time.Hour)
		stop()
		w.update(func(tx *store.Tx) error {
			return w.watcher.putEvents(tx, []string{"hook"}, Event{ID: "data", Kind: Published, Title: "data"})
		})
		w.put("a", "b")
		mail := `{mail: {server: localhost, from: o@example.org, to: [c@example.org, d@example.org]}}`
		w.config.Targets = append(w.config.Targets, *targetOf(t, mail))
		w.update(func(tx *store.Tx) error {
			return w.watcher.putEvents(tx, []string{"t"}, Event{ID: "b", Kind: Failed, Title: "b"})
		})
		for _, c := range []struct {
			since time.Time
			most  int
			want  string
		}{
			{begin, 10, "b hook, other, t true; a hook, other true; old hook, other false; "},
			{begin, 1, "b hook, other, t true; "},
			{begin.Add(time.Minute), 10, "b hook, other, t true; a hook, other true; "},
			{time.Now().Add(time.Minute), 10, ""},
		} {
			recent, err := Recent(w.state.DB, c.since, c.most)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, n := range recent {
				fmt.Fprintf(&got, "%s %s %t; ", n.Title, n.Targets, n.Waits)
			}
			if got.String() != c.want {
				t.Errorf("since %s, at most %d: %q, want %q", c.since.Sub(begin), c.most, got.String(), c.want)
			}
		}
		w.close()
	})
}
