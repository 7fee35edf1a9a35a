package simulator

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/outlier/simulator/library"
)

// limited is the body of a refusal by the rate limit.
type limited struct {
	Error  rateLimitError `json:"error"`
	Status string         `json:"status"`
}

// A window starts with a request, and counts refused requests, too.
func TestWindowStartsWithFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1, Limit: 2, Window: time.Minute})
		path := paths(t, s)[outlier.OpDetails]
		time.Sleep(13 * time.Second) // no window is open yet
		opened := time.Now()
		askRaw(t, s.Transport(), path)
		time.Sleep(20 * time.Second)
		askRaw(t, s.Transport(), "/search/outliers?size=0") // refused for another reason, and counted
		for current := 3; current < 5; current++ {
			got, resp := ask[limited](t, s.Transport(), path)
			want := limited{Status: "error", Error: rateLimitError{
				Message:   "Rate limit exceeded",
				RateLimit: rateLimit{Limit: 2, Current: current, ResetTime: opened.Add(time.Minute).UTC().Format(library.WithMillis)},
			}}
			if diff := cmp.Diff(want, got); diff != "" || resp.StatusCode != http.StatusTooManyRequests {
				t.Errorf("status %d, want %d; body (-want +got):\n%s", resp.StatusCode, http.StatusTooManyRequests, diff)
			}
		}
		time.Sleep(time.Until(opened.Add(time.Minute)))
		if resp, _ := askRaw(t, s.Transport(), path); resp.StatusCode != http.StatusOK {
			t.Errorf("status %d at the reset, want %d", resp.StatusCode, http.StatusOK)
		}
	})
}

func TestDefaultLimitIsTenAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1})
		path := paths(t, s)[outlier.OpDetails]
		statuses := map[int]int{}
		for range 25 * 60 {
			resp, _ := askRaw(t, s.Transport(), path)
			statuses[resp.StatusCode]++
			time.Sleep(time.Second)
		}
		if statuses[200] != 250 || statuses[429] != 1250 {
			t.Errorf("answers by status in 25 minutes: %v, want 250 with 200 and 1250 with 429", statuses)
		}
	})
}

// A frozen service states the reset of the limit by its own clock.
func TestFrozenServiceStatesItsReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1, Limit: 1, Freeze: true})
		path := paths(t, s)[outlier.OpDetails]
		askRaw(t, s.Transport(), path)
		time.Sleep(20 * time.Second)
		got, resp := ask[limited](t, s.Transport(), path)
		reset, date := Epoch.Add(40*time.Second).Format(library.WithMillis), Epoch.Format(http.TimeFormat)
		if got.Error.RateLimit.ResetTime != reset || resp.Header.Get("Date") != date {
			t.Errorf("reset %s at %s, want %s at %s", got.Error.RateLimit.ResetTime, resp.Header.Get("Date"), reset, date)
		}
		time.Sleep(40 * time.Second)
		if resp, _ := askRaw(t, s.Transport(), path); resp.StatusCode != http.StatusOK {
			t.Errorf("status %d after the reset, want %d", resp.StatusCode, http.StatusOK)
		}
	})
}

func TestViewsGrowInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1})
		hit, _ := ask[searchAnswer](t, s.Transport(), "/search/outliers?sortBy=publishedAt&size=1&viewCountFrom=10000")
		before := *hit.Hits[0].Statistics.ViewCount
		time.Sleep(7 * 24 * time.Hour)
		channel, _ := ask[channelAnswer](t, s.Transport(), "/channel/"+hit.Hits[0].Kind+"s/"+hit.Hits[0].Snippet.ChannelID)
		newest, _ := ask[searchAnswer](t, s.Transport(), "/search/outliers?sortBy=publishedAt&size=1&viewCountFrom=10000")
		if newest.Hits[0].Snippet.PublishedAt <= hit.Hits[0].Snippet.PublishedAt {
			t.Errorf("after a week the newest outlier is of %s, want a later one", newest.Hits[0].Snippet.PublishedAt)
		}
		if after := viewsOf(channel, hit.Hits[0].ID); after <= before {
			t.Errorf("%s has %d views after a week, want more than %d", hit.Hits[0].ID, after, before)
		}
	})
}

func viewsOf(c channelAnswer, id string) int64 {
	for _, u := range slices.Concat(c.Item.Videos, c.Item.Shorts) {
		if u.ID == id {
			return u.ViewCount
		}
	}
	return 0
}
