package outlier

import (
	"bytes"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

func TestAuthorsOfCommentsAreHidden(t *testing.T) {
	const body = `{"ids":["v"],"items":[{"id":"v","comments":[` +
		`{"authorChannelId":"UCx","authorText":"@x","authorThumbnail":[{"url":"u"}],"authorIsChannelOwner":true,"text":"by \"x\"","n":1.50},` +
		`{"authorChannelId":null,"authorNew":"x","text":""}],"statistics":{"count":2}}]}`
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write([]byte(body))
	z.Close()
	for name, tt := range map[string]struct {
		pseudonym func(string) string
		op        Operation
		body      string
		want      string
	}{
		"hash": {strings.ToLower, OpComments, body, `{"ids":["v"],"items":[{"id":"v","comments":[` +
			`{"authorChannelId":"ucx","authorText":null,"authorThumbnail":null,"authorIsChannelOwner":true,"text":"by \"x\"","n":1.50},` +
			`{"authorChannelId":null,"authorNew":null,"text":""}],"statistics":{"count":2}}]}`},
		"drop": {func(string) string { return "" }, OpComments, body, `{"ids":["v"],"items":[{"id":"v","comments":[` +
			`{"authorChannelId":null,"authorText":null,"authorThumbnail":null,"authorIsChannelOwner":true,"text":"by \"x\"","n":1.50},` +
			`{"authorChannelId":null,"authorNew":null,"text":""}],"statistics":{"count":2}}]}`},
		"keep":             {nil, OpComments, body, body},
		"another endpoint": {strings.ToLower, OpDetails, body, body},
		"not JSON":         {strings.ToLower, OpComments, body[:40], body[:40]},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Answer{Request: &Request{op: tt.op}, Body: []byte(tt.body)}
			a.hideAuthors(tt.pseudonym)
			if string(a.Body) != tt.want {
				t.Errorf("%s\nwant %s", a.Body, tt.want)
			}
		})
	}
	a := &Answer{Request: &Request{op: OpComments}, Body: zipped.Bytes(), Encoding: "gzip"}
	a.hideAuthors(strings.ToLower)
	if a.Encoding != "" || bytes.Contains(a.Body, []byte("UCx")) {
		t.Errorf("a zipped answer became %s (%s)", a.Body, a.Encoding)
	}
}
