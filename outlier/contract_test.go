package outlier_test

import (
	"context"
	"errors"
	"fmt"
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

	"outlierd/outlier"
)

// contract is openapi.yaml, ready to validate requests.
type contract struct {
	*openapi3.T
	router routers.Router
}

var readContract = sync.OnceValues(func() (*contract, error) {
	doc, err := openapi3.NewLoader().LoadFromFile("openapi.yaml")
	if err != nil {
		return nil, err
	}
	doc.Servers = nil                    // requests are told apart by their paths alone
	router, err := legacy.NewRouter(doc) // checks the document, too
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

// judge returns the operation of a request, and what is wrong with it.
func (c *contract) judge(r *http.Request) (operation string, err error) {
	route, path, err := c.router.FindRoute(r)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
	}
	return route.Operation.OperationID, errors.Join(
		closed(r, route.Operation),
		openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
			Request: r, PathParams: path, Route: route,
			Options: &openapi3filter.Options{
				AuthenticationFunc: authentic, SkipSettingDefaults: true, RejectWhenRequestBodyNotSpecified: true, MultiError: true,
			},
		}))
}

// closed checks what OpenAPI cannot express: no unlisted query parameters, and only arrays twice.
func closed(r *http.Request, op *openapi3.Operation) error {
	var wrong []error
	for name, values := range r.URL.Query() {
		p := op.Parameters.GetByInAndName(openapi3.ParameterInQuery, name)
		switch {
		case p == nil:
			wrong = append(wrong, fmt.Errorf("%s is not a parameter of %s", name, op.OperationID))
		case len(values) > 1 && !p.Schema.Value.Type.Is("array"):
			wrong = append(wrong, fmt.Errorf("%s is given %d times", name, len(values)))
		}
	}
	return errors.Join(wrong...)
}

func authentic(_ context.Context, in *openapi3filter.AuthenticationInput) error {
	if got := in.RequestValidationInput.Request.Header.Values(in.SecurityScheme.Name); !slices.Equal(got, []string{"Api-Key k"}) {
		return fmt.Errorf("header %s is %q", in.SecurityScheme.Name, got)
	}
	return nil
}

// operation finds an operation of the document by its id.
func operation(t *testing.T, id string) *openapi3.Operation {
	t.Helper()
	for _, path := range openContract(t).Paths.Map() {
		for _, op := range path.Operations() {
			if op.OperationID == id {
				return op
			}
		}
	}
	t.Fatalf("openapi.yaml has no operation %s", id)
	return nil
}

func TestContractAndClientAgreeOnOperations(t *testing.T) {
	var documented []string
	for _, path := range openContract(t).Paths.Map() {
		for _, op := range path.Operations() {
			documented = append(documented, op.OperationID)
		}
	}
	var known []string
	for _, op := range outlier.Operations() {
		known = append(known, string(op))
	}
	slices.Sort(documented)
	if diff := cmp.Diff(documented, known); diff != "" {
		t.Errorf("operations (-openapi.yaml +client):\n%s", diff)
	}
}

func TestContractAndClientAgreeOnPrices(t *testing.T) {
	for _, op := range outlier.Operations() {
		var want any = float64(outlier.Prices(nil).Of(op, ""))
		if op == outlier.OpStartScan {
			want = map[string]any{"fast": scanPrice(t, "fast"), "standard": scanPrice(t, "standard")}
		}
		if diff := cmp.Diff(operation(t, string(op)).Extensions["x-credits"], want); diff != "" {
			t.Errorf("the price of %s (-openapi.yaml +client):\n%s", op, diff)
		}
	}
}

func scanPrice(t *testing.T, mode string) float64 {
	t.Helper()
	r, err := outlier.NewRequest(outlier.OpStartScan, url.Values{"query": {"a"}, "mode": {mode}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return float64(r.Price())
}

func TestContractAndTableAgreeOnParameters(t *testing.T) {
	for _, op := range outlier.Operations() {
		if diff := cmp.Diff(documentedForms(operation(t, string(op))), formsOf(op)); diff != "" {
			t.Errorf("parameters of %s (-openapi.yaml +table):\n%s", op, diff)
		}
	}
}

// documentedForms are the parameters of an operation, in the path, the query or the body.
func documentedForms(op *openapi3.Operation) map[string]string {
	forms := map[string]string{}
	for _, p := range op.Parameters {
		forms[p.Value.Name] = formOf(p.Value.Schema)
	}
	if op.RequestBody != nil {
		for name, schema := range op.RequestBody.Value.Content["application/json"].Schema.Value.Properties {
			forms[name] = formOf(schema)
		}
	}
	return forms
}

// formsOf are the parameters that the client has for an operation.
func formsOf(op outlier.Operation) map[string]string {
	forms := map[string]string{}
	if op.IsData() {
		forms["id"] = "string"
	}
	if op.IsPaged() {
		forms["from"], forms["size"] = "integer", "integer"
	}
	for _, p := range op.Params() {
		form := map[outlier.Form]string{
			outlier.Text: "string" + strings.Join(p.OneOf, "|"), outlier.Texts: "array", outlier.Flag: "boolean",
			outlier.Integers: "integer", outlier.Numbers: "number", outlier.Instants: "Instant",
		}[p.Form]
		for _, name := range p.Names() {
			forms[name] = form
		}
	}
	return forms
}

// formOf describes a schema by its first type and the allowed values.
func formOf(s *openapi3.SchemaRef) string {
	if strings.HasSuffix(s.Ref, "/Instant") {
		return "Instant"
	}
	form := s.Value.Type.Slice()[0]
	var values []string
	for _, v := range s.Value.Enum {
		values = append(values, fmt.Sprint(v))
	}
	return form + strings.Join(values, "|")
}

// The contract refuses what the interface does not allow, with the right reason.
func TestContractRefuses(t *testing.T) {
	const id = "3f2b8c1e-9d4a-4c6b-8e7f-0a1b2c3d4e5f"
	for target, want := range map[string]string{
		"GET /search/outliers":                                "",
		"GET /search/outliers?zscoreFrom=1":                   "zscoreFrom is not a parameter",
		"GET /search/outliers?query[]=a":                      "query[] is not a parameter",
		"GET /search/outliers?query=a&query=b":                "",
		"GET /search/outliers?size=1&size=2":                  "size is given 2 times",
		"GET /search/outliers?size=41":                        `"size"`,
		"GET /search/outliers?size=0":                         `"size"`,
		"GET /search/outliers?language=en&language=eng":       `"language"`,
		"GET /search/outliers/related?query=a":                "query is not a parameter",
		"GET /search/outliers/related?videoId=a":              `"videoId"`,
		"GET /search/channels/related":                        `"relatedChannelId"`,
		"GET /search/channels/related?sortBy=rpm":             "sortBy is not a parameter",
		"GET /video/dQw4w9WgXcQ":                              "",
		"GET /video/dQw4w9WgXc":                               `"id"`,
		"GET /video/comments/dQw4w9WgXcQ?size=9":              "size is not a parameter",
		"GET /channel/videos/dQw4w9WgXcQ":                     `"id"`,
		"GET /scan/" + id:                                     "",
		"GET /scan/" + strings.Replace(id, "4c6b", "1c6b", 1): `"id"`,
		"GET /scans":                 "no matching operation",
		"POST /video/dQw4w9WgXcQ":    "no matching operation",
		`POST /scan {"query":["a"]}`: "",
		`POST /scan {"query":["a"],"findBy":"query","mode":""}`: "mode",
		`POST /scan {"query":["a"],"mode":"standard"}`:          "",
		`POST /scan {"query":"a"}`:                              "query",
		`POST /scan {"mode":"fast"}`:                            "query",
		`POST /scan {"query":["a"],"find_by":"channels"}`:       "find_by",
		`GET /search/outliers {}`:                               "body not allowed",
	} {
		method, rest, _ := strings.Cut(target, " ")
		path, body, _ := strings.Cut(rest, " ")
		r := request(t, method, path, body)
		r.Header.Set("Authorization", "Api-Key k")
		checkRefusal(t, target, r, want)
	}
	for _, key := range []string{"", "k", "Bearer k"} {
		r := request(t, "GET", "/search/outliers", "")
		r.Header.Set("Authorization", key)
		checkRefusal(t, "with the key "+key, r, "Authorization")
	}
}

func request(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func checkRefusal(t *testing.T, what string, r *http.Request, want string) {
	t.Helper()
	_, err := openContract(t).judge(r)
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: the contract's error is %v, want one with %q", what, err, want)
	}
}

// Request bodies of the contract allow no additional properties.
func TestContractBodiesAreClosed(t *testing.T) {
	bodies := 0
	for path, item := range openContract(t).Paths.Map() {
		for _, op := range item.Operations() {
			if op.RequestBody == nil {
				continue
			}
			bodies++
			if s := op.RequestBody.Value.Content["application/json"].Schema.Value; s.AdditionalProperties.Has == nil || *s.AdditionalProperties.Has {
				t.Errorf("the body of %s may have any property", path)
			}
		}
	}
	if bodies == 0 {
		t.Error("no operation has a body")
	}
}
