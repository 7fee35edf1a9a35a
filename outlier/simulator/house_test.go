package simulator

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/simulator/library"
)

// ask sends a GET request with the key and decodes the answer, which must be JSON, into T.
func ask[T any](t *testing.T, rt http.RoundTripper, target string) (T, *http.Response) {
	t.Helper()
	var answer T
	resp, body := askRaw(t, rt, target)
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("GET %s: %v in %.200q", target, err, body)
	}
	return answer, resp
}

func askRaw(t *testing.T, rt http.RoundTripper, target string) (*http.Response, []byte) {
	t.Helper()
	resp, err := (&http.Client{Transport: rt}).Do(request(t, "http://service.test"+target))
	if err != nil {
		t.Fatalf("GET %s: %v", target, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("GET %s: read the body: %v", target, err)
	}
	return resp, body
}

func request(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Api-Key demo")
	return r
}

// unlimited returns a frozen service whose rate limit no test reaches.
func unlimited(o Options) *Service {
	o.Limit, o.Freeze = 1_000_000, true
	return New(o)
}

// aHit returns a hit without missing fields.
func aHit(t *testing.T, seed uint64, at time.Time) *library.Hit {
	t.Helper()
	for _, h := range library.Open(seed).Index(at).Hits() {
		if h.Gaps == (library.Gaps{}) && !h.Channel.Gone && h.Kind == library.Video && h.Comments(at) > 100 {
			return h
		}
	}
	t.Fatal("the library has no hit without gaps")
	return nil
}

// paths returns a valid request target for each operation, about a hit that exists now.
func paths(t *testing.T, s *Service) map[outlier.Operation]string {
	t.Helper()
	return targets(aHit(t, s.options.Seed, s.options.now()))
}

// targets returns a request target for each operation, about a hit.
func targets(h *library.Hit) map[outlier.Operation]string {
	return map[outlier.Operation]string{
		outlier.OpFindChannels:        "/search/channels?" + url.Values{"query": {h.Topic().Name()}}.Encode(),
		outlier.OpFindRelatedChannels: "/search/channels/related?relatedChannelId=" + h.Channel.ID,
		outlier.OpTrendingFormats:     "/search/trending-formats",
		outlier.OpSearch:              "/search/outliers?" + url.Values{"query": {h.Title}}.Encode(),
		outlier.OpRelated:             "/search/outliers/related?videoId=" + h.ID(),
		outlier.OpScan:                "/scan/" + (&scan{started: 1 << 40, salt: library.HashText(h.ID()) % 1000}).id(h.Channel.Seed),
		outlier.OpChannelVideos:       "/channel/videos/" + h.Channel.ID,
		outlier.OpChannelShorts:       "/channel/shorts/" + h.Channel.ID,
		outlier.OpDetails:             "/video/" + h.ID(),
		outlier.OpComments:            "/video/comments/" + h.ID(),
		outlier.OpTranscript:          "/video/transcript/" + h.ID(),
	}
}

// searchAnswer is what tests read of a page of outliers.
type searchAnswer struct {
	Pagination pagination
	Hits       []hit
}

type hit struct {
	ID, Kind, Time string
	Snippet        struct {
		ChannelID, Title, PublishedAt, Language string
		ChannelSubscribers, Duration            float64
		Thumbnails                              any
		Monetization                            *struct{ RPMEstimationFrom, RevenueEstimationFrom float64 }
		ChannelMonetization                     struct{ Adsense bool }
	}
	Statistics     statistics
	Classification *struct {
		IsFaceless *bool
		Quality    *string
	}
}

// statistics are those of a hit, of an upload in the list of its channel, and of details.
type statistics struct {
	ViewCount, CommentCount, LikeCount   *int64
	ZScore                               *float64
	AverageViewsRatio                    float64
	IsPositiveOutlier, IsNegativeOutlier bool
}

// upload is what tests read of an upload in the list of its channel.
type upload struct {
	ID, Title  string
	ViewCount  int64
	Statistics statistics
}

// channelAnswer is what tests read of a channel.
type channelAnswer struct {
	Item struct {
		Videos, Shorts []upload
	}
}

// channelStatistics are what tests read of the statistics of a channel.
type channelStatistics struct {
	AverageViewsEstimate, VideosSampleCount, AvgViewsToSubscribersRatio float64
}

// read decodes an answer of the library, as a client does; false for none.
func read[T any](t *testing.T, answer any) (decoded T, ok bool) {
	t.Helper()
	text, err := json.Marshal(answer)
	if err == nil && answer != nil {
		err = json.Unmarshal(text, &decoded)
	}
	if err != nil {
		t.Fatal(err)
	}
	return decoded, answer != nil
}
