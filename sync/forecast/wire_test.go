package forecast

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
)

// connect reports a connection to the client, as a transport must before it sends a request.
func connect(r *http.Request) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
}

// page returns an answer with this status and body.
func page(status int, contentType, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// blocking answers the first call of one kind with a refusal for a quarter of an hour.
func blocking(wire http.RoundTripper, path string) http.RoundTripper {
	refused := false
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if refused || !strings.HasPrefix(r.URL.Path, path) {
			return wire.RoundTrip(r)
		}
		refused = true
		connect(r)
		answer := page(http.StatusTooManyRequests, "application/json", `{"status":"error","error":{"message":"slow down","rateLimit":{"limit":10,"current":11,"remaining":0}}}`)
		answer.Header.Set("Retry-After", "900")
		return answer, nil
	})
}

// afterPages passes searches on, and answers everything else itself.
func afterPages(wire http.RoundTripper, answer func() *http.Response) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.Path, "/search/") {
			return wire.RoundTrip(r)
		}
		connect(r)
		return answer(), nil
	})
}
