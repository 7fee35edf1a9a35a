package outlier

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

func TestReadErrorByBodyAndStatus(t *testing.T) {
	reset := time.Date(2026, 11, 21, 10, 0, 30, 0, time.UTC)
	date := reset.Add(-30 * time.Second)
	nothing := Rate{Limit: -1, Current: -1, Remaining: -1}
	for name, tt := range map[string]struct {
		status int
		body   string
		want   Error
		own    bool
	}{
		"validation": {400, `{"status":"error","error":{"errors":[{"code":"too_small","validation":"x","message":"must be > 0","path":["viewCountTo"]},{"path":["query",0]}]}}`,
			Error{Kind: Invalid, Fields: []FieldError{{"viewCountTo", "too_small", "must be > 0"}, {Path: "query.0"}}}, true},
		"validation with another status": {422, `{"status":"error","error":{"errors":[{"message":"no","path":"size"}]}}`,
			Error{Kind: Invalid, Fields: []FieldError{{Path: "size", Message: "no"}}}, true},
		"a gateway's validation": {422, `{"error":{"errors":[{"message":"no","path":"size"}]}}`,
			Error{Kind: Foreign, Fields: []FieldError{{Path: "size", Message: "no"}}}, false},
		"validation without elements": {400, `{"status":"error","error":{"errors":[]}}`, Error{Kind: Invalid, Message: "bad request"}, true},
		"simple":                      {400, `{"status":"error","error":{"message":"no such mode"}}`, Error{Kind: Invalid, Message: "no such mode"}, true},
		"unauthorized":                {401, `{"status":"error","error":{"message":"Unauthorized"}}`, Error{Kind: Unauthorized, Message: "Unauthorized"}, true},
		"forbidden":                   {403, `{"status":"error","error":{"message":"Subscription required"}}`, Error{Kind: Unauthorized, Message: "Subscription required"}, true},
		"no credits":                  {402, `{"status":"error","error":{"message":"Insufficient credits"}}`, Error{Kind: NoCredits, Message: "Insufficient credits"}, true},
		"not found":                   {404, `{"status":"error","error":{"message":"Not found"}}`, Error{Kind: NotFound, Message: "Not found"}, true},
		"not found, but a page":       {404, `<h1>404</h1>`, Error{Kind: Foreign, Message: "not found, not an answer of the service (text/html)"}, false},
		"not found, but other JSON":   {404, `{"message":"route unknown"}`, Error{Kind: Foreign, Message: "route unknown"}, false},
		"failed":                      {500, `{"status":"error","error":{"message":"boom"}}`, Error{Kind: Failed, Message: "boom"}, true},
		"failed, of any status field": {500, `{"status":"","error":{"message":"boom"}}`, Error{Kind: Failed, Message: "boom"}, true},
		"gateway in the same words":   {500, `{"error":{"message":"boom"}}`, Error{Kind: Foreign, Message: "boom"}, false},
		"gateway, with a status code": {503, `{"status":503,"error":{"message":"boom"}}`, Error{Kind: Foreign, Message: "boom"}, false},
		"gateway, status inside":      {504, `{"error":{"message":"late","status":"DEADLINE_EXCEEDED"}}`, Error{Kind: Foreign, Message: "late"}, false},
		"firewall in the same words":  {403, `{"error":{"message":"blocked"}}`, Error{Kind: Foreign, Message: "blocked"}, false},
		"gateway":                     {502, `<html>Bad Gateway</html>`, Error{Kind: Foreign, Message: "bad gateway, not an answer of the service (text/html)"}, false},
		"empty":                       {503, ``, Error{Kind: Foreign, Message: "service unavailable, not an answer of the service (text/html)"}, false},
		"cut":                         {400, `{"status":"error","error":{"message":"no such`, Error{Kind: Foreign, Message: "bad request, not an answer of the service (text/html)"}, false},
		"error as text":               {400, `{"error":"nope"}`, Error{Kind: Foreign, Message: "nope"}, false},
		"no error object":             {400, `{"status":"error","error":null}`, Error{Kind: Foreign, Message: "bad request, not an answer of the service (text/html)"}, false},
		"forbidden by a firewall":     {403, `<html>denied</html>`, Error{Kind: Foreign, Message: "forbidden, not an answer of the service (text/html)"}, false},
		"unauthorized page":           {401, `denied`, Error{Kind: Foreign, Message: "unauthorized, not an answer of the service (text/html)"}, false},
		"limited": {429, `{"status":"error","error":{"message":"Slow down","rateLimit":{"limit":10,"current":11,"remaining":0,"resetTime":"2026-11-21T10:00:30.000Z"}}}`,
			Error{Kind: Limited, Message: "Slow down", Rate: &Rate{10, 11, 0, reset}}, true},
		"limited by body alone": {400, `{"error":{"message":"Slow down","rateLimit":{"limit":10}}}`,
			Error{Kind: Limited, Message: "Slow down", Rate: &Rate{Limit: 10, Current: -1, Remaining: -1}}, true},
		"limited by status alone":  {429, `Too many`, Error{Kind: Limited, Message: "too many requests"}, false},
		"limited, empty rate":      {429, `{"error":{"rateLimit":{}}}`, Error{Kind: Limited, Message: "too many requests", Rate: &nothing}, true},
		"limited, null rate":       {429, `{"error":{"message":"m","rateLimit":null}}`, Error{Kind: Limited, Message: "m"}, true},
		"limited, nulls":           {429, `{"error":{"message":null,"rateLimit":{"limit":null,"resetTime":null}}}`, Error{Kind: Limited, Message: "too many requests", Rate: &nothing}, true},
		"limited, negative limit":  {429, `{"error":{"rateLimit":{"limit":-5,"current":2.5,"remaining":"0"}}}`, Error{Kind: Limited, Message: "too many requests", Rate: &Rate{Limit: -1, Current: -1}}, true},
		"reset in unix seconds":    {429, `{"error":{"message":"m","rateLimit":{"resetTime":1795255230}}}`, Error{Kind: Limited, Message: "m", Rate: &Rate{-1, -1, -1, reset}}, true},
		"reset in milliseconds":    {429, `{"error":{"message":"m","rateLimit":{"resetTime":"1795255230000"}}}`, Error{Kind: Limited, Message: "m", Rate: &Rate{-1, -1, -1, reset}}, true},
		"reset in seconds to go":   {429, `{"error":{"message":"m","rateLimit":{"resetTime":30}}}`, Error{Kind: Limited, Message: "m", Rate: &Rate{-1, -1, -1, reset}}, true},
		"reset in the year 9999":   {429, `{"error":{"message":"m","rateLimit":{"resetTime":"9999-12-31T23:59:59Z"}}}`, Error{Kind: Limited, Message: "m", Rate: &Rate{-1, -1, -1, time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}}, true},
		"reset beyond all years":   {429, `{"error":{"message":"m","rateLimit":{"resetTime":9007199254740991}}}`, Error{Kind: Limited, Message: "m", Rate: &nothing}, true},
		"reset that is no time":    {429, `{"error":{"message":"m","rateLimit":{"resetTime":"soon"}}}`, Error{Kind: Limited, Message: "m", Rate: &nothing}, true},
		"status of no known class": {999, ``, Error{Kind: Foreign, Message: "not an answer of the service (text/html)"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{"Content-Type": {"text/html; charset=utf-8"}, "Date": {date.Format(http.TimeFormat)}}
			got, _, own := readError(OpSearch, tt.status, header, []byte(tt.body))
			tt.want.Op, tt.want.Status = OpSearch, tt.status
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if own != tt.own {
				t.Errorf("written by the service: %v, want %v", own, tt.own)
			}
		})
	}
}

func TestErrorNamesRequestAndAnswer(t *testing.T) {
	for _, tt := range []struct {
		err  Error
		want string
	}{
		{Error{Kind: NotFound, Op: OpTranscript, Entity: "dQw4w9WgXcQ", Status: 404, Message: "Not found"}, "transcript dQw4w9WgXcQ: HTTP 404: Not found"},
		{Error{Kind: Invalid, Op: OpSearch, Status: 400, Fields: []FieldError{{"size", "c", "too big"}, {"by", "c", ""}}}, "search: HTTP 400: size too big; by c"},
		{Error{Kind: Unsent, Op: OpSearch, Cause: errors.New("no such host")}, "search: unsent: no such host"},
		{Error{Kind: NoCredits, Op: OpSearch, Status: 402}, "search: HTTP 402: no credits"},
		{Error{Kind: Failed, Op: OpSearch, Status: 500, Message: "a\x1b[31m\r\nb\u202e"}, "search: HTTP 500: a [31m  b"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}

func TestErrorLogsItsParts(t *testing.T) {
	var out bytes.Buffer
	err := &Error{Kind: Lost, Op: OpDetails, Entity: "dQw4w9WgXcQ", Status: 200, Message: "cut", Cause: errors.New("reset")}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "err", err)
	var line struct{ Err map[string]any }
	if e := json.Unmarshal(out.Bytes(), &line); e != nil {
		t.Fatal(e)
	}
	want := map[string]any{"kind": "lost", "op": "details", "entity": "dQw4w9WgXcQ", "status": 200.0, "message": "cut", "cause": "reset"}
	if diff := cmp.Diff(want, line.Err); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzReadError(f *testing.F) {
	f.Add(400, []byte(`{"status":"error","error":{"errors":[{"code":"c","message":"m","path":["a",1,null]}]}}`))
	f.Add(429, []byte(`{"error":{"message":"m","rateLimit":{"limit":10,"current":11,"remaining":0,"resetTime":"2026-11-21T10:00:30Z"}}}`))
	f.Add(502, []byte("<html>\x1b[2J</html>"))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		e, shaped, own := readError(OpDetails, status, http.Header{"Date": {"Sat, 21 Nov 2026 10:00:00 GMT"}}, body)
		if e.Kind == "" || own && e.Kind == Foreign || own && !shaped || shaped && !json.Valid(body) {
			t.Errorf("of the shape %v, of the service %v, kind %q", shaped, own, e.Kind)
		}
		if r := e.Rate; r != nil {
			if r.Limit < -1 || r.Current < -1 || r.Remaining < -1 {
				t.Errorf("rate is %+v", r)
			}
			if _, err := r.Reset.MarshalJSON(); err != nil {
				t.Errorf("reset %v cannot be written down: %v", r.Reset, err)
			}
		}
		text := e.Error()
		if strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("the error holds control characters: %q", text)
		}
	})
}
