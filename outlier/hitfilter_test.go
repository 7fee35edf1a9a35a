package outlier

import (
	"net/url"
	"testing"
)

// Every parameter of a filter passes a matching hit, and no hit that does not match or lacks the
// value.
func TestHitFilterRequiresMatchingValues(t *testing.T) {
	const video = `{"kind":"video","snippet":{"channelId":"UC1234567890abcdefghijkl","channelSubscribers":5000,
		"publishedAt":"2026-11-01T10:00:00Z","language":"en","duration":600,
		"monetization":{"rpmEstimationFrom":1,"rpmEstimationTo":3,"revenueEstimationFrom":100,"revenueEstimationTo":300},
		"channelMonetization":{"adsense":true}},
		"statistics":{"viewCount":50000,"likeCount":70,"commentCount":9,"zScore":2.5,"averageViewsRatio":7},
		"classification":{"isFaceless":false,"quality":"neutral"}}`
	const channel = `{"id":"UC1234567890abcdefghijkl","language":{"code":"en"},
		"statistics":{"subscribers":5000,"averageViews":900,"avgViewsToSubscribersRatio":0.5,"viewVariationCoefficient":1},
		"monetization":{"adsense":true,"revenueMonthlyEstimationFrom":10,"revenueMonthlyEstimationTo":30,"rpmEstimationTo":2},
		"classification":{"isFaceless":false,"quality":"neutral"}}`
	cases := map[Operation]map[string][2]string{ // by parameter: what fits the hit, and what does not
		OpSearch: {
			"type": {"video", "short"}, "channelId": {"UC1234567890abcdefghijkl", "UCabcdefghijkl1234567890"}, "language": {"en", "de"},
			"publishedAtFrom": {"2026-11-01T10:00:00Z", "2026-11-01T10:00:01Z"}, "publishedAtTo": {"2026-11-01T10:00:00Z", "2026-11-01T09:59:59Z"},
			"durationFrom": {"600", "601"}, "durationTo": {"600", "599"}, "averageViewsRatioFrom": {"7", "7.1"}, "averageViewsRatioTo": {"7", "6.9"},
			"zScoreFrom": {"2.5", "2.6"}, "zScoreTo": {"2.5", "2.4"}, "viewCountFrom": {"50000", "50001"}, "viewCountTo": {"50000", "49999"},
			"likeCountFrom": {"70", "71"}, "likeCountTo": {"70", "69"}, "commentCountFrom": {"9", "10"}, "commentCountTo": {"9", "8"},
			"subscribersCountFrom": {"5000", "5001"}, "subscribersCountTo": {"5000", "4999"},
			"rpmEstimationFrom": {"2", "3"}, "rpmEstimationTo": {"2", "1"}, "revenueEstimationFrom": {"200", "201"}, "revenueEstimationTo": {"200", "199"},
			"channelMonetizationAdsense": {"true", "false"}, "classificationQuality": {"neutral", "positive"}, "classificationIsFaceless": {"false", "true"},
		},
		OpFindChannels: {
			"language": {"en", "de"}, "subscribersFrom": {"5000", "5001"}, "subscribersTo": {"5000", "4999"},
			"averageViewsFrom": {"900", "901"}, "averageViewsTo": {"900", "899"},
			"avgViewsToSubscribersRatioFrom": {"0.5", "0.6"}, "avgViewsToSubscribersRatioTo": {"0.5", "0.4"},
			"viewVariationCoefficientFrom": {"1", "1.5"}, "viewVariationCoefficientTo": {"1.5", "0.5"},
			"revenueMonthlyEstimationFrom": {"20", "21"}, "revenueMonthlyEstimationTo": {"20", "19"},
			"rpmEstimationFrom": {"2", "3"}, "rpmEstimationTo": {"2", "1"}, "monetizationAdsense": {"true", "false"},
			"classificationQuality": {"neutral", "positive"}, "classificationIsFaceless": {"false", "true"},
		},
	}
	for op, hit := range map[Operation]string{OpSearch: video, OpFindChannels: channel} {
		page, err := PageOf(op, []byte(`{"hits":[`+hit+`,{}]}`))
		if err != nil {
			t.Fatal(err)
		}
		judged := map[string]bool{}
		for name, values := range cases[op] {
			for i, value := range values {
				params := url.Values{name: {value}}
				filter := NewHitFilter(op, params)
				if got := filter.Admits(page.Hits[0]); got != (i == 0) {
					t.Errorf("%s %s=%s admits the hit: %v", op, name, value, got)
				}
				if filter.Admits(page.Hits[1]) {
					t.Errorf("%s %s=%s admits a hit that does not show it", op, name, value)
				}
				if len(filter.conditions) == 1 {
					judged[name] = true
				}
			}
		}
		if len(judged) != len(cases[op]) {
			t.Errorf("%s: %d parameters are read, want %d", op, len(judged), len(cases[op]))
		}
		for _, f := range HitParams(op) {
			if !judged[f.Name] && !judged[f.Name+"From"] {
				t.Errorf("%s: no case for %s", op, f.Name)
			}
		}
		if !NewHitFilter(op, nil).Admits(page.Hits[1]) {
			t.Errorf("%s: the empty filter does not admit every hit", op)
		}
	}
}
