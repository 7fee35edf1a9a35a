package outlier

import (
	"strings"
	"testing"
)

// Redact removes every element of an answer that has the ID.
func TestRedactRemovesEveryMention(t *testing.T) {
	for name, tt := range map[string]struct{ body, want string }{
		"a hit":                   {`{"hits":[{"id":"a"},{"id":"x","snippet":{"title":"T"}},{"id":"b"}]}`, `{"hits":[{"id":"a"},"forgotten",{"id":"b"}]}`},
		"a hit of a channel":      {`{"hits":[{"id":"a","snippet":{"channelId":"x"}}]}`, `{"hits":["forgotten"]}`},
		"a comment":               {`{"items":[{"id":"a","comments":[{"authorChannelId":"x"},{"authorChannelId":"y"}]}]}`, `{"items":[{"id":"a","comments":["forgotten",{"authorChannelId":"y"}]}]}`},
		"a video with comments":   {`{"ids":["x"],"items":[{"id":"x","comments":[{}]}],"time":"t"}`, `{"ids":["forgotten"],"items":["forgotten"],"time":"t"}`},
		"a field of another name": {`{"hits":[{"id":"a","new":{"deep":{"who":"x"}}}]}`, `{"hits":["forgotten"]}`},
		"escaped":                 {`{"hits":[{"id":"\u0078"}]}`, `{"hits":["forgotten"]}`},
		"the whole":               {`{"id":"x","item":{"videos":[]}}`, ``},
		"the whole, from within":  {`{"item":{"id":"x"}}`, ``},
		"only the id":             {`"x"`, ``},
		"an id in a longer text":  {`{"hits":[{"title":"x x"}]}`, `{"hits":[{"title":"x x"}]}`},
		"a name":                  {`{"hits":[{"x":1}]}`, `{"hits":[{"x":1}]}`},
		"what comes twice stays":  {`{"n":1.50,"n":1e2,"hits":["x"]}`, `{"n":1.50,"n":1e2,"hits":["forgotten"]}`},
		"odd names":               {`{"a\"b":[ "x" , null ]}`, `{"a\"b":["forgotten",null]}`},
		"nothing of it":           {` {"hits": [ 1 ]} `, ` {"hits": [ 1 ]} `},
	} {
		t.Run(name, func(t *testing.T) {
			got, changed, err := Redact([]byte(tt.body), func(_, text []byte) bool { return string(text) == "x" }, nil)
			if string(got) != tt.want || changed != (tt.body != tt.want) || err != nil {
				t.Errorf("%s, %t, %v; want %s", got, changed, err, tt.want)
			}
		})
	}
}

func TestRedactAsksForTheMemberToo(t *testing.T) {
	body := `{"hits":[{"channelId":"x"},{"authorChannelId":"x"}]}`
	author := func(member, text []byte) bool { return string(member) == "authorChannelId" && string(text) == "x" }
	got, _, err := Redact([]byte(body), author, nil)
	if want := `{"hits":[{"channelId":"x"},"forgotten"]}`; string(got) != want || err != nil {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func TestRedactRefusesUnreadableAnswers(t *testing.T) {
	for _, body := range []string{``, `{`, `[1,]`, `no JSON`, strings.Repeat("[", 200) + strings.Repeat("]", 200)} {
		if got, changed, err := Redact([]byte(body), func(_, _ []byte) bool { return true }, nil); err == nil {
			t.Errorf("%q became %q, %t", body, got, changed)
		}
	}
}

// An answer that cannot be read is dropped if it may be about a forgotten ID.
func TestUnreadableForgottenAnswersAreDropped(t *testing.T) {
	forgotten := func(member, text []byte) bool {
		return string(text) == "dQw4w9WgXcQ" || string(member) == "authorChannelId" && string(text) == "author"
	}
	zip := zipped(`{"hits":[{"id":"dQw4w9WgXcQ","title":"` + strings.Repeat("long ", 50) + `"},{"id":`)
	for name, tt := range map[string]struct {
		op     Operation
		body   string
		header string
		kept   bool
	}{
		"breaks off":              {OpDetails, `{"items":[{"id":"dQw4w9WgXcQ","title":"`, "", false},
		"compressed, breaks off":  {OpDetails, zip[:len(zip)-12], "Content-Encoding: gzip", false},
		"unknown encoding":        {OpDetails, "\x8b\x00", "Content-Encoding: br", false},
		"an author's comment":     {OpDetails, `{"items":[{"authorChannelId":"author",`, "", false},
		"a word like an author":   {OpDetails, `{"items":[{"title":"author",`, "", true},
		"about others":            {OpDetails, `{"items":[{"id":"AAAAAAAAAAA","title":"`, "", true},
		"comments of any authors": {OpComments, `{"items":[{"authorName":"A",`, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := DataRequest(tt.op, "AAAAAAAAAAA")
			if err != nil {
				t.Fatal(err)
			}
			c := &Client{URL: "https://api.test", Transport: answering(200, tt.body, tt.header), Forgotten: forgotten, Pseudonym: func(string) string { return "" }}
			a, err := c.Do(t.Context(), r, &books{})
			if kept := len(a.Body) > 0; kept != tt.kept || err == nil {
				t.Errorf("kept %q (%v)", a.Body, err)
			}
		})
	}
}
