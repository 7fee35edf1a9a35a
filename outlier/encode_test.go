package outlier

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestArrayEncodings(t *testing.T) {
	two := url.Values{"query": {"b", "a&c", "é, e"}, "by": {"lexical"}}
	for _, tt := range []struct {
		arrays Arrays
		op     Operation
		params url.Values
		want   string
	}{
		{"", OpSearch, two, "by=lexical&query=b&query=a%26c&query=%C3%A9%2C+e"},
		{ArraysRepeat, OpSearch, two, "by=lexical&query=b&query=a%26c&query=%C3%A9%2C+e"},
		{ArraysBracket, OpSearch, two, "by=lexical&query%5B%5D=b&query%5B%5D=a%26c&query%5B%5D=%C3%A9%2C+e"},
		{ArraysComma, OpSearch, two, "by=lexical&query=b,a%26c,%C3%A9%2C+e"},
		{ArraysBracket, OpRelated, url.Values{"videoId": {aVideo}, "thumbnailVideoId": {aVideo}}, "thumbnailVideoId=" + aVideo + "&videoId%5B%5D=" + aVideo},
		{ArraysBracket, OpFindRelatedChannels, url.Values{"relatedChannelId": {aChannel}}, "relatedChannelId%5B%5D=" + aChannel},
		{ArraysBracket, OpTrendingFormats, url.Values{"a": {"1"}, "b": {"1", "2"}}, "a=1&b%5B%5D=1&b%5B%5D=2"},
		{ArraysComma, OpDetails, nil, ""},
	} {
		if got := tt.arrays.encodeQuery(&Request{op: tt.op, params: tt.params}); got != tt.want {
			t.Errorf("%s %q is encoded as %s, want %s", tt.op, tt.arrays, got, tt.want)
		}
	}
}

// In each encoding of arrays, a service that decodes it gets every element, and the identity of the
// request is the same.
func TestArrayEncodingsRoundTrip(t *testing.T) {
	read := map[Arrays]func(query string) url.Values{
		ArraysRepeat: func(query string) url.Values {
			v, _ := url.ParseQuery(query) // what cannot be read is missed below
			return v
		},
		ArraysBracket: func(query string) url.Values {
			all, _ := url.ParseQuery(query)
			v := url.Values{}
			for name, values := range all {
				v[strings.TrimSuffix(name, "[]")] = values
			}
			return v
		},
		ArraysComma: func(query string) url.Values {
			v := url.Values{}
			for pair := range strings.SplitSeq(query, "&") {
				name, values, _ := strings.Cut(pair, "=")
				for value := range strings.SplitSeq(values, ",") {
					value, _ = url.QueryUnescape(value)
					v.Add(name, value)
				}
			}
			return v
		},
	}
	rapid.Check(t, func(t *rapid.T) {
		r := &Request{op: OpSearch, params: url.Values{
			"query": rapid.SliceOfN(rapid.String(), 1, 4).Draw(t, "query"), "seed": {rapid.StringN(1, 9, -1).Draw(t, "seed")},
		}}
		params := r.params.Encode()
		for _, arrays := range slices.Sorted(maps.Keys(read)) {
			if diff := cmp.Diff(r.params, read[arrays](arrays.encodeQuery(r)), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-params +read):\n%s", arrays, diff)
			}
		}
		if now := r.params.Encode(); now != params {
			t.Errorf("%q became %q", params, now)
		}
	})
}
