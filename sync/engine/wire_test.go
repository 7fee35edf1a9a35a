package engine

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
)

// connect tells the client that there is a connection, as a transport has to
// before it sends anything.
func connect(r *http.Request) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
}

// page is an answer made up by a test.
func page(status int, contentType, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}
