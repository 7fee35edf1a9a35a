package outlier

import (
	"maps"
	"math"
	"net/url"
	"reflect"
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
func full() *Search {
	day := time.Date(2026, 2, 28, 23, 30, 0, 0, time.FixedZone("", -3600))
	ratio := Range[float64]{new(0.5), new(10.25)}
	count := Range[int64]{new(int64(0)), new(int64(maxInteger))}
	return &Search{
		Query: []string{"b c", "a&b"}, Seed: "42", SortBy: "zScore", SortOrder: "desc", By: "lexical",
		Filters: Filters{
			Type: "short", AverageViewsRatio: ratio, ZScore: Range[float64]{new(-1.5), new(1e6)},
			ViewCount: count, Language: []string{"en", "de"}, Duration: count,
			PublishedAt:      Range[time.Time]{&day, new(day.Add(time.Hour + time.Millisecond))},
			SubscribersCount: count, ChannelAvgViews: ratio,
			ChannelVideoCount: Range[int64]{new(int64(1)), new(int64(120))}, ChannelID: "UC1234567890abcdefghijkl",
			ChannelAvgViewsToSubscribersRatio: ratio, TitlePattern: "*é e*", ReferenceID: "r",
			RPMEstimation: ratio, RevenueEstimation: ratio,
			ChannelMonetizationAdsense: new(true), ChannelMonetizationSponsored: new(false),
			ClassificationQuality: "neutral", ClassificationIsFaceless: new(false), ExcludeKeyword: []string{"x"},
		},
	}
}

func TestSearchSendsEveryDocumentedParameterAndNoOther(t *testing.T) {
	r, err := full().Request(0, 40)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(parameters)
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(r.Params))); diff != "" {
		t.Errorf("parameters (-interface +sent):\n%s", diff)
	}
	for _, v := range reflect.VisibleFields(reflect.TypeFor[Search]()) {
		if !v.Anonymous && reflect.ValueOf(*full()).FieldByIndex(v.Index).IsZero() {
			t.Errorf("this test gives %s no value", v.Name)
		}
	}
}

func TestSearchSpellsValuesAsTheInterfaceDoes(t *testing.T) {
	r, err := full().Request(80, 40)
	if err != nil {
		t.Fatal(err)
	}
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
		if diff := cmp.Diff(want, r.Params[name]); diff != "" {
			t.Errorf("%s (-want +sent):\n%s", name, diff)
		}
	}
	if r.Op != OpSearch || r.Path != "/search/outliers" || r.Price != 2 || !r.Paid() || r.Entity != "" {
		t.Errorf("request is %+v", r)
	}
}

func TestEmptySearchSendsOnlyThePage(t *testing.T) {
	r, err := new(Search).Request(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(url.Values{"from": {"0"}, "size": {"1"}}, r.Params); diff != "" {
		t.Errorf("parameters (-want +sent):\n%s", diff)
	}
}

func TestIdentityTellsQuestionsApart(t *testing.T) {
	page := func(s *Search, from int) string {
		r, err := s.Request(from, 40)
		if err != nil {
			t.Fatal(err)
		}
		return r.Identity()
	}
	if a, b := page(full(), 0), page(full(), 0); a != b {
		t.Errorf("the same search has the identities %q and %q", a, b)
	}
	other := full()
	slices.Reverse(other.Query)
	different := []string{page(full(), 0), page(full(), 1), page(other, 0), page(&Search{}, 0)}
	for _, op := range []Operation{OpDetails, OpComments} {
		for _, id := range []string{"dQw4w9WgXcQ", "dQw4w9WgXcR"} {
			r, err := DataRequest(op, id)
			if err != nil {
				t.Fatal(err)
			}
			different = append(different, r.Identity())
		}
	}
	slices.Sort(different)
	if n := len(slices.Compact(slices.Clone(different))); n != len(different) {
		t.Errorf("only %d identities in %q", n, different)
	}
}

func TestSearchRefusesWhatTheInterfaceDoes(t *testing.T) {
	for name, tt := range map[string]struct {
		break_ func(*Search)
		want   string // path and code
	}{
		"unknown type":              {func(s *Search) { s.Type = "movie" }, "type enum"},
		"unknown sortBy":            {func(s *Search) { s.SortBy = "zscore" }, "sortBy enum"},
		"unknown sortOrder":         {func(s *Search) { s.SortOrder = "down" }, "sortOrder enum"},
		"unknown by":                {func(s *Search) { s.By = "exact" }, "by enum"},
		"unknown quality":           {func(s *Search) { s.ClassificationQuality = "great" }, "classificationQuality enum"},
		"negative views":            {func(s *Search) { s.ViewCount.From = new(int64(-1)) }, "viewCountFrom bounds"},
		"no views at most":          {func(s *Search) { s.ViewCount = Range[int64]{To: new(int64(0))} }, "viewCountTo bounds"},
		"views above M":             {func(s *Search) { s.ViewCount.To = new(int64(maxInteger + 1)) }, "viewCountTo bounds"},
		"duration from above M":     {func(s *Search) { s.Duration = Range[int64]{From: new(int64(maxInteger + 1))} }, "durationFrom bounds"},
		"subscribers to 0":          {func(s *Search) { s.SubscribersCount.To = new(int64(0)) }, "subscribersCountTo bounds"},
		"121 channel videos":        {func(s *Search) { s.ChannelVideoCount.To = new(int64(121)) }, "channelVideoCountTo bounds"},
		"channel videos above M":    {func(s *Search) { s.ChannelVideoCount = Range[int64]{From: new(int64(maxInteger + 1))} }, "channelVideoCountFrom bounds"},
		"negative average":          {func(s *Search) { s.ChannelAvgViews.From = new(-0.1) }, "channelAvgViewsFrom bounds"},
		"average to 0":              {func(s *Search) { s.ChannelAvgViews.To = new(0.0) }, "channelAvgViewsTo bounds"},
		"ratio to 0":                {func(s *Search) { s.ChannelAvgViewsToSubscribersRatio.To = new(0.0) }, "channelAvgViewsToSubscribersRatioTo bounds"},
		"negative rpm":              {func(s *Search) { s.RPMEstimation.From = new(-1.0) }, "rpmEstimationFrom bounds"},
		"revenue to 0":              {func(s *Search) { s.RevenueEstimation.To = new(0.0) }, "revenueEstimationTo bounds"},
		"not a number":              {func(s *Search) { s.ZScore.From = new(math.NaN()) }, "zScoreFrom bounds"},
		"infinite ratio":            {func(s *Search) { s.AverageViewsRatio.To = new(math.Inf(1)) }, "averageViewsRatioTo bounds"},
		"counts the wrong way":      {func(s *Search) { s.ViewCount = Range[int64]{new(int64(9)), new(int64(8))} }, "viewCountFrom order"},
		"numbers the wrong way":     {func(s *Search) { s.ZScore = Range[float64]{new(2.0), new(1.0)} }, "zScoreFrom order"},
		"dates the wrong way":       {func(s *Search) { s.PublishedAt.From = new(s.PublishedAt.To.Add(1)) }, "publishedAtFrom order"},
		"year of five digits":       {func(s *Search) { s.PublishedAt.To = new(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)) }, "publishedAtTo bounds"},
		"language of three letters": {func(s *Search) { s.Language = []string{"en", "deu"} }, "language pattern"},
		"language that is none":     {func(s *Search) { s.Language = []string{"xx"} }, "language pattern"},
		"language in capitals":      {func(s *Search) { s.Language = []string{"EN"} }, "language pattern"},
		"channel id too short":      {func(s *Search) { s.ChannelID = "UC123" }, "channelId pattern"},
		"title without star":        {func(s *Search) { s.TitlePattern = "how to" }, "titlePattern pattern"},
		"title of one letter":       {func(s *Search) { s.TitlePattern = "*a 1*" }, "titlePattern pattern"},
		"title in Cyrillic":         {func(s *Search) { s.TitlePattern = "*кофе*" }, "titlePattern pattern"},
		"title in numerals":         {func(s *Search) { s.TitlePattern = "*ⅣⅥ*" }, "titlePattern pattern"},
		"title too long":            {func(s *Search) { s.TitlePattern = "*" + strings.Repeat("é", 200) }, "titlePattern pattern"},
		"title of one character":    {func(s *Search) { s.TitlePattern = "*" }, "titlePattern pattern"},
		"empty query":               {func(s *Search) { s.Query = []string{"a", ""} }, "query pattern"},
		"blank keyword":             {func(s *Search) { s.ExcludeKeyword = []string{" "} }, "excludeKeyword pattern"},
		"query not in UTF-8":        {func(s *Search) { s.Query = []string{"\xff"} }, "query pattern"},
	} {
		t.Run(name, func(t *testing.T) {
			s := full()
			tt.break_(s)
			var got []string
			for _, f := range s.Check() {
				got = append(got, f.Path+" "+f.Code)
			}
			if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTitlePatternBoundsAreInclusive(t *testing.T) {
	for _, ok := range []string{"*ab", "ñé*", "*ƒṩ", "*" + strings.Repeat("é", 199), "a*b"} {
		if wrong := (&Search{Filters: Filters{TitlePattern: ok}}).Check(); wrong != nil {
			t.Errorf("%q is refused: %v", ok, wrong)
		}
	}
}

func TestRequestNamesEveryMistakeAtOnce(t *testing.T) {
	s := &Search{SortBy: "likes", Filters: Filters{Type: "movie"}}
	_, err := s.Request(-1, 41)
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

// Whatever integers a range gets, what passes the check obeys the document's bounds.
func TestIntegerRangesThatPassObeyTheInterface(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.Ptr(rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{-1, 0, 1, 120, 121, maxInteger, maxInteger + 1})), true)
		r := Range[int64]{end.Draw(t, "from"), end.Draw(t, "to")}
		s := &Search{Filters: Filters{ViewCount: r, ChannelVideoCount: r}}
		refused := map[string]bool{}
		for _, f := range s.Check() {
			refused[f.Path] = true
		}
		low := r.From == nil || 0 <= *r.From && *r.From <= maxInteger
		order := r.From == nil || r.To == nil || *r.From <= *r.To
		for name, most := range map[string]int64{"viewCount": maxInteger, "channelVideoCount": 120} {
			high := r.To == nil || 0 < *r.To && *r.To <= most
			if got, want := refused[name+"To"], !high; got != want {
				t.Errorf("%sTo refused: %v, want %v", name, got, want)
			}
			if got, want := refused[name+"From"], !low || high && !order; got != want {
				t.Errorf("%sFrom refused: %v, want %v", name, got, want)
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
		if diff := cmp.Diff(&Request{Op: tt.op, Path: tt.path, Entity: tt.id}, got); diff != "" || got.Paid() {
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

// TestParametersThatWereStoredAreHeldToTheRules: what a checked search has sent passes, and
// what no checked search could have sent is named.
func TestParametersThatWereStoredAreHeldToTheRules(t *testing.T) {
	if err := CheckParams(OpSearch, Params(full().Fields())); err != nil {
		t.Errorf("a full search: %v", err)
	}
	for encoded, want := range map[string]string{
		"luck=1":                        "luck",
		"sortBy=luck":                   "sortBy",
		"zScoreFrom=much":               "zScoreFrom",
		"zScoreFrom=3&zScoreTo=2":       "zScoreFrom",
		"viewCountTo=0":                 "viewCountTo",
		"language=en&language=xx":       "language",
		"type=video&type=short":         "type",
		"publishedAtFrom=yesterday":     "publishedAtFrom",
		"classificationIsFaceless=some": "classificationIsFaceless",
	} {
		params, err := url.ParseQuery(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckParams(OpSearch, params); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that names %s", encoded, err, want)
		}
	}
}
