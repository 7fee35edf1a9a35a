package outlier

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// seen is what is read of a hit.
type seen struct {
	VideoID, ChannelID string
	Facts              map[string]float64 // that it can be sorted by
}

// seenIn returns the numbers of a page and what is read of its hits.
func seenIn(t *testing.T, op Operation, body string) (numbers [3]int64, hits []seen) {
	t.Helper()
	p, err := PageOf(op, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range p.Hits {
		one := seen{h.VideoID, h.ChannelID, map[string]float64{}}
		for name := range h.of {
			if x, known := h.SortValue(name); known {
				one.Facts[name] = x
			}
		}
		hits = append(hits, one)
	}
	return [3]int64{p.Total, p.From, p.Size}, hits
}

const hit = `{"id":"dQw4w9WgXcQ","kind":"video","time":"2026-11-21T00:00:00Z",
"snippet":{"channelId":"UC1234567890abcdefghijkl","title":"\"quoted\" ☕","publishedAt":"2026-11-01T10:00:00.500Z",
 "monetization":{"rpmEstimationFrom":1,"rpmEstimationTo":2,"revenueEstimationFrom":100,"revenueEstimationTo":300}},
"statistics":{"viewCount":123456,"zScore":2.5,"averageViewsRatio":7.25}}`

func TestReadPageReadsRelevantFields(t *testing.T) {
	body := `{"pagination":{"total":10000,"from":40,"size":1},"hits":[` + hit + `]}`
	numbers, hits := seenIn(t, OpSearch, body)
	want := []seen{{"dQw4w9WgXcQ", "UC1234567890abcdefghijkl", map[string]float64{
		"views": 123456, "zScore": 2.5, "averageViewsRatio": 7.25, "publishedAt": 1793527200.5, "revenue": 200, "rpm": 1.5,
	}}}
	if diff := cmp.Diff(want, hits); diff != "" || numbers != [3]int64{10000, 40, 1} {
		t.Errorf("%v (-want +got):\n%s", numbers, diff)
	}
	for _, f := range OpSearch.Params() {
		if f.Name != "sortBy" {
			continue
		}
		for _, name := range f.OneOf {
			if _, ok := hits[0].Facts[name]; !ok {
				t.Errorf("a whole hit has no value to sort by %s", name)
			}
		}
	}
}

func TestReadPageToleratesUnexpectedFields(t *testing.T) {
	none := [3]int64{-1, -1, -1}
	for name, tt := range map[string]struct {
		body    string
		numbers [3]int64
		hits    []seen
	}{
		"no hits":                {`{"hits":[]}`, none, nil},
		"null hits":              {`{"hits":null,"pagination":null}`, none, nil},
		"numbers in quotes":      {`{"pagination":{"total":"7","from":1e1,"size":40.0},"hits":[]}`, [3]int64{7, 10, 40}, nil},
		"not whole numbers":      {`{"pagination":{"total":-1,"from":1.5,"size":"many"},"hits":[]}`, none, nil},
		"number too large":       {`{"pagination":{"total":1e999,"from":9007199254740992},"hits":[]}`, none, nil},
		"odd elements keep rank": {`{"hits":[null,7,{"id":"dQw4w9WgXcQ"}]}`, none, []seen{{}, {}, {VideoID: "dQw4w9WgXcQ"}}},
		"ids of wrong form":      {`{"hits":[{"id":"../../etc","snippet":{"channelId":"UC"}}]}`, none, []seen{{VideoID: "../../etc", ChannelID: "UC"}}},
		"no ids":                 {`{"hits":[{"id":" "},{"id":true},{"id":"a\u0007"},{"id":"` + strings.Repeat("x", 257) + `"}]}`, none, []seen{{}, {}, {}, {}}},
		"objects of other type":  {`{"hits":[{"snippet":[],"statistics":"none"}]}`, none, []seen{{}}},
		"null facts":             {`{"hits":[{"statistics":{"viewCount":null,"zScore":null},"snippet":{"publishedAt":null,"monetization":null}}]}`, none, []seen{{}}},
		"half an estimate":       {`{"hits":[{"snippet":{"monetization":{"rpmEstimationTo":4}}}]}`, none, []seen{{Facts: map[string]float64{"rpm": 4}}}},
		"date without zone":      {`{"hits":[{"snippet":{"publishedAt":"2026-11-01T10:00:00"}}]}`, none, []seen{{}}},
		"unknown fields":         {`{"hits":[{"new":{"a":[1]},"statistics":{"zScore":"1.5","x":1}}],"y":[{}]}`, none, []seen{{Facts: map[string]float64{"zScore": 1.5}}}},
	} {
		t.Run(name, func(t *testing.T) {
			numbers, hits := seenIn(t, OpSearch, tt.body)
			if diff := cmp.Diff(tt.hits, hits, cmpopts.EquateEmpty()); diff != "" || numbers != tt.numbers {
				t.Errorf("%v, want %v (-want +got):\n%s", numbers, tt.numbers, diff)
			}
		})
	}
}

func TestReadPageRefusesOtherAnswers(t *testing.T) {
	for _, body := range []string{``, `null`, `[]`, `"hits"`, `{}`, `{"hits":{}}`, `{"hits":[`, `{"items":[]}`, `{"hits":[{"id":}]}`, `<html>`} {
		if p, err := PageOf(OpSearch, []byte(body)); err == nil {
			t.Errorf("%s passes as %+v", body, p)
		}
	}
}

func TestEmptyAnswersMeanNone(t *testing.T) {
	for _, tt := range []struct {
		op   Operation
		body string
		want bool
	}{
		{OpDetails, `{"ids":["x"],"items":[]}`, true},
		{OpDetails, `{"items":[]}`, true},
		{OpDetails, `{"ids":["y"],"items":[]}`, false},
		{OpDetails, `{"items":null}`, false},
		{OpDetails, `{"items":{}}`, false},
		{OpDetails, `{"items":[null]}`, false},
		{OpDetails, `{"items":[{"id":"x"}]}`, false},
		{OpDetails, `{}`, false},
		{OpDetails, `{"items":[`, false},
		{OpComments, `{"items":[]}`, true},
		{OpComments, `{"items":[{"comments":[],"statistics":{"count":0}}]}`, false},
		{OpTranscript, `{"items":[]}`, true},
		{OpTranscript, `{"items":[{"id":"x","events":[]}]}`, true},
		{OpTranscript, `{"items":[{"events":[],"transcript":null}]}`, true},
		{OpTranscript, `{"items":[{"id":"x","events":null,"transcript":" "}]}`, true},
		{OpTranscript, `{"items":[{"id":"y","events":[]}]}`, false},
		{OpTranscript, `{"items":[{"id":"x","events":null,"transcript":null}]}`, false},
		{OpTranscript, `{"items":[{"id":"x"}]}`, false},
		{OpTranscript, `{"items":[{"id":"x","events":[],"transcript":"words"}]}`, false},
		{OpTranscript, `{"items":[{"id":"x","events":[{"text":"words"}]}]}`, false},
		{OpTranscript, `{"items":[{"events":[]},{"events":[{}]}]}`, false},
		{OpTranscript, `{"items":[{"events":[]},null]}`, false},
		{OpChannelVideos, `{"item":null}`, false},
		{OpChannelVideos, `{"items":[]}`, false},
		{OpSearch, `{"hits":[],"items":[]}`, false},
		{OpFindChannels, `{"hits":[],"items":[],"item":null}`, false},
		{OpTrendingFormats, `{"items":[]}`, false},
		{OpScan, `{"id":"x","items":[],"item":null}`, false},
	} {
		if got := Empty(tt.op, "x", []byte(tt.body)); got != tt.want {
			t.Errorf("Empty(%s, %s) = %v", tt.op, tt.body, got)
		}
	}
}

func FuzzReadPage(f *testing.F) {
	f.Add([]byte(`{"pagination":{"total":"7","from":1e1,"size":null},"hits":[` + hit + `,null,[]]}`))
	f.Add([]byte(`{"hits":[{"id":7,"snippet":{"monetization":{"rpmEstimationFrom":"x"}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := PageOf(OpSearch, body)
		if err != nil {
			return
		}
		for _, h := range p.Hits {
			if h.VideoID != "" && !IsID(h.VideoID) || h.ChannelID != "" && !IsID(h.ChannelID) {
				t.Errorf("a hit with ids %q, %q", h.VideoID, h.ChannelID)
			}
			for name := range outlierFacts {
				if x, _ := h.SortValue(name); x-x != 0 {
					t.Errorf("%s is %v", name, x)
				}
			}
		}
		for _, op := range []Operation{OpDetails, OpTranscript, OpChannelVideos} {
			Empty(op, "x", body)
		}
	})
}
