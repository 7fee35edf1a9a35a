package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/simulator/library"
)

// contract validates requests and answers against openapi.yaml.
type contract struct {
	*openapi3.T
	router routers.Router
}

var readContract = sync.OnceValues(func() (*contract, error) {
	doc, err := openapi3.NewLoader().LoadFromFile("../openapi.yaml")
	if err != nil {
		return nil, err
	}
	doc.Servers = nil // requests are matched by their paths alone
	router, err := legacy.NewRouter(doc)
	return &contract{doc, router}, err
})

func openContract(t *testing.T) *contract {
	t.Helper()
	c, err := readContract()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// operations returns all operations by id.
func (c *contract) operations() map[string]*openapi3.Operation {
	all := map[string]*openapi3.Operation{}
	for _, path := range c.Paths.Map() {
		for _, op := range path.Operations() {
			all[op.OperationID] = op
		}
	}
	return all
}

// exchange is a request with its answer.
type exchange struct {
	request *http.Request
	answer  *http.Response
	body    []byte
}

func get(t *testing.T, s *Service, target string) exchange {
	t.Helper()
	answer, body := askRaw(t, s.Transport(), target)
	return exchange{answer.Request, answer, body}
}

// request matches a request with its operation.
func (c *contract) request(r *http.Request) (*openapi3filter.RequestValidationInput, error) {
	route, path, err := c.router.FindRoute(r)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
	}
	return &openapi3filter.RequestValidationInput{Request: r, PathParams: path, Route: route, Options: &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true,
	}}, nil
}

// validate returns an error if an answer violates the contract, or if its status is not listed explicitly.
func (c *contract) validate(x exchange) error {
	in, err := c.request(x.request)
	if err != nil {
		return err
	}
	return openapi3filter.ValidateResponse(x.request.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: x.answer.StatusCode, Header: x.answer.Header,
		Body:    io.NopCloser(bytes.NewReader(x.body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
}

func checkAnswer(t *testing.T, x exchange, status int) {
	t.Helper()
	if err := openContract(t).validate(x); err != nil || x.answer.StatusCode != status {
		t.Fatalf("%s %s: status %d, want %d; validation: %v", x.request.Method, x.request.URL, x.answer.StatusCode, status, err)
	}
}

// lenient are values that the service refuses, and that the decoder of the validator accepts because it parses
// numbers and booleans as Go does.
var lenient = []string{
	"averageViewsRatioFrom=0x1p4", "channelMonetizationAdsense=1", "channelMonetizationSponsored=True",
	"classificationIsFaceless=0",
}

// simpleValues are given to every parameter. Each is right for some and wrong for others.
var simpleValues = []string{"x", "-1", "0", "0.5", "1", "40", "41", "121", tooLarge, "true", "video", "asc", "2026-01-01T00:00:00Z", "2026-01-01"}

func TestContractAllowsWhatTheServiceAccepts(t *testing.T) {
	c := openContract(t)
	validate := func(tt endpointCase, value string) error {
		in, err := c.request(request(t, "http://service.test"+tt.target(value)))
		if err != nil {
			t.Fatal(err)
		}
		return openapi3filter.ValidateRequest(t.Context(), in)
	}
	for _, tt := range allRuleCases() {
		for _, v := range tt.good {
			if err := validate(tt, v); err != nil {
				t.Errorf("%s %s=%q: the service accepts it, the contract does not: %v", tt.path, tt.name, v, err)
			}
		}
		for _, v := range tt.bad {
			if err := validate(tt, v); (err == nil) != slices.Contains(lenient, tt.name+"="+v) {
				t.Errorf("%s %s=%q: the service refuses it; validation: %v", tt.path, tt.name, v, err)
			}
		}
	}
	rt := unlimited(Options{Seed: 1}).Transport()
	for _, op := range outlier.Operations() {
		for _, p := range c.operations()[string(op)].Parameters {
			if p.Value.In != openapi3.ParameterInQuery {
				continue
			}
			for _, v := range simpleValues {
				if p.Value.Schema.Value.Type.Is(openapi3.TypeBoolean) && (v == "0" || v == "1") {
					continue // as in lenient
				}
				tt := endpointCase{op.Path(), ruleCase{name: p.Value.Name}}
				resp, body := askRaw(t, rt, tt.target(v))
				if err := validate(tt, v); err != nil && resp.StatusCode == http.StatusOK {
					t.Errorf("%s %s=%q: answer %d %.200s; validation: %v", op, tt.name, v, resp.StatusCode, body, err)
				}
			}
		}
	}
}

func TestSearchAnswersObeyTheContract(t *testing.T) {
	quirks := []Quirk{0, TotalNull, TotalGrows | SizeIgnored, TotalShrinks | PagesRepeated, TotalStands | PagesEndless}
	services := rapid.Custom(func(rt *rapid.T) *Service {
		return unlimited(Options{
			Seed: 1, PagingItems: rapid.Bool().Draw(rt, "items"), Quirks: rapid.SampledFrom(quirks).Draw(rt, "quirks"),
		})
	})
	cases := map[string][]ruleCase{}
	for _, tt := range allRuleCases() {
		cases[tt.path] = append(cases[tt.path], tt.ruleCase)
	}
	ask := func(rt *rapid.T) int {
		path := rapid.SampledFrom(slices.Sorted(maps.Keys(cases))).Draw(rt, "path")
		params := url.Values{"relatedChannelId": {"UCaaaaaaaaaaaaaaaaaaaaaa"}}
		for range rapid.IntRange(0, 3).Draw(rt, "parameters") {
			tt := rapid.SampledFrom(cases[path]).Draw(rt, "parameter")
			from := tt.good
			if len(tt.bad) > 0 && rapid.IntRange(0, 9).Draw(rt, "bad") == 0 {
				from = tt.bad
			}
			params.Set(tt.name, rapid.SampledFrom(from).Draw(rt, tt.name))
		}
		x := get(t, services.Draw(rt, "service"), path+"?"+params.Encode())
		if err := openContract(t).validate(x); err != nil {
			t.Fatalf("%v: %v", params, err)
		}
		return x.answer.StatusCode
	}
	rapid.Check(t, func(rt *rapid.T) { ask(rt) })

	// With fixed seeds, so that both statuses always occur.
	statuses, one := map[int]int{}, rapid.Custom(ask)
	for seed := range 50 {
		statuses[one.Example(seed)]++
	}
	if statuses[http.StatusOK] == 0 || statuses[http.StatusBadRequest] == 0 || len(statuses) != 2 {
		t.Errorf("answers by status: %v, want 200 and 400", statuses)
	}
}

// sweep calls every operation for n uploads, spread over the library, and their channels.
func sweep(t *testing.T, s *Service, n int) map[outlier.Operation][]exchange {
	t.Helper()
	all := map[outlier.Operation][]exchange{}
	hits := library.Open(s.options.Seed).Index(s.options.now()).Hits()
	for i := range n {
		for op, target := range targets(hits[i*len(hits)/n]) {
			all[op] = append(all[op], get(t, s, target))
		}
	}
	return all
}

func TestDataAnswersObeyTheContract(t *testing.T) {
	testenv.RacesLittle(t)
	for op, exchanges := range sweep(t, unlimited(Options{Seed: 1}), 20) {
		statuses := map[int]int{}
		for _, x := range exchanges {
			if err := openContract(t).validate(x); err != nil {
				t.Errorf("GET %s: %v", x.request.URL, err)
			}
			statuses[x.answer.StatusCode]++
		}
		if found := statuses[http.StatusOK]; found == 0 || found+statuses[http.StatusNotFound] != len(exchanges) {
			t.Errorf("%s: answers by status: %v, want 200 and sometimes 404", op, statuses)
		}
	}
}

// TestHitsWithGapsObeyTheContract reads pages until every gap has occurred. The rarest is in one of 200 hits.
func TestHitsWithGapsObeyTheContract(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	for path, gaps := range map[string][]string{
		"/search/outliers": {
			"classification", "classification.isFaceless", "classification.quality", "snippet.thumbnails",
			"statistics.zScore", "statistics.commentCount", "statistics.likeCount",
		},
		"/search/channels": {
			"classification", "classification.isFaceless", "classification.quality", "snippet.handle",
			"statistics.subscribers", "statistics.averageViews", "statistics.avgViewsToSubscribersRatio",
			"language.code", "monetization.adsense",
		},
	} {
		unseen := map[string]bool{}
		for _, name := range gaps {
			unseen[".hits[]."+name] = true
		}
		for page := 0; len(unseen) > 0 && page < 100; page++ {
			x := get(t, s, fmt.Sprint(path, "?size=40&filterBy=short&from=", page))
			checkAnswer(t, x, http.StatusOK)
			namesIn(decode(t, x.body), "", func(name string, value any) {
				if value == nil {
					delete(unseen, name)
				}
			})
		}
		if len(unseen) > 0 {
			t.Errorf("%s: these fields are never null: %v", path, slices.Sorted(maps.Keys(unseen)))
		}
	}
}

func TestErrorsObeyTheContract(t *testing.T) {
	faults := map[int]Fault{
		http.StatusUnauthorized: Unauthorized, http.StatusPaymentRequired: NoCredits,
		http.StatusTooManyRequests: RateLimited, http.StatusInternalServerError: ServerError,
	}
	for op, target := range paths(t, unlimited(Options{Seed: 1})) {
		for status, f := range faults {
			s := unlimited(Options{Seed: 1})
			s.FailNext(op, f)
			checkAnswer(t, get(t, s, target), status)
		}
		otherKey := New(Options{Seed: 1, Freeze: true, Key: "another"})
		checkAnswer(t, get(t, otherKey, target), http.StatusUnauthorized)
		busy := New(Options{Seed: 1, Freeze: true, Limit: 1})
		checkAnswer(t, get(t, busy, target), http.StatusOK)
		checkAnswer(t, get(t, busy, target), http.StatusTooManyRequests)
		path, _, _ := strings.Cut(target, "?")
		checkAnswer(t, get(t, unlimited(Options{}), path+"?size=%zz"), http.StatusBadRequest)
	}
	poor := unlimited(Options{Seed: 1, Credits: 1})
	checkAnswer(t, get(t, poor, "/search/outliers"), http.StatusPaymentRequired)
	for _, target := range []string{
		"/search/outliers?size=0&by=x", "/video/x", "/video/comments/x", "/video/transcript/x",
		"/channel/videos/x", "/channel/shorts/x",
	} {
		checkAnswer(t, get(t, poor, target), http.StatusBadRequest)
	}
	for _, target := range []string{
		"/video/dQw4w9WgXcQ", "/video/comments/dQw4w9WgXcQ", "/video/transcript/dQw4w9WgXcQ",
		"/channel/videos/UCaaaaaaaaaaaaaaaaaaaaaa", "/channel/shorts/UCaaaaaaaaaaaaaaaaaaaaaa",
	} {
		checkAnswer(t, get(t, poor, target), http.StatusNotFound)
	}
}

// TestContractRefusesInvalidAnswers: otherwise the tests above could not fail.
func TestContractRefusesInvalidAnswers(t *testing.T) {
	for _, f := range []Fault{GatewayPage, GatewayJSON, HTMLPage, Garbage} {
		s := unlimited(Options{Seed: 1})
		s.FailNext("", f)
		if err := openContract(t).validate(get(t, s, "/search/outliers")); err == nil {
			t.Errorf("the contract accepts the answer of fault %s", f)
		}
	}
	s := unlimited(Options{Seed: 1})
	good := get(t, s, "/search/outliers?size=1&type=video")
	checkAnswer(t, good, http.StatusOK)
	for from, to := range map[string]string{
		`"id":"`:               `"id":"x`,
		`"pagination"`:         `"page"`,
		`"total":`:             `"total":-0.5,"t":`,
		`"kind":`:              `"sort":`,
		`"duration":`:          `"duration":"1","d":`,
		`"isPositiveOutlier":`: `"isPositiveOutlier":null,"p":`,
		`"publishedAt":"`:      `"publishedAt":"on `,
		`"averageViewsRatio":`: `"avr":`,
	} {
		bad := good
		if bad.body = bytes.Replace(good.body, []byte(from), []byte(to), 1); bytes.Equal(bad.body, good.body) {
			t.Fatalf("no %s in %s", from, good.body)
		}
		var refusal *openapi3filter.ResponseError
		if err := openContract(t).validate(bad); !errors.As(err, &refusal) {
			t.Errorf("with %s instead of %s: error %v, want one about the answer", to, from, err)
		}
	}
}

func TestServiceSendsExactContractFields(t *testing.T) {
	testenv.RacesLittle(t)
	all := sweep(t, unlimited(Options{Seed: 1}), 20)
	for s := unlimited(Options{Seed: 1}); len(all[outlier.OpStartScan]) < 40; { // enough for both forms of the threshold
		all[outlier.OpStartScan] = append(all[outlier.OpStartScan], orderScan(t, s, `{"query":["moka pot"]}`))
	}
	for op, exchanges := range all {
		if op == outlier.OpTrendingFormats {
			continue // any JSON is allowed
		}
		documented, sent := map[string]bool{}, map[string]bool{}
		namesOf(openContract(t).answer(op), "", documented)
		for _, x := range exchanges {
			if x.answer.StatusCode == http.StatusOK {
				namesIn(decode(t, x.body), "", func(name string, _ any) { sent[name] = true })
			}
		}
		maps.DeleteFunc(sent, func(name string, _ bool) bool {
			return strings.Contains(name, ".isLiveBroadcast.") // the contract does not list its fields
		})
		if diff := cmp.Diff(slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(sent))); diff != "" {
			t.Errorf("%s: fields (-openapi.yaml +service):\n%s", op, diff)
		}
	}
}

// answer returns the schema of an answer with status 200.
func (c *contract) answer(op outlier.Operation) *openapi3.Schema {
	return c.operations()[string(op)].Responses.Status(http.StatusOK).Value.Content["application/json"].Schema.Value
}

func decode(t *testing.T, body []byte) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// namesOf collects the fields that a schema lists: ".hits[].snippet.title".
func namesOf(s *openapi3.Schema, at string, into map[string]bool) {
	for name, p := range s.Properties {
		into[at+"."+name] = true
		namesOf(p.Value, at+"."+name, into)
	}
	if s.Items != nil {
		namesOf(s.Items.Value, at+"[]", into)
	}
	for _, form := range s.OneOf {
		namesOf(form.Value, at, into)
	}
	for _, part := range s.AllOf {
		namesOf(part.Value, at, into)
	}
}

// namesIn calls visit with each field of an answer, named as in namesOf.
func namesIn(value any, at string, visit func(name string, value any)) {
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			visit(at+"."+name, field)
			namesIn(field, at+"."+name, visit)
		}
	case []any:
		for _, element := range v {
			namesIn(element, at+"[]", visit)
		}
	}
}
