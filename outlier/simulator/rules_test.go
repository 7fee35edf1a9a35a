package simulator

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"outlierd/outlier"
)

// validation is the body of an answer with status 400.
type validation struct {
	Error  validationError `json:"error"`
	Status string          `json:"status"`
}

const tooLarge = "9007199254740992"

// ruleCase has invalid and valid values of a query parameter.
type ruleCase struct {
	name      string
	bad, good []string
}

var searchCases = []ruleCase{
	{"query", nil, []string{"moka pot"}},
	{"sortBy", []string{"", "view", "Views"}, []string{"views", "zScore", "averageViewsRatio", "publishedAt", "revenue", "rpm"}},
	{"sortOrder", []string{"", "up"}, []string{"asc", "desc"}},
	{"seed", nil, []string{"17", "null", "any text"}},
}

var relatedCases = []ruleCase{
	{"title", nil, []string{"I tried moka pot for 30 days"}},
	{"videoId", []string{"", "short", "dQw4w9WgXcQQ", "dQw4w9WgXc."}, []string{"dQw4w9WgXcQ", "-_-_-_-_-_-"}},
	{"thumbnailVideoId", []string{"", "dQw4w9WgXc"}, []string{"dQw4w9WgXcQ"}},
	{"relatedChannelId", []string{"", "@handle", "UC"}, []string{"UCaaaaaaaaaaaaaaaaaaaaaa"}},
}

// commonCases are the cases of the common filters that need values of their own. What every parameter says of
// simple values is compared with the contract.
var commonCases = []ruleCase{
	{"type", []string{"", "shorts"}, []string{"video", "short"}},
	{"averageViewsRatioFrom", []string{"", "x", "NaN", "1e999", "0x1p4"}, []string{"-1", "0", "2.5"}},
	{"viewCountFrom", []string{"-1", "1.5", tooLarge, "99999999999999999999"}, []string{"0", "9007199254740991"}},
	{"viewCountTo", []string{"0", tooLarge}, []string{"1"}},
	{"language", []string{"", "eng", "EN", "en,de"}, []string{"en"}},
	{"publishedAtFrom", []string{"2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00:00+01:00", "2025-02-29T00:00:00Z", "2100-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01T24:00Z"},
		[]string{"2024-02-29T00:00:00Z", "2000-02-29T23:59:59Z", "2026-01-01T00:00:00Z"}},
	{"channelAvgViewsFrom", []string{"-0.1"}, []string{"0", "0.1"}},
	{"channelAvgViewsTo", []string{"0", "-1"}, []string{"0.1"}},
	{"channelVideoCountFrom", []string{"-1", tooLarge}, []string{"0", "121"}},
	{"channelVideoCountTo", []string{"0", "121"}, []string{"1", "120"}},
	{"channelId", nil, []string{"UCaaaaaaaaaaaaaaaaaaaaaa"}},
	{"titlePattern", []string{"", "*", "*a", "ab", "*1234", "日本*", "*ⅣⅥ", strings.Repeat("a", 200) + "*"}, []string{"*ab", "É*à", "ƒ*ṩ", strings.Repeat("a", 199) + "*"}},
	{"referenceId", []string{""}, []string{"x"}},
	{"channelMonetizationAdsense", []string{"", "yes", "1"}, []string{"true", "false"}},
	{"channelMonetizationSponsored", []string{"True"}, []string{"true", "false"}},
	{"classificationQuality", []string{"good"}, []string{"negative", "neutral", "positive"}},
	{"classificationIsFaceless", []string{"0"}, []string{"true", "false"}},
	{"excludeKeyword", nil, []string{"giveaway"}},
	{"from", []string{"-1", "x", tooLarge}, []string{"0", "9007199254740991"}},
	{"size", []string{"0", "41", "-1", "20.0"}, []string{"1", "40"}},
	{"by", []string{"fuzzy"}, []string{"semantic", "lexical"}},
}

var findCases = []ruleCase{
	{"query", nil, []string{"espresso"}},
	{"seed", nil, []string{"17"}},
	{"sortBy", []string{"views", "Rpm"}, []string{
		"subscribers", "averageViews", "avgViewsToSubscribersRatio", "viewVariationCoefficient", "revenueMonthly", "rpm",
		"foundAt", "recency",
	}},
	{"sortOrder", []string{"up"}, []string{"asc", "desc"}},
}

// channelCases are the cases of the filters of both searches for channels.
var channelCases = []ruleCase{
	{"filterBy", []string{"", "videos"}, []string{"video", "short"}},
	{"contentKind", []string{"long"}, []string{"video", "short", "long-form", "short-form"}},
	{"publishedAtFrom", []string{"2026-01-01"}, []string{"2026-01-01T00:00:00Z"}},
	{"language", []string{"EN"}, []string{"en"}},
	{"monetizationAdsense", []string{"yes"}, []string{"true", "false"}},
	{"excludeNiche", nil, []string{"gaming"}},
	{"classificationQuality", []string{"good"}, []string{"negative", "neutral", "positive"}},
	{"classificationIsFaceless", []string{"no"}, []string{"true", "false"}},
	{"from", []string{"-1"}, []string{"0"}},
	{"size", []string{"0", "41"}, []string{"1", "40"}},
}

// endpointCase is a ruleCase of an endpoint.
type endpointCase struct {
	path string
	ruleCase
}

// target returns a request target with a value.
func (c endpointCase) target(value string) string {
	p := url.Values{}
	if strings.HasSuffix(c.path, "/related") {
		p.Set("relatedChannelId", "UCaaaaaaaaaaaaaaaaaaaaaa") // required by one of them
	}
	p.Set(c.name, value)
	return c.path + "?" + p.Encode()
}

func allRuleCases() (all []endpointCase) {
	for path, cases := range map[string][]ruleCase{
		"/search/outliers":         slices.Concat(searchCases, commonCases),
		"/search/outliers/related": slices.Concat(relatedCases, commonCases),
		"/search/channels":         slices.Concat(findCases, channelCases),
		"/search/channels/related": slices.Concat(relatedCases[3:], channelCases),
	} {
		for _, c := range cases {
			all = append(all, endpointCase{path, c})
		}
	}
	return all
}

// Every rule of the interface for parameters is enforced.
func TestInterfaceRulesAreEnforced(t *testing.T) {
	rt := unlimited(Options{Seed: 1}).Transport()
	for _, tt := range allRuleCases() {
		for _, v := range tt.bad {
			checkRefused(t, rt, tt.name, tt.target(v))
		}
		for _, v := range tt.good {
			if resp, body := askRaw(t, rt, tt.target(v)); resp.StatusCode != http.StatusOK {
				t.Errorf("GET %s: answer %d %s, want %d", tt.target(v), resp.StatusCode, body, http.StatusOK)
			}
		}
	}
	checkRefused(t, rt, "relatedChannelId", "/search/channels/related")
}

func checkRefused(t *testing.T, rt http.RoundTripper, path, target string) {
	t.Helper()
	got, resp := ask[validation](t, rt, target)
	if resp.StatusCode != http.StatusBadRequest || got.Status != "error" || len(got.Error.Errors) != 1 {
		t.Errorf("GET %s: answer %d %+v, want 400 with one error", target, resp.StatusCode, got)
		return
	}
	e := got.Error.Errors[0]
	if len(e.Path) != 1 || e.Path[0] != path || e.Code == "" || e.Validation == "" || e.Message == "" {
		t.Errorf("GET %s: error %+v, want one about %s", target, e, path)
	}
}

func TestPathParametersAreChecked(t *testing.T) {
	rt := unlimited(Options{Seed: 1}).Transport()
	for _, target := range []string{
		"/video/short", "/video/dQw4w9WgXc%20", "/video/dQw4w9WgXcQQ", "/video/", "/scan/",
		"/video/comments/x", "/video/transcript/dQw4w9WgXc.",
		"/channel/videos/UC", "/channel/shorts/UCaaaaaaaaaaaaaaaaaaaaa!", "/channel/videos/UCaaaaaaaaaaaaaaaaaaaaaaaaaa",
	} {
		checkRefused(t, rt, "id", target)
	}
}

func TestAllErrorsAreReportedAtOnce(t *testing.T) {
	got, _ := ask[validation](t, unlimited(Options{}).Transport(), "/search/outliers?size=0&by=x&from=1")
	var paths []string
	for _, e := range got.Error.Errors {
		paths = append(paths, e.Path...)
	}
	if strings.Join(paths, " ") != "by size" {
		t.Errorf("errors about %v, want by and size", paths)
	}
}

// A query that cannot be parsed gives an error without a path.
func TestUnparsableQueryHasNoPath(t *testing.T) {
	got, resp := ask[validation](t, unlimited(Options{}).Transport(), "/search/outliers?size=%zz")
	errs := got.Error.Errors
	if resp.StatusCode != http.StatusBadRequest || len(errs) != 1 || len(errs[0].Path) != 0 || errs[0].Message == "" {
		t.Errorf("answer %d %+v, want 400 with one error without a path", resp.StatusCode, got)
	}
}

func TestRepeatedScalarIsRefused(t *testing.T) {
	checkRefused(t, unlimited(Options{}).Transport(), "size", "/search/outliers?size=10&size=20")
}

func TestUnknownParametersAreIgnoredAndCounted(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	paths := paths(t, s)
	plain, _ := ask[searchAnswer](t, s.Transport(), paths["search"])
	odd, resp := ask[searchAnswer](t, s.Transport(), paths["search"]+"&zscoreFrom=9&query[]=x")
	ask[any](t, s.Transport(), paths["details"]+"?zscoreFrom=9")
	if resp.StatusCode != http.StatusOK || *odd.Pagination.Total != *plain.Pagination.Total {
		t.Errorf("status %d with %d hits, want 200 with %d", resp.StatusCode, *odd.Pagination.Total, *plain.Pagination.Total)
	}
	if got := s.Books().UnknownParams; got["zscoreFrom"] != 2 || got["query[]"] != 1 || len(got) != 2 {
		t.Errorf("unknown parameters %v, want zscoreFrom twice and query[] once", got)
	}
}

// Requests for unknown paths and IDs are answered with status 404.
func TestUnknownTargetsAreNotFound(t *testing.T) {
	rt := unlimited(Options{Seed: 1}).Transport()
	for _, target := range []string{
		"/", "/search", "/search/outliers/", "/search/outliers/related/", "/scan/a/b", "/video/a/b", "/video/dQw4w9WgXcQ",
		"/video/comments/dQw4w9WgXcQ", "/video/transcript/dQw4w9WgXcQ",
		"/channel/videos/UCaaaaaaaaaaaaaaaaaaaaaa", "/channel/shorts/UCaaaaaaaaaaaaaaaaaaaaaa",
	} {
		got, resp := ask[simple](t, rt, target)
		if resp.StatusCode != http.StatusNotFound || got.Error.Message == "" || got.Status != "error" {
			t.Errorf("GET %s: answer %d %+v, want 404 with a message", target, resp.StatusCode, got)
		}
	}
}

// simple is the body of an error that has only a message.
type simple struct {
	Error  simpleError `json:"error"`
	Status string      `json:"status"`
}

func TestOtherMethodsAreRefused(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	refused := 0
	for _, op := range outlier.Operations() {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
			if method == op.Method() {
				continue
			}
			refused++
			r := request(t, "http://service.test"+op.Path())
			r.Method = method
			resp, err := s.Transport().RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			var got simple
			if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || got.Error.Message == "" || got.Status != "error" {
				t.Errorf("%s %s: answer %+v, %v; want a message", method, op, got, err)
			}
			if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != op.Method() {
				t.Errorf("%s %s: status %d, Allow %q; want 405 and %q",
					method, op, resp.StatusCode, resp.Header.Get("Allow"), op.Method())
			}
		}
	}
	if got := s.Books().Total; got.Charged != 0 || got.Refused != refused {
		t.Errorf("books %+v, want %d refused and nothing charged", got, refused)
	}
}
