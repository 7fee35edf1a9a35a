package outlier

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDoSettlesThePrice(t *testing.T) {
	const jsonType, htmlType = "Content-Type: application/json", "Content-Type: text/html; charset=utf-8"
	for name, tt := range map[string]struct {
		wire    wire
		outcome Outcome
		kind    Kind
	}{
		"whole answer":               {answering(200, `{"hits":[]}`, jsonType), Charged, ""},
		"answer of no declared type": {answering(200, " {} \r\n"), Charged, ""},
		"byte order mark":            {answering(200, "\xef\xbb\xbf{}"), Charged, ""},
		"documented refusal":         {answering(400, `{"status":"error","error":{"message":"no"}}`), Refunded, Invalid},
		"documented failure":         {answering(503, `{"status":"error","error":{"message":"no"}}`), Refunded, Failed},
		"gateway's failure as JSON":  {answering(503, `{"error":{"message":"no"}}`), Unknown, Foreign},
		"rate limit":                 {answering(429, `{"error":{"message":"no","rateLimit":{}}}`), Refunded, Limited},
		"no such thing":              {answering(404, `{"status":"error","error":{"message":"none"}}`), Refunded, NotFound},
		"key refused":                {answering(401, `{"status":"error","error":{"message":"Unauthorized"}}`), Refunded, Unauthorized},
		"gateway's page":             {answering(504, `<html>timeout</html>`, htmlType), Unknown, Foreign},
		"gateway's 429":              {answering(429, `<html>slow down</html>`, htmlType), Refunded, Limited},
		"429 of an unknown shape":    {answering(429, `{"error":"slow down"}`), Refunded, Limited},
		"429 without a body":         {answering(429, ``), Refunded, Limited},
		"429 of an unknown encoding": {answering(429, `?`, "Content-Encoding: br"), Refunded, Limited},
		"429 that breaks off": {func(_ *http.Request, connect func() error) (*http.Response, error) {
			return response(429, io.MultiReader(strings.NewReader(`{"status":`), broken{})), connect()
		}, Refunded, Limited},
		"refusal without its status":    {answering(400, `{"error":{"message":"no"}}`), Unknown, Invalid},
		"validation without its status": {answering(400, `{"error":{"errors":[{"message":"no","path":["size"]}]}}`), Unknown, Invalid},
		"no such thing, and no status":  {answering(404, `{"error":{"message":"none"}}`), Unknown, Foreign},
		"key refused without a status":  {answering(401, `{"error":{"message":"Unauthorized"}}`), Unknown, Foreign},
		"gateway that wants a login":    {answering(401, `<html>401 Authorization Required</html>`, htmlType), Unknown, Foreign},
		"no credits without a status":   {answering(402, `{"error":{"message":"none left"}}`), Unknown, NoCredits},
		"empty failure":                 {answering(500, ``), Unknown, Foreign},
		"refusal cut short":             {answering(400, `{"status":"error","error":{"mess`), Unknown, Foreign},
		"success that says failure":     {answering(200, `{"status":"error","error":{"message":"no"}}`), Refunded, Failed},
		"success that hints at failure": {answering(200, `{"error":{"message":"no"}}`), Unknown, Foreign},
		"success beside failure":        {answering(200, `{"hits":[],"id":"x","status":"error","error":{"message":"no"}}`), Unknown, Failed},
		"success with a null error":     {answering(200, `{"hits":[],"error":null}`), Charged, ""},
		"JSON cut short":                {answering(200, `{"hits":[{"id":"dQw4`, jsonType), Unknown, Lost},
		"JSON cut between values":       {answering(200, `{"hits":[`, jsonType), Unknown, Lost},
		"JSON cut before its end":       {answering(200, `{"hits":[]`, jsonType), Unknown, Lost},
		"nothing":                       {answering(200, ``, jsonType), Unknown, Lost},
		"no content":                    {answering(204, ``), Unknown, Lost},
		"garbage of declared type":      {answering(200, `oops`, jsonType), Charged, Malformed},
		"two values":                    {answering(200, `{} {}`, jsonType), Charged, Malformed},
		"second value cut":              {answering(200, `{} {`, jsonType), Charged, Malformed},
		"array":                         {answering(200, `[1]`, jsonType), Charged, Malformed},
		"number":                        {answering(200, `1`, jsonType), Charged, Malformed},
		"syntax":                        {answering(200, `{"a":nope}`), Charged, Malformed},
		"not UTF-8":                     {answering(200, "{\"a\":\"\xff\"}", jsonType), Charged, ""},
		"very deep":                     {answering(200, `{"a":`+strings.Repeat("[", 20000)+strings.Repeat("]", 20000)+`}`), Charged, Malformed},
		"login page":                    {answering(200, "\n<!doctype html><title>Hotel</title>", htmlType), Unknown, Foreign},
		"login page that claims JSON":   {answering(200, "<html></html>", jsonType), Unknown, Foreign},
		"plain text":                    {answering(200, "ok", "Content-Type: text/plain"), Unknown, Foreign},
		"redirect":                      {answering(302, ``, "Location: https://evil.test/x?key=y"), Unknown, Foreign},
		"redirect with an error shape":  {answering(308, `{"status":"error","error":{"message":"no"}}`), Unknown, Foreign},
		"not gzip":                      {answering(200, `oops, no gzip at all`, jsonType, "Content-Encoding: gzip"), Charged, Malformed},
		"encoding never asked for":      {answering(200, "\x8b\x00\x80{}\x03", jsonType, "Content-Encoding: br"), Charged, Malformed},
		"unpacked by a proxy":           {answering(200, `{"hits":[],"pagination":{}}`, jsonType, "Content-Encoding: gzip"), Charged, ""},
		"unpacked from br by a proxy":   {answering(200, `{}`, jsonType, "Content-Encoding: br"), Charged, ""},
		"packed by a proxy":             {answering(200, zipped(`{"hits":[]}`), jsonType), Charged, ""},
		"followed by a proxy's comment": {answering(200, `{"hits":["<>"]}`+"\n<!-- seen by \"the proxy\" } -->\n", jsonType), Charged, ""},
		"not a number":                  {answering(200, `{"a":NaN,"b":[-Infinity,Infinity],"c":"\"NaN"}`, jsonType), Charged, ""},
		"encoding of no effect":         {answering(200, `{}`, jsonType, "Content-Encoding: identity"), Charged, ""},
		"connection refused": {func(*http.Request, func() error) (*http.Response, error) {
			return nil, errors.New("connection refused")
		},
			Refunded, Unsent},
		"reset after sending": {func(_ *http.Request, connect func() error) (*http.Response, error) {
			return nil, cmpOr(connect(), errors.New("connection reset"))
		}, Unknown, Lost},
		"reset after the body": {func(_ *http.Request, connect func() error) (*http.Response, error) {
			return response(200, io.MultiReader(strings.NewReader(`{"hits":[]}`), broken{})), connect()
		}, Charged, ""},
		"reset in the body": {func(_ *http.Request, connect func() error) (*http.Response, error) {
			return response(200, io.MultiReader(strings.NewReader(`{"hits":`), broken{})), connect()
		}, Unknown, Lost},
		"transport sends twice": {func(_ *http.Request, connect func() error) (*http.Response, error) {
			return nil, cmpOr(connect(), connect(), errors.New("sent twice"))
		}, Unknown, Lost},
		"transport reports nothing": {func(*http.Request, func() error) (*http.Response, error) {
			return response(200, strings.NewReader(`{}`)), nil
		}, Unknown, Lost},
	} {
		for _, r := range []*Request{search(t), scan(t)} {
			t.Run(name+"/"+string(r.op), func(t *testing.T) { checkOutcome(t, r, tt.wire, tt.outcome, tt.kind) })
		}
	}
}

func checkOutcome(t *testing.T, r *Request, w wire, want Outcome, kind Kind) {
	t.Helper()
	b := &books{}
	a, err := (&Client{URL: "https://api.test", Transport: w}).Do(t.Context(), r, b)
	if b.outcome != want || kindOf(err) != kind {
		t.Errorf("%s, %q (%v); want %s, %q", b.outcome, kindOf(err), err, want, kind)
	}
	if a != b.settled || a.Err != err {
		t.Errorf("returned %v with %v, settled %v", a, err, b.settled)
	}
	if body, err := a.JSON(); a.Err == nil && (err != nil || !strings.HasPrefix(strings.TrimSpace(string(body)), "{")) {
		t.Errorf("a usable answer opens as %q, %v", body, err)
	}
	if a.Err != nil && strings.Contains(a.Err.Error(), "?key") {
		t.Errorf("error quotes a query: %v", a.Err)
	}
}

// The form of trending formats is undocumented.
func TestTrendingFormatsMayBeAnyJSON(t *testing.T) {
	for body, outcome := range map[string]Outcome{
		`[{"format":"x"}]`: Charged, `{}`: Charged, `null`: Charged, `"none"`: Charged, ` [1] `: Charged,
		`[1`: Unknown, ``: Unknown, `<html>`: Unknown, `{"error":{"message":"no"}}`: Unknown,
	} {
		b := &books{}
		_, err := (&Client{URL: "https://api.test", Transport: answering(200, body)}).Do(t.Context(), ask(t, OpTrendingFormats, nil), b)
		if b.outcome != outcome || (err == nil) != (outcome == Charged) {
			t.Errorf("%s: settled %s, error %v; want %s", body, b.outcome, err, outcome)
		}
	}
	checkOutcome(t, ask(t, OpTrendingFormats, nil), answering(200, `[1] [2]`), Charged, Malformed)
}

// Do posts a scan in a form that net/http cannot send again by itself.
func TestDoPostsUnrepeatableScan(t *testing.T) {
	b := &books{}
	c := Client{URL: "https://api.test/v1/", Key: secret(t), Arrays: ArraysBracket, Transport: wire(func(req *http.Request, connect func() error) (*http.Response, error) {
		if err := connect(); err != nil {
			return nil, err
		}
		body, err := io.ReadAll(req.Body)
		b.note("%s %s %s [%s] %d", req.Method, req.URL, body, req.Header.Get("Content-Type"), req.ContentLength)
		if req.GetBody != nil || req.Header.Get("Idempotency-Key") != "" {
			t.Error("net/http could take the request for one that may be repeated")
		}
		return response(201, strings.NewReader(`{"id":"x"}`)), err
	})}
	if _, err := c.Do(t.Context(), scan(t), b); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"reserve 100", "sending",
		`POST https://api.test/v1/scan {"findBy":"query","mode":"standard","query":["a b","ü\u0026"]} [application/json] 63`,
		"settle charged",
	}
	if diff := cmp.Diff(want, b.lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func cmpOr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// broken is a connection that is reset.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset by peer") }

// The date of an answer counts only if the service wrote the answer.
func TestOnlyServiceAnswersSetTime(t *testing.T) {
	const told = "Sat, 21 Nov 2026 10:00:00 GMT"
	dated := func(status int, body string, header ...string) wire {
		return answering(status, body, append(header, "Date: "+told)...)
	}
	for name, tt := range map[string]struct {
		wire wire
		op   Operation
		own  bool
	}{
		"a page":                           {dated(200, `{"hits":[],"pagination":{}}`), OpSearch, true},
		"a page for another question":      {dated(200, `{"items":[]}`), OpSearch, false},
		"somebody's JSON":                  {dated(200, `{"ok":true}`), OpSearch, false},
		"a page that also says failure":    {dated(200, `{"hits":[],"error":{"message":"no"}}`), OpSearch, false},
		"a failure that says success":      {dated(200, `{"status":"error","error":{"message":"no"}}`), OpSearch, true},
		"a page cut short":                 {dated(200, `{"hits":[]`), OpSearch, false},
		"a page out of a cache on the way": {dated(200, `{"hits":[]}`, "Age: 86400"), OpSearch, false},
		"a page that a cache passed on":    {dated(200, `{"hits":[]}`, "Age: 0"), OpSearch, true},
		"details":                          {dated(200, `{"ids":[],"items":[]}`), OpDetails, true},
		"no details":                       {dated(404, `{"status":"error","error":{"message":"none"}}`), OpDetails, true},
		"formats, of whatever form":        {dated(200, `[]`), OpTrendingFormats, false},
		"a refusal":                        {dated(429, `{"error":{"message":"slow down"}}`), OpSearch, true},
		"a failure":                        {dated(500, `{"status":"error","error":{"message":"no"}}`), OpSearch, true},
		"a gateway's failure":              {dated(502, `{"error":{"message":"no"}}`), OpSearch, false},
		"a gateway's page":                 {dated(502, `<html></html>`), OpSearch, false},
		"a login page":                     {dated(200, `<html></html>`), OpSearch, false},
		"a redirect":                       {dated(302, ``, "Location: https://a.test/"), OpSearch, false},
	} {
		a, _ := (&Client{URL: "https://api.test", Transport: tt.wire}).Do(t.Context(), anAsk(t, tt.op), &books{})
		if got := a.ServiceTime(); got.IsZero() == tt.own {
			t.Errorf("%s: the service's time is %v", name, got)
		}
		if a.Date().IsZero() {
			t.Errorf("%s: came without a date", name)
		}
	}
}
