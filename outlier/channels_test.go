package outlier

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// fullChannels are filters in which every parameter has a value, and one page.
func fullChannels() url.Values {
	day := time.Date(2026, 2, 28, 0, 0, 0, 0, time.UTC)
	v := url.Values{
		"filterBy": {"video"}, "contentKind": {"long-form"}, "language": {"en"}, "monetizationAdsense": {"true"},
		"excludeNiche": {"a", "b"}, "classificationQuality": {"positive"}, "classificationIsFaceless": {"false"},
		"subscribersFrom": {"0"}, "subscribersTo": {"1000000"},
	}
	SetRange(v, "publishedAt", day, day.Add(time.Hour))
	for _, name := range []string{
		"averageViews", "medianViews", "avgViewsToSubscribersRatio", "videosCount", "viewVariationCoefficient",
		"revenueMonthlyEstimation", "rpmEstimation", "avgDuration",
	} {
		v.Set(name+"From", "0.5")
		v.Set(name+"To", "10.25")
	}
	return at(v, 40, 40)
}

func TestChannelSearchesSendTheirParameters(t *testing.T) {
	const filters = "avgDurationFrom=0.5&avgDurationTo=10.25&avgViewsToSubscribersRatioFrom=0.5&avgViewsToSubscribersRatioTo=10.25&" +
		"averageViewsFrom=0.5&averageViewsTo=10.25&classificationIsFaceless=false&classificationQuality=positive&contentKind=long-form&" +
		"excludeNiche=a&excludeNiche=b&filterBy=video&from=40&language=en&medianViewsFrom=0.5&medianViewsTo=10.25&monetizationAdsense=true&" +
		"publishedAtFrom=2026-02-28T00%3A00%3A00Z&publishedAtTo=2026-02-28T01%3A00%3A00Z&"
	const rest = "revenueMonthlyEstimationFrom=0.5&revenueMonthlyEstimationTo=10.25&rpmEstimationFrom=0.5&rpmEstimationTo=10.25&"
	const last = "subscribersFrom=0&subscribersTo=1000000&videosCountFrom=0.5&videosCountTo=10.25&viewVariationCoefficientFrom=0.5&viewVariationCoefficientTo=10.25"
	found := ask(t, OpFindChannels, with(t, fullChannels(), "query=x&query=y&seed=7&sortBy=recency&sortOrder=desc"))
	want := filters + "query=x&query=y&" + rest + "seed=7&size=40&sortBy=recency&sortOrder=desc&" + last
	checkSent(t, found, "/search/channels", want)
	related := ask(t, OpFindRelatedChannels, with(t, fullChannels(), "relatedChannelId="+aChannel))
	checkSent(t, related, "/search/channels/related", filters+"relatedChannelId="+aChannel+"&"+rest+"size=40&"+last)
}

func checkSent(t *testing.T, r *Request, path, query string) {
	t.Helper()
	want := values(t, query)
	if diff := cmp.Diff(want, r.params); diff != "" || r.path != path || r.price != 5 {
		t.Errorf("%s costs %d (-want +sent):\n%s", r.path, r.price, diff)
	}
}

func TestChannelSearchesRefuseInvalidParameters(t *testing.T) {
	for name, tt := range map[string]struct{ change, want string }{
		"sort of another search": {"sortBy=zScore", "sortBy enum"},
		"unknown order":          {"sortOrder=up", "sortOrder enum"},
		"unknown kind":           {"contentKind=live", "contentKind enum"},
		"unknown sample":         {"filterBy=long-form", "filterBy enum"},
		"unknown quality":        {"classificationQuality=good", "classificationQuality enum"},
		"no language":            {"language=xx", "language pattern"},
		"negative subscribers":   {"subscribersFrom=-1", "subscribersFrom bounds"},
		"no views at most":       {"medianViewsTo=0", "medianViewsTo bounds"},
		"no number":              {"avgDurationTo=NaN", "avgDurationTo bounds"},
		"the wrong way round":    {"videosCountFrom=11", "videosCountFrom order"},
		"blank niche":            {"excludeNiche=", "excludeNiche pattern"},
	} {
		_, err := NewRequest(OpFindChannels, with(t, fullChannels(), tt.change), nil)
		if diff := cmp.Diff([]string{tt.want}, codes(err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, tt := range map[string]struct {
		ids  []string
		want []string
	}{
		"none":   {nil, []string{"relatedChannelId required"}},
		"a name": {[]string{aChannel, "@name"}, []string{"relatedChannelId pattern"}},
	} {
		_, err := NewRequest(OpFindRelatedChannels, at(url.Values{"relatedChannelId": tt.ids}, 0, 40), nil)
		if diff := cmp.Diff(tt.want, codes(err)); diff != "" || kindOf(err) != Invalid {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

const channelHit = `{"id":"` + aChannel + `","kind":"channel","foundAt":"2026-11-01T10:00:00.500Z",
"snippet":{"handle":"@a","title":"A","contentKind":["video"]},
"statistics":{"subscribers":1000,"averageViews":"250.5","avgViewsToSubscribersRatio":0.25,"viewVariationCoefficient":1.5,"other":7},
"monetization":{"adsense":true,"revenueMonthlyEstimationFrom":10,"revenueMonthlyEstimationTo":30,"rpmEstimationTo":2}}`

func TestReadChannelPage(t *testing.T) {
	body := `{"hits":[` + channelHit + `,null,{"id":"@a","statistics":{"subscribers":null}}],"pagination":{"total":3,"from":0,"size":40}}`
	numbers, hits := seenIn(t, OpFindChannels, body)
	want := []seen{{"", aChannel, map[string]float64{
		"subscribers": 1000, "adsense": 1, "averageViews": 250.5, "avgViewsToSubscribersRatio": 0.25, "viewVariationCoefficient": 1.5,
		"revenueMonthly": 20, "rpm": 2, "foundAt": 1793527200.5,
	}}, {}, {ChannelID: "@a"}}
	if diff := cmp.Diff(want, hits, cmpopts.EquateEmpty()); diff != "" || numbers != [3]int64{3, 0, 40} {
		t.Errorf("%v (-want +got):\n%s", numbers, diff)
	}
	for _, f := range OpFindChannels.Params() {
		if f.Name != "sortBy" {
			continue
		}
		for _, name := range f.OneOf {
			if _, ok := hits[0].Facts[name]; !ok && name != "recency" {
				t.Errorf("a whole hit has no value to sort by %s", name)
			}
		}
	}
}

func TestPageOfReadsEverySearchAnswer(t *testing.T) {
	outliers, channels := `{"hits":[`+hit+`]}`, `{"hits":[`+channelHit+`]}`
	for _, tt := range []struct {
		op    Operation
		body  string
		video string
		hits  int
		wrong bool
	}{
		{OpSearch, outliers, aVideo, 1, false},
		{OpRelated, outliers, aVideo, 1, false},
		{OpFindChannels, channels, "", 1, false},
		{OpFindRelatedChannels, channels, "", 1, false},
		{OpFindChannels, `{"items":[]}`, "", 0, true},
		{OpTrendingFormats, `[{"hits":[1]}]`, "", 0, false},
		{OpTrendingFormats, `{"hits":[1]}`, "", 0, false},
		{OpTrendingFormats, `{"hits":[1]`, "", 0, true},
		{OpDetails, outliers, "", 0, true},
		{OpScan, outliers, "", 0, true},
	} {
		p, err := PageOf(tt.op, []byte(tt.body))
		if (err != nil) != tt.wrong || len(p.Hits) != tt.hits {
			t.Errorf("%s %s gives %+v, %v", tt.op, tt.body, p, err)
			continue
		}
		if !tt.wrong && (p.Total != -1 || p.From != -1 || p.Size != -1) {
			t.Errorf("%s without pagination has %+v", tt.op, p)
		}
		if tt.hits > 0 && (p.Hits[0].VideoID != tt.video || len(p.Hits[0].ChannelID) != 24) {
			t.Errorf("%s gives the hit %+v", tt.op, p.Hits[0])
		}
	}
}
