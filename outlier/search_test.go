package outlier

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// parameters lists the query parameters of GET /search/outliers as the interface
// does, in its order.
const parameters = `query seed sortBy sortOrder type averageViewsRatioFrom averageViewsRatioTo zScoreFrom zScoreTo
viewCountFrom viewCountTo language durationFrom durationTo publishedAtFrom publishedAtTo subscribersCountFrom
subscribersCountTo channelAvgViewsFrom channelAvgViewsTo channelVideoCountFrom channelVideoCountTo channelId
channelAvgViewsToSubscribersRatioFrom channelAvgViewsToSubscribersRatioTo titlePattern referenceId
rpmEstimationFrom rpmEstimationTo revenueEstimationFrom revenueEstimationTo channelMonetizationAdsense
channelMonetizationSponsored classificationQuality classificationIsFaceless excludeKeyword from size by`

// full is a search in which every parameter has a value.
func full() url.Values {
	day := time.Date(2026, 2, 28, 23, 30, 0, 0, time.FixedZone("", -3600))
	v := url.Values{
		"query": {"b c", "a&b"}, "seed": {"42"}, "sortBy": {"zScore"}, "sortOrder": {"desc"}, "by": {"lexical"},
		"type": {"short"}, "language": {"en", "de"}, "channelId": {"UC1234567890abcdefghijkl"},
		"titlePattern": {"*é e*"}, "referenceId": {"r"},
		"channelMonetizationAdsense": {"true"}, "channelMonetizationSponsored": {"false"},
		"classificationQuality": {"neutral"}, "classificationIsFaceless": {"false"}, "excludeKeyword": {"x"},
	}
	SetRange(v, "publishedAt", day, day.Add(time.Hour+time.Millisecond))
	for _, name := range strings.Fields("averageViewsRatio channelAvgViews channelAvgViewsToSubscribersRatio rpmEstimation revenueEstimation") {
		v.Set(name+"From", Number(0.5))
		v.Set(name+"To", Number(10.25))
	}
	for _, name := range []string{"viewCount", "duration", "subscribersCount"} {
		v.Set(name+"From", Integer(0))
		v.Set(name+"To", Integer(maxInteger))
	}
	v.Set("zScoreFrom", Number(-1.5))
	v.Set("zScoreTo", Number(1e6))
	v.Set("channelVideoCountFrom", Integer(1))
	v.Set("channelVideoCountTo", Integer(120))
	return v
}

// with is params and what an encoded query sets besides, or removes by an empty value.
func with(t testing.TB, params url.Values, encoded string) url.Values {
	t.Helper()
	changes, err := url.ParseQuery(encoded)
	if err != nil {
		t.Fatal(err)
	}
	all := maps.Clone(params)
	maps.Copy(all, changes)
	return all
}

// at is params for one page.
func at(params url.Values, from, size int64) url.Values {
	all := url.Values{"from": {Integer(from)}, "size": {Integer(size)}}
	maps.Copy(all, params)
	return all
}

// ask makes a request at the documented price.
func ask(t testing.TB, op Operation, params url.Values) *Request {
	t.Helper()
	r, err := NewRequest(op, params, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// anAsk is one request for op, a data endpoint or not.
func anAsk(t testing.TB, op Operation) *Request {
	t.Helper()
	if op.IsData() {
		for _, id := range []string{aVideo, aChannel, aScan} {
			if r, err := DataRequest(op, id); err == nil {
				return r
			}
		}
		t.Fatalf("no id for %s", op)
	}
	return ask(t, op, map[Operation]url.Values{
		OpRelated: {"title": {"a"}}, OpFindRelatedChannels: {"relatedChannelId": {aChannel}}, OpStartScan: {"query": {"a"}},
	}[op])
}

func TestSearchSendsItsParameters(t *testing.T) {
	want := strings.Fields(parameters)
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(ask(t, OpSearch, at(full(), 0, 40)).params))); diff != "" {
		t.Errorf("parameters (-interface +sent):\n%s", diff)
	}
}

func TestSearchEncodesValuesForInterface(t *testing.T) {
	r := ask(t, OpSearch, at(full(), 80, 40))
	for name, want := range map[string][]string{
		"query":                      {"b c", "a&b"},
		"language":                   {"en", "de"},
		"zScoreFrom":                 {"-1.5"},
		"zScoreTo":                   {"1000000"},
		"viewCountFrom":              {"0"},
		"viewCountTo":                {"9007199254740991"},
		"publishedAtFrom":            {"2026-03-01T00:30:00Z"},
		"publishedAtTo":              {"2026-03-01T01:30:00Z"},
		"channelMonetizationAdsense": {"true"},
		"classificationIsFaceless":   {"false"},
		"from":                       {"80"},
		"size":                       {"40"},
	} {
		if diff := cmp.Diff(want, r.params[name]); diff != "" {
			t.Errorf("%s (-want +sent):\n%s", name, diff)
		}
	}
	if r.op != OpSearch || r.path != "/search/outliers" || r.price != 2 || !r.Paid() || r.entity != "" {
		t.Errorf("request is %+v", r)
	}
}

func TestEmptySearchSendsOnlyThePage(t *testing.T) {
	r := ask(t, OpSearch, at(nil, 0, 1))
	if diff := cmp.Diff(url.Values{"from": {"0"}, "size": {"1"}}, r.params); diff != "" {
		t.Errorf("parameters (-want +sent):\n%s", diff)
	}
}

func TestSearchRefusesWhatTheInterfaceDoes(t *testing.T) {
	for name, tt := range map[string]struct{ change, want string }{ // what is set, and the path and code of what is wrong
		"unknown type":              {"type=movie", "type enum"},
		"unknown sortBy":            {"sortBy=zscore", "sortBy enum"},
		"unknown sortOrder":         {"sortOrder=down", "sortOrder enum"},
		"unknown by":                {"by=exact", "by enum"},
		"unknown quality":           {"classificationQuality=great", "classificationQuality enum"},
		"negative views":            {"viewCountFrom=-1", "viewCountFrom bounds"},
		"no views at most":          {"viewCountTo=0", "viewCountTo bounds"},
		"views above M":             {"viewCountTo=9007199254740992", "viewCountTo bounds"},
		"duration from above M":     {"durationFrom=9007199254740992", "durationFrom bounds"},
		"subscribers to 0":          {"subscribersCountTo=0", "subscribersCountTo bounds"},
		"121 channel videos":        {"channelVideoCountTo=121", "channelVideoCountTo bounds"},
		"channel videos above M":    {"channelVideoCountFrom=9007199254740992", "channelVideoCountFrom bounds"},
		"negative average":          {"channelAvgViewsFrom=-0.1", "channelAvgViewsFrom bounds"},
		"average to 0":              {"channelAvgViewsTo=0", "channelAvgViewsTo bounds"},
		"ratio to 0":                {"channelAvgViewsToSubscribersRatioTo=0", "channelAvgViewsToSubscribersRatioTo bounds"},
		"negative rpm":              {"rpmEstimationFrom=-1", "rpmEstimationFrom bounds"},
		"revenue to 0":              {"revenueEstimationTo=0", "revenueEstimationTo bounds"},
		"not a number":              {"zScoreFrom=NaN", "zScoreFrom bounds"},
		"infinite ratio":            {"averageViewsRatioTo=%2BInf", "averageViewsRatioTo bounds"},
		"counts the wrong way":      {"viewCountFrom=9&viewCountTo=8", "viewCountFrom order"},
		"numbers the wrong way":     {"zScoreFrom=2&zScoreTo=1", "zScoreFrom order"},
		"dates the wrong way":       {"publishedAtFrom=2026-03-01T01:30:01Z", "publishedAtFrom order"},
		"year of five digits":       {"publishedAtTo=" + Instant(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)), "publishedAtTo pattern"},
		"language of three letters": {"language=en&language=deu", "language pattern"},
		"unknown language":          {"language=xx", "language pattern"},
		"language in capitals":      {"language=EN", "language pattern"},
		"channel id too short":      {"channelId=UC123", "channelId pattern"},
		"title without star":        {"titlePattern=how+to", "titlePattern pattern"},
		"title of one letter":       {"titlePattern=*a+1*", "titlePattern pattern"},
		"title in Cyrillic":         {"titlePattern=*кофе*", "titlePattern pattern"},
		"title in numerals":         {"titlePattern=*ⅣⅥ*", "titlePattern pattern"},
		"title too long":            {"titlePattern=*" + strings.Repeat("é", 200), "titlePattern pattern"},
		"title of one character":    {"titlePattern=*", "titlePattern pattern"},
		"empty query":               {"query=a&query=", "query pattern"},
		"blank keyword":             {"excludeKeyword=+", "excludeKeyword pattern"},
		"query not in UTF-8":        {"query=%ff", "query pattern"},
		"page before the first":     {"from=-1", "from bounds"},
		"page of nothing":           {"size=0", "size bounds"},
		"page too large":            {"size=41", "size bounds"},
		"page in another form":      {"size=040", "size bounds"},
		"filter by another name":    {"zscoreFrom=1", "zscoreFrom unknown"},
		"seed of a related search":  {"title=a", "title unknown"},
		"name with a bracket":       {"query%5B%5D=a", "query[] unknown"},
		"empty text":                {"type=", "type pattern"},
		"two texts for one":         {"type=video&type=short", "type pattern"},
		"two ends for one":          {"zScoreFrom=1&zScoreFrom=2", "zScoreFrom pattern"},
		"no boolean":                {"classificationIsFaceless=1", "classificationIsFaceless pattern"},
		"number in another form":    {"zScoreFrom=1e0", "zScoreFrom pattern"},
		"integer in another form":   {"viewCountFrom=%2B5", "viewCountFrom pattern"},
		"integer beyond 64 bits":    {"viewCountTo=99999999999999999999", "viewCountTo pattern"},
		"integer with a fraction":   {"viewCountFrom=1.0", "viewCountFrom pattern"},
		"time in another form":      {"publishedAtFrom=2026-02-28T23:30:00%2B01:00", "publishedAtFrom pattern"},
		"day that no calendar has":  {"publishedAtFrom=2026-02-29T00:00:00Z", "publishedAtFrom pattern"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewRequest(OpSearch, with(t, full(), tt.change), nil)
			if diff := cmp.Diff([]string{tt.want}, codes(err)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTitlePatternBoundsAreInclusive(t *testing.T) {
	for _, ok := range []string{"*ab", "ñé*", "*ƒṩ", "*" + strings.Repeat("é", 199), "a*b"} {
		if _, err := NewRequest(OpSearch, url.Values{"titlePattern": {ok}}, nil); err != nil {
			t.Errorf("%q is refused: %v", ok, err)
		}
	}
}

func TestRequestNamesEveryMistakeAtOnce(t *testing.T) {
	params := url.Values{"sortBy": {"likes"}, "type": {"movie"}}
	_, err := NewRequest(OpSearch, at(params, -1, 41), nil)
	e, ok := err.(*Error)
	if !ok || e.Kind != Invalid {
		t.Fatalf("error is %#v, want an *Error of kind invalid", err)
	}
	want := `search: sortBy must be one of views, zScore, averageViewsRatio, publishedAt, revenue, rpm, not "likes"; ` +
		`type must be one of video, short, not "movie"; from must be 0 to 9007199254740991, not -1; size must be 1 to 40, not 41`
	if err.Error() != want {
		t.Errorf("error is\n%v\nwant\n%v", err, want)
	}
}

// For any integers, a range that passes the check is within the document's bounds.
func TestAcceptedIntegerRangesObeyInterface(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.Ptr(rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{-1, 0, 1, 120, 121, maxInteger, maxInteger + 1})), true)
		from, to := end.Draw(t, "from"), end.Draw(t, "to")
		params := url.Values{}
		for _, name := range []string{"viewCount", "channelVideoCount"} {
			if from != nil {
				params.Set(name+"From", Integer(*from))
			}
			if to != nil {
				params.Set(name+"To", Integer(*to))
			}
		}
		_, err := NewRequest(OpSearch, params, nil)
		refused := map[string]bool{}
		for _, code := range codes(err) {
			path, _, _ := strings.Cut(code, " ")
			refused[path] = true
		}
		low := from == nil || 0 <= *from && *from <= maxInteger
		order := from == nil || to == nil || *from <= *to
		for name, most := range map[string]int64{"viewCount": maxInteger, "channelVideoCount": 120} {
			high := to == nil || 0 < *to && *to <= most
			if got, want := refused[name+"To"], !high; got != want {
				t.Errorf("%sTo refused: %v, want %v", name, got, want)
			}
			if got, want := refused[name+"From"], !low || high && !order; got != want {
				t.Errorf("%sFrom refused: %v, want %v", name, got, want)
			}
		}
	})
}

// A request neither changes the parameters that it was made from nor follows their changes.
func TestARequestOwnsItsParameters(t *testing.T) {
	given := url.Values{"query": {"a"}}
	r := ask(t, OpStartScan, given)
	given["query"][0] = ""
	given.Set("mode", "slow")
	if want := "findBy=query&mode=fast&query=a"; r.params.Encode() != want {
		t.Errorf("it became %s, want %s", r.params.Encode(), want)
	}
}

// FuzzRequest: every request that passes the check can be read back from what is sent, can be made
// again from it with the same identity, and has no parameter outside the table.
func FuzzRequest(f *testing.F) {
	for i, op := range Operations() {
		f.Add(i, full().Encode())
		f.Add(i, "query=a&mode=fast&findBy=channels")
		f.Add(i, "relatedChannelId="+aChannel+"&publishedAtTo=0000-01-01T00:00:00Z&from=0&size=40")
		f.Add(i, "title=%ff&zScoreFrom=-0&zScoreTo=Inf&"+string(op))
	}
	f.Fuzz(func(t *testing.T, i int, encoded string) {
		params, err := url.ParseQuery(encoded)
		if err != nil || i < 0 {
			return
		}
		op := Operations()[i%len(Operations())]
		r, err := NewRequest(op, params, nil)
		if err != nil {
			if r != nil {
				t.Errorf("%s gives a request and %v", op, err)
			}
			return
		}
		stored, err := url.ParseQuery(r.params.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, ask(t, op, stored), cmp.AllowUnexported(Request{})); diff != "" {
			t.Errorf("%s (-first +again):\n%s", op, diff)
		}
		if r.price != endpoints[op].price && op != OpStartScan || r.price <= 0 {
			t.Errorf("%s costs %d", op, r.price)
		}
		if op == OpTrendingFormats {
			return
		}
		var names []string
		for _, p := range op.allParams() {
			names = append(names, p.Names()...)
		}
		for name, values := range r.params {
			if !slices.Contains(names, name) || len(values) == 0 {
				t.Errorf("%s sends %s=%q", op, name, values)
			}
		}
	})
}

func TestDataRequests(t *testing.T) {
	const video, channel, scan = "a-_45678901", "UC-_567890abcdefghijklmn", "3f2b8c1e-9d4a-4c6b-Be7f-0a1b2c3d4e5f"
	for _, tt := range []struct {
		op       Operation
		id, path string
	}{
		{OpChannelVideos, channel, "/channel/videos/" + channel},
		{OpChannelShorts, channel, "/channel/shorts/" + channel},
		{OpDetails, video, "/video/" + video},
		{OpComments, video, "/video/comments/" + video},
		{OpTranscript, video, "/video/transcript/" + video},
		{OpScan, scan, "/scan/" + scan},
	} {
		got, err := DataRequest(tt.op, tt.id)
		if err != nil {
			t.Errorf("%s: %v", tt.op, err)
			continue
		}
		if diff := cmp.Diff(&Request{op: tt.op, path: tt.path, entity: tt.id}, got, cmp.AllowUnexported(Request{})); diff != "" || got.Paid() {
			t.Errorf("%s (-want +got):\n%s", tt.op, diff)
		}
		for _, id := range []string{"", tt.id[1:], tt.id + "a", tt.id[1:] + "/", tt.id[1:] + "é", tt.id[1:] + "\n", "../" + tt.id[3:]} {
			_, err := DataRequest(tt.op, id)
			if e, ok := err.(*Error); !ok || e.Kind != Invalid || len(e.Fields) != 1 || e.Fields[0].Path != "id" {
				t.Errorf("%s %q: error is %v, want an invalid id", tt.op, id, err)
			}
		}
	}
	for _, other := range []string{
		strings.Replace(scan, "4c6b", "1c6b", 1), strings.Replace(scan, "Be7f", "7e7f", 1), strings.ReplaceAll(scan, "-", ""), "{" + scan + "}",
	} {
		if _, err := DataRequest(OpScan, other); kindOf(err) != Invalid {
			t.Errorf("%s passes for a UUID of version 4: %v", other, err)
		}
	}
	for _, op := range []Operation{OpSearch, OpStartScan, OpTrendingFormats, "credits", ""} {
		if _, err := DataRequest(op, video); err == nil {
			t.Errorf("%q passes for a data endpoint", op)
		}
	}
}
