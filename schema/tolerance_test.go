package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/outlier"
)

// hitWith is a search answer of one hit with these members.
func hitWith(members string) string {
	return `{"hits":[{"id":"dQw4w9WgXcQ",` + members + `}]}`
}

func TestUnexpectedValuesAreKept(t *testing.T) {
	for _, c := range []struct {
		name    string
		members string
		column  string
		want    string
		extra   string
		drift   string
	}{
		{"null", `"snippet":{"duration":null}`, "duration", "NULL", "NULL", ""},
		{"absent", `"snippet":{}`, "duration", "NULL", "NULL", ""},
		{"null object", `"statistics":null`, "z_score", "NULL", "NULL", ""},
		{"zero stays zero", `"statistics":{"viewCount":0}`, "view_count", "0", "NULL", ""},
		{"empty text stays empty", `"snippet":{"title":""}`, "title", "", "NULL", ""},
		{"whole number as text", `"snippet":{"duration":"5"}`, "duration", "5", "NULL", ""},
		{"whole number as decimal", `"snippet":{"duration":5.0}`, "duration", "5", "NULL", ""},
		{"whole number with exponent", `"snippet":{"duration":1.5e3}`, "duration", "1500", "NULL", ""},
		{"largest whole number", `"snippet":{"duration":9223372036854775807}`, "duration", "9223372036854775807", "NULL", ""},
		{"too large", `"snippet":{"duration":9223372036854775808}`, "duration", "NULL", `{"snippet.duration":9223372036854775808}`, "hits[].snippet.duration of the wrong type"},
		{"fraction", `"snippet":{"duration":5.5}`, "duration", "NULL", `{"snippet.duration":5.5}`, "hits[].snippet.duration of the wrong type"},
		{"no number", `"snippet":{"duration":"PT5M"}`, "duration", "NULL", `{"snippet.duration":"PT5M"}`, "hits[].snippet.duration of the wrong type"},
		{"boolean for number", `"snippet":{"duration":true}`, "duration", "NULL", `{"snippet.duration":true}`, "hits[].snippet.duration of the wrong type"},
		{"object for number", `"snippet":{"duration":{"s":[1, 2]}}`, "duration", "NULL", `{"snippet.duration":{"s":[1,2]}}`, "hits[].snippet.duration of the wrong type"},
		{"float of many digits", `"statistics":{"zScore":7.812345678901234}`, "z_score", "7.812345678901234", "NULL", ""},
		{"float as text", `"statistics":{"zScore":"-2.5"}`, "z_score", "-2.5", "NULL", ""},
		{"float beyond range", `"statistics":{"zScore":1e999}`, "z_score", "NULL", `{"statistics.zScore":1e999}`, "hits[].statistics.zScore of the wrong type"},
		{"NaN", `"statistics":{"zScore":"NaN"}`, "z_score", "NULL", `{"statistics.zScore":"NaN"}`, "hits[].statistics.zScore of the wrong type"},
		{"boolean as text", `"classification":{"isFaceless":"true"}`, "is_faceless", "true", "NULL", ""},
		{"number for boolean", `"classification":{"isFaceless":1}`, "is_faceless", "NULL", `{"classification.isFaceless":1}`, "hits[].classification.isFaceless of the wrong type"},
		{"number for text", `"snippet":{"title":1984}`, "title", "1984", "NULL", ""},
		{"boolean for text", `"snippet":{"title":false}`, "title", "false", "NULL", ""},
		{"list for text", `"snippet":{"title":["a"]}`, "title", "NULL", `{"snippet.title":["a"]}`, "hits[].snippet.title of the wrong type"},
		{"time with offset", `"time":"2025-11-20T10:00:00.5+02:00"`, "service_time", "2025-11-20T08:00:00.5Z", "NULL", ""},
		{"date for time", `"time":"2025-11-20"`, "service_time", "2025-11-20T00:00:00Z", "NULL", ""},
		{"no time", `"time":"yesterday"`, "service_time", "NULL", `{"time":"yesterday"}`, "hits[].time of the wrong type"},
		{"impossible date", `"time":"2025-02-30T00:00:00Z"`, "service_time", "NULL", `{"time":"2025-02-30T00:00:00Z"}`, "hits[].time of the wrong type"},
		{"text for object", `"snippet":"none"`, "title", "NULL", `{"snippet":"none"}`, "hits[].snippet of the wrong type"},
		{"list for keyed thumbnails", `"snippet":{"thumbnails":[{"url":"u"}]}`, "thumbnails", "NULL", `{"snippet.thumbnails":[{"url":"u"}]}`, "hits[].snippet.thumbnails of the wrong type"},
		{"unknown thumbnail", `"snippet":{"thumbnails":{"maxres":{"url":"m"},"high":{"url":"h"}}}`, "thumbnail_url", "h", `{"snippet.thumbnails.maxres":{"url":"m"}}`, "hits[].snippet.thumbnails.maxres unknown"},
		{"unknown field", `"snippet":{"sentiment":{"sentiment":"joy", "x": null}}`, "title", "NULL", `{"snippet.sentiment":{"sentiment":"joy","x":null}}`, "hits[].snippet.sentiment unknown"},
		{"key in other case", `"Kind":"video"`, "kind", "NULL", `{"Kind":"video"}`, "hits[].Kind unknown"},
		{"escaped key", `"\u006bind":"video"`, "kind", "video", "NULL", ""},
		{"hostile key", `"\"}\u0000\n":1`, "kind", "NULL", `{"\"}\u0000\n":1}`, "hits[].\"}\x00\n unknown"},
		{"field twice", `"kind":"video","kind":"short"`, "kind", "video", `{"kind":"short"}`, "hits[].kind twice"},
		{"null counts as first", `"kind":null,"kind":"short"`, "kind", "NULL", `{"kind":"short"}`, "hits[].kind twice"},
		{"object twice", `"snippet":{"title":"a"},"snippet":{"title":"b"}`, "title", "a", `{"snippet":{"title":"b"}}`, "hits[].snippet twice"},
		{"lone surrogate", `"snippet":{"title":"a\ud800b"}`, "title", "a\ufffdb", "NULL", ""},
		{"lone surrogate in extra", `"new":"a\udc00b"`, "title", "NULL", `{"new":"a` + "\ufffd" + `b"}`, "hits[].new unknown"},
		{"surrogate pair", `"snippet":{"title":"\ud83d\ude00"}`, "title", "😀", "NULL", ""},
		{"NUL", `"snippet":{"title":"a\u0000b"}`, "title", "a\x00b", "NULL", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			parts, drift := decode(t, outlier.OpSearch, hitWith(c.members))
			if got := cells(t, parts["outliers"], c.column)[0]; got != c.want {
				t.Errorf("%s is %q, want %q", c.column, got, c.want)
			}
			if got := cells(t, parts["outliers"], "extra")[0]; got != c.extra {
				t.Errorf("extra is %s, want %s", got, c.extra)
			}
			if got := strings.Trim(fmt.Sprint(drift), "[]"); got != strings.Trim(c.drift, "[]") {
				t.Errorf("drift is %q, want %q", got, c.drift)
			}
		})
	}
}

// Unexpected fields of the same name are all kept, with numbers.
func TestRepeatedStraysAreAllKept(t *testing.T) {
	parts, _ := decode(t, outlier.OpSearch, hitWith(`"a":1,"a":2,"a#2":3,"a":4,"kind":"x","kind":"y","kind":"z"`))
	want := `{"a":1,"a#2":2,"a#2#2":3,"a#3":4,"kind":"y","kind#2":"z"}`
	if got := cells(t, parts["outliers"], "extra")[0]; got != want {
		t.Errorf("extra is %s, want %s", got, want)
	}
}

func TestStraysBelongToTheirOwnRow(t *testing.T) {
	body := `{"items":[{"id":"dQw4w9WgXcQ","p":1,"comments":[{"text":"a","c":2},{"text":"b"},{"text":"c","authorThumbnail":[{"url":"u"},{"url":"v","z":3},4]}],"q":5}]}`
	parts, drift := decode(t, outlier.OpComments, body)
	if got, want := cells(t, parts["comments"], "extra"), []string{`{"c":2}`, "NULL", `{"authorThumbnail[1].z":3,"authorThumbnail[2]":4}`}; !slices.Equal(got, want) {
		t.Errorf("extra of comments %q, want %q", got, want)
	}
	if got, want := cells(t, parts["comment_counts"], "extra"), []string{`{"p":1,"q":5}`}; !slices.Equal(got, want) {
		t.Errorf("extra of counts %q, want %q", got, want)
	}
	var paths []string
	for _, d := range drift {
		paths = append(paths, d.String())
	}
	want := []string{
		"items[].comments[].authorThumbnail[] of the wrong type", "items[].comments[].authorThumbnail[].z unknown",
		"items[].comments[].c unknown", "items[].p unknown", "items[].q unknown",
	}
	if !slices.Equal(paths, want) {
		t.Errorf("drift %q, want %q", paths, want)
	}
}

func TestThumbnailsOfUploadsKeepTheirNames(t *testing.T) {
	for _, c := range []struct {
		op         outlier.Operation
		name       string
		thumbnails string
		want, url  string
	}{
		{outlier.OpChannelVideos, "videos", `{"default":{"url":"d","width":1,"height":1},"high":{"url":"h"}}`,
			`[{"height":1,"name":"default","url":"d","width":1},{"height":null,"name":"high","url":"h","width":null}]`, "d"},
		{outlier.OpChannelShorts, "shorts", `[{"url":"a","width":2,"height":3},{"url":"b","width":3,"height":2},null]`,
			`[{"height":3,"name":null,"url":"a","width":2},{"height":2,"name":null,"url":"b","width":3},null]`, "b"},
		{outlier.OpChannelShorts, "shorts", `[]`, `[]`, "NULL"},
		{outlier.OpChannelShorts, "shorts", `null`, `NULL`, "NULL"},
		{outlier.OpChannelShorts, "shorts", `"u"`, `NULL`, "NULL"},
	} {
		body := fmt.Sprintf(`{"item":{"id":"%s","%s":[{"id":"dQw4w9WgXcQ","thumbnails":%s}]}}`, someChannel, c.name, c.thumbnails)
		parts, _ := decode(t, c.op, body)
		if got := cells(t, parts["channel_uploads"], "thumbnails")[0]; got != c.want {
			t.Errorf("%s become %s, want %s", c.thumbnails, got, c.want)
		}
		if got := cells(t, parts["channel_uploads"], "thumbnail_url")[0]; got != c.url {
			t.Errorf("the largest of %s is %s, want %s", c.thumbnails, got, c.url)
		}
	}
}

func TestKeywordsThatAreNotTexts(t *testing.T) {
	body := `{"item":{"id":"` + someChannel + `","snippet":{"keywords":["a",5,null,{"b":1},""]}}}`
	parts, _ := decode(t, outlier.OpChannelVideos, body)
	if got, want := cells(t, parts["channels"], "keywords")[0], `["a","5",null,null,""]`; got != want {
		t.Errorf("keywords %s, want %s", got, want)
	}
	if got, want := cells(t, parts["channels"], "extra")[0], `{"snippet.keywords[]":{"b":1}}`; got != want {
		t.Errorf("extra %s, want %s", got, want)
	}
}

// A value that is nested too deeply for databases costs no row, and nothing around it.
func TestDeepValuesBecomeTexts(t *testing.T) {
	deep := strings.Repeat("[", 2*maxDepth) + strings.Repeat("]", 2*maxDepth)
	want := strings.Repeat("[", maxDepth) + `"` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + `… [cut from 200 bytes]"` +
		strings.Repeat("]", maxDepth)
	for _, c := range []struct {
		op                        outlier.Operation
		body, table, column, want string
	}{
		{outlier.OpSearch, `{"hits":[{"id":"a","new":` + deep + `,"more":1}]}`, "outliers", "extra", `{"new":` + want + `,"more":1}`},
		{outlier.OpChannelVideos, `{"item":{"id":"` + someChannel + `","videos":[{"id":"x","isLiveBroadcast":` + deep + `}]}}`,
			"channel_uploads", "is_live_broadcast", want},
		{outlier.OpTrendingFormats, `[` + deep + `]`, "trending_formats", "value", want},
	} {
		parts, _ := decode(t, c.op, c.body)
		if got := cells(t, parts[c.table], c.column)[0]; got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.column, c.table, got, c.want)
		}
	}
}

// Elements without a key are counted but have no rows, and an answer without any row has nothing about its
// entity.
func TestRowsWithoutKeyAreDropped(t *testing.T) {
	for _, c := range []struct {
		op    outlier.Operation
		body  string
		rows  int
		lost  int // of its hits or items
		drift string
	}{
		{outlier.OpSearch, `{"hits":[{"kind":"video","new":1},{"id":"dQw4w9WgXcQ"}]}`, 1, 1, "[hits[].id missing hits[].new unknown]"},
		{outlier.OpSearch, `{"hits":[{"id":""},{"id":null},{"id":["x"]},5]}`, 0, 4, "[hits[] not an object hits[].id missing hits[].id of the wrong type]"},
		{outlier.OpSearch, `{"hits":[{"id":true},{"id":"a\u0000b"},{"id":" "},{"id":"` + strings.Repeat("x", 257) + `"}]}`, 0, 4,
			"[hits[].id missing hits[].id of the wrong type]"},
		{outlier.OpSearch, `{"hits":[{"id":7},{"id":"../é"},{"id":"` + strings.Repeat("x", 256) + `"}]}`, 3, 0, "[]"},
		{outlier.OpTranscript, `{"items":[{"events":[{"text":"a"}],"transcript":"a"}]}`, 0, 1, "[items[].id missing]"},
		{outlier.OpTranscript, `{"items":[{"id":"` + someVideo + `","events":null,"transcript":" "}]}`, 0, 0, "[]"},
		{outlier.OpTranscript, `{"items":[{"id":"` + someVideo + `","transcript":"a"}]}`, 1, 0, "[]"},
		{outlier.OpComments, `{"items":[{"comments":[{"text":"a"}],"statistics":{"count":1}}]}`, 0, 1, "[items[].id missing]"},
		{outlier.OpChannelVideos, `{"item":{"statistics":{"videosCount":1},"videos":[{"id":"x"}]}}`, 0, 1, "[item.id missing]"},
		{outlier.OpChannelVideos, `{"item":{"id":"` + someChannel + `","videos":[{"title":"x"}]}}`, 1, 0, "[item.videos[].id missing]"},
		{outlier.OpChannelVideos, `{"item":null}`, 0, 0, "[item missing]"},
		{outlier.OpDetails, `{"items":null}`, 0, 0, "[items[] missing]"},
		{outlier.OpDetails, `{}`, 0, 0, "[items[] missing]"},
		{outlier.OpDetails, `{"items":[]}`, 0, 0, "[]"},
	} {
		d := newDecoder(t)
		if lost, err := d.Check(source(c.op), []byte(c.body)); len(lost) != c.lost || (err == nil) != (c.rows > 0 || c.op == outlier.OpSearch) {
			t.Errorf("%s: %v lost, error %v; want %d", c.body, lost, err, c.lost)
		}
		if d.Rows() != 0 || len(d.Drift()) != 0 {
			t.Errorf("%s: the check left %d rows behind, or drift", c.body, d.Rows())
		}
		if err := d.Decode(source(c.op), []byte(c.body)); (err == nil) != (c.rows > 0 || c.op == outlier.OpSearch) {
			t.Errorf("%s: %v", c.body, err)
		}
		if drift := fmt.Sprint(d.Drift()); d.Rows() != c.rows || drift != c.drift {
			t.Errorf("%s: %d rows and drift %s, want %d and %s", c.body, d.Rows(), drift, c.rows, c.drift)
		}
		take(t, d)
	}
}

func TestOrderOfMembersDoesNotMatter(t *testing.T) {
	for _, op := range operations {
		if op == outlier.OpTrendingFormats { // whose elements are kept as they are written
			continue
		}
		want, _ := decode(t, op, example(t, op))
		for seed := range uint64(20) {
			body := shuffled(t, example(t, op), rand.New(rand.NewPCG(seed, 1)))
			if got, _ := decode(t, op, body); !sameRows(want, got) {
				t.Fatalf("%s reads differently as %s", op, body)
			}
		}
	}
}

// shuffled is the same JSON with the members of its objects in another order.
func shuffled(t *testing.T, body string, r *rand.Rand) string {
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	var write func(any)
	write = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			var members []string
			for name, member := range value {
				begin := b.Len()
				write(name)
				b.WriteString(" : ")
				write(member)
				members = append(members, b.String()[begin:])
				b.Truncate(begin)
			}
			slices.Sort(members)
			if value["default"] != nil { // thumbnails, which may become a LIST: its order is theirs
				b.WriteString("{" + strings.Join(members, ",") + "}")
				return
			}
			r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
			b.WriteString("{" + strings.Join(members, " ,\n") + "}")
		case []any:
			b.WriteString("[")
			for i, element := range value {
				if i > 0 {
					b.WriteString(" ,")
				}
				write(element)
			}
			b.WriteString("]")
		default:
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(text)
		}
	}
	write(value)
	return b.String()
}

func TestUnreadableAnswersLeaveNothing(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"nothing", "", "not JSON"},
		{"white space", " \n", "not JSON"},
		{"a page of HTML", "<html><body>Bad gateway</body></html>", "not JSON"},
		{"a list", "[]", "not a JSON object"},
		{"null", "null", "not a JSON object"},
		{"cut short", hitWith(`"kind":"video"`)[:30], "unexpected"},
		{"cut in a text", `{"hits":[{"id":"dQw4w9W`, "unexpected"},
		{"two objects", hitWith(`"a":1`) + "{}", "something follows"},
		{"trailing comma", hitWith(`"a":1`) + ",", "something follows"},
		{"trailing bracket", hitWith(`"a":1`) + "}", "something follows"},
		{"comma before the end", hitWith(`"a":1,`), "unexpected"},
		{"bad escape", hitWith(`"kind":"\x"`), "unexpected"},
		{"control character", hitWith("\"kind\":\"a\nb\""), "unexpected"},
		{"bad number", hitWith(`"statistics":{"zScore":01}`), "unexpected"},
		{"NaN", hitWith(`"statistics":{"zScore":NaN}`), "unexpected"},
		{"bad UTF-8 outside of texts", hitWith("\"kind\":\xff"), "unexpected"},
		{"bad value of an unknown field", hitWith(`"new":tru`), "unexpected"},
		{"bottomless nesting", hitWith(`"new":` + strings.Repeat("[", 1<<20)), "depth"},
		{"hits that are no list", `{"hits":{"id":"dQw4w9WgXcQ"}}`, "hits[] is of the wrong type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDecoder(t)
			good := []byte(example(t, outlier.OpSearch))
			for range 2 { // before and after the bad one
				if err := d.Decode(source(outlier.OpSearch), good); err != nil {
					t.Fatal(err)
				}
				err := d.Decode(source(outlier.OpSearch), []byte(c.body))
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "decode search answer 17: ") {
					t.Errorf("error %v, want %q", err, c.want)
				}
			}
			want := newDecoder(t)
			for range 2 {
				if err := want.Decode(source(outlier.OpSearch), good); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := take(t, d), take(t, want); !sameRows(got, want) {
				t.Error("an unreadable answer left something behind")
			}
		})
	}
}

// A byte order mark and white space around an answer are tolerated.
func TestSurroundingSpaceIsTolerated(t *testing.T) {
	want, _ := decode(t, outlier.OpDetails, example(t, outlier.OpDetails))
	if got, _ := decode(t, outlier.OpDetails, "\ufeff \r\n"+example(t, outlier.OpDetails)+"\t\n "); !sameRows(want, got) {
		t.Error("rows differ")
	}
}

func TestAnswersAboutAnotherEntityAreRefused(t *testing.T) {
	for op, body := range map[outlier.Operation]string{
		outlier.OpDetails:       `{"items":[{"id":"otherother1"}]}`,
		outlier.OpComments:      `{"items":[{"id":"otherother1","comments":[{"text":"a"}]}]}`,
		outlier.OpTranscript:    `{"ids":["otherother1"],"items":[]}`,
		outlier.OpChannelVideos: `{"id":"UCother","item":{"id":"` + someChannel + `"}}`,
		outlier.OpChannelShorts: `{"id":"` + someChannel + `","item":{"id":"UCother"}}`,
	} {
		d := newDecoder(t)
		err := d.Decode(source(op), []byte(body))
		if err == nil || !strings.Contains(err.Error(), "answered about") {
			t.Errorf("%s: error %v", op, err)
		}
		if d.Rows() != 0 {
			t.Errorf("%s: %d rows were kept", op, d.Rows())
		}
	}
}

func TestRowsOfOtherEntitiesAreDropped(t *testing.T) {
	parts, drift := decode(t, outlier.OpComments, `{"items":[{"id":"otherother1","comments":[{"text":"a"}]},`+
		`{"id":"dQw4w9WgXcQ","comments":[{"text":"b"}]},{"id":"otherother2","comments":[]}]}`)
	if n := parts["comment_counts"].NumRows(); n != 1 {
		t.Errorf("%d items were kept", n)
	}
	if n := parts["comments"].NumRows(); n != 1 {
		t.Errorf("%d comments were kept", n)
	}
	if len(drift) == 0 || drift[0].String() != "items[].id about another entity" || drift[0].Count != 2 {
		t.Errorf("drift %v", drift)
	}
}

func TestAnUnknownOperationIsAnError(t *testing.T) {
	d := newDecoder(t)
	if err := d.Decode(Source{Op: "weather"}, []byte("{}")); err == nil {
		t.Error("no error")
	}
}

// A repeated id must not turn a small answer into a large record.
func TestOversizedIDIsRefused(t *testing.T) {
	d := NewDecoder(memory.NewGoAllocator())
	body := `{"items":[{"id":"` + strings.Repeat("x", 1<<20) + `","events":[` + strings.Repeat("{},", 99) + `{}]}]}`
	if err := d.Decode(Source{Op: outlier.OpTranscript}, []byte(body)); err != nil || d.Rows() != 0 {
		t.Errorf("error %v with %d rows", err, d.Rows())
	}
}
