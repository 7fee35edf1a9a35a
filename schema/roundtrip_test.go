package schema

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
)

// The simulator's answers are rebuilt from the rows alone and compared with what it
// sent. Three things the tables do not tell apart, and neither does the comparison:
// null from absent (both are NULL), one way to write an instant or a number from
// another, and a number from its text in fields named Raw, which are text columns.
// What the rows do not hold is the pagination object: ops.requests has it.
func TestRowsRebuildTheirAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := caller{t, simulator.New(simulator.Options{Seed: 7, Limit: 1_000_000}), map[outlier.Operation]int{}}
		videos, channels := c.search()
		c.pages(videos[0], channels[0])
		for _, id := range videos[:20] {
			c.get(outlier.OpDetails, id, "/video/"+id)
			c.get(outlier.OpComments, id, "/video/comments/"+id)
			c.get(outlier.OpTranscript, id, "/video/transcript/"+id)
		}
		for _, id := range channels[:8] {
			c.get(outlier.OpChannelVideos, id, "/channel/videos/"+id)
			c.get(outlier.OpChannelShorts, id, "/channel/shorts/"+id)
		}
		c.scans(outlier.FindByQuery, "moka pot", "latte art")
		c.scans(outlier.FindByChannels, channels[:2]...)
		for _, op := range operations {
			if c.answered[op] == 0 {
				t.Errorf("no answer to %s", op)
			}
		}
	})
}

// caller asks a simulator, and takes each answer through the tables and back.
type caller struct {
	t        *testing.T
	service  *simulator.Service
	answered map[outlier.Operation]int
}

// search takes a page of hits, and returns their ids and those of their channels.
func (c caller) search() (videos, channels []string) {
	c.t.Helper()
	var page struct {
		Hits []struct {
			ID      string
			Snippet struct{ ChannelID string }
		}
	}
	if err := json.Unmarshal(c.get(outlier.OpSearch, "", "/search/outliers?query=coffee&query=moka+pot&size=40"), &page); err != nil {
		c.t.Fatal(err)
	}
	for _, hit := range page.Hits {
		videos = append(videos, hit.ID)
		channels = append(channels, hit.Snippet.ChannelID)
	}
	slices.Sort(channels)
	return videos, slices.Compact(channels)
}

// pages takes a page of every search, and some unusual ones.
func (c caller) pages(video, channel string) {
	c.t.Helper()
	c.get(outlier.OpSearch, "", "/search/outliers?query=coffee&size=40&type=short")
	c.get(outlier.OpSearch, "", "/search/outliers?query=coffee&size=40&from=999999")
	c.get(outlier.OpRelated, "", "/search/outliers/related?size=40&videoId="+video)
	c.get(outlier.OpFindChannels, "", "/search/channels?query=coffee&size=40")
	c.get(outlier.OpFindChannels, "", "/search/channels?query=coffee&size=40&from=999999")
	c.get(outlier.OpFindRelatedChannels, "", "/search/channels/related?size=40&relatedChannelId="+channel)
	c.get(outlier.OpTrendingFormats, "", "/search/trending-formats")
}

// scans starts some scans of each mode, and looks at them until they have ended.
func (c caller) scans(findBy string, queries ...string) {
	c.t.Helper()
	shapes := map[bool]int{}
	for range 6 {
		for _, mode := range []string{outlier.ModeFast, outlier.ModeStandard} {
			body, err := json.Marshal(map[string]any{"findBy": findBy, "query": queries, "mode": mode})
			if err != nil {
				c.t.Fatal(err)
			}
			s := Source{Op: outlier.OpStartScan, FindBy: findBy, Mode: mode}
			scan, err := outlier.ReadScan(c.check(s, c.request(http.MethodPost, "/scan", string(body))))
			if err != nil {
				c.t.Fatal(err)
			}
			shapes[scan.Channels != nil && scan.OutlierVideos != nil]++
			s.Op, s.Entity = outlier.OpScan, scan.ID
			for !scan.Ended() {
				time.Sleep(10 * time.Minute)
				if scan, err = outlier.ReadScan(c.check(s, c.request(http.MethodGet, "/scan/"+scan.ID, ""))); err != nil {
					c.t.Fatal(err)
				}
			}
		}
	}
	if len(shapes) < 2 {
		c.t.Errorf("the thresholds of scans by %s had one shape alone", findBy)
	}
}

// get is check of a GET that is about an id, or about none.
func (c caller) get(op outlier.Operation, id, path string) []byte {
	c.t.Helper()
	return c.check(Source{Op: op, Entity: id}, c.request(http.MethodGet, path, ""))
}

func (c caller) request(method, path, body string) *http.Request {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, "http://service.test"+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Api-Key demo")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// check compares an answer with what is rebuilt from its rows, and returns it; nil if
// there is no such thing, as of deleted videos and missing transcripts.
func (c caller) check(s Source, r *http.Request) []byte {
	c.t.Helper()
	sent := c.answer(r)
	if sent == nil {
		return nil
	}
	c.answered[s.Op]++
	d := newDecoder(c.t)
	if err := d.Decode(s, sent); err != nil {
		c.t.Fatal(err)
	}
	if drift := d.Drift(); len(drift) > 0 {
		c.t.Errorf("%s %s: drift %+v", r.Method, r.URL, drift)
	}
	want := parse(c.t, sent)
	if page, ok := want.(map[string]any); ok && s.Op != outlier.OpTrendingFormats {
		delete(page, "pagination")
	}
	if diff := cmp.Diff(plain("", want), plain("", rebuild(c.t, s.Op, take(c.t, d)))); diff != "" {
		c.t.Errorf("%s %s (-sent +rebuilt):\n%s", r.Method, r.URL, diff)
	}
	return sent
}

func (c caller) answer(r *http.Request) []byte {
	c.t.Helper()
	resp, err := c.service.Transport().RoundTrip(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		c.t.Fatal(err)
	case resp.StatusCode == http.StatusNotFound:
		return nil
	case resp.StatusCode != http.StatusOK:
		c.t.Fatalf("%s %s is answered %d %s", r.Method, r.URL, resp.StatusCode, body)
	}
	return body
}
