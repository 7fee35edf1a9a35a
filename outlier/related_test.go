package outlier

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// codes are the paths and codes of what is wrong, nil for no error of kind Invalid.
func codes(err error) []string {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != Invalid {
		return nil
	}
	var all []string
	for _, f := range e.Fields {
		all = append(all, strings.TrimSpace(f.Path+" "+f.Code))
	}
	return all
}

// filters are the common filters of full, without query, seed and order.
func filters() url.Values {
	v := full()
	for _, name := range []string{"query", "seed", "sortBy", "sortOrder", "by"} {
		v.Del(name)
	}
	return v
}

// Related takes the filters of a search, and seeds of its own.
func TestRelatedTakesFiltersAndSeeds(t *testing.T) {
	want := strings.Fields(parameters)
	for _, other := range []string{"query", "seed", "sortBy", "sortOrder"} {
		want = slices.DeleteFunc(want, func(name string) bool { return name == other })
	}
	want = append(want, "title", "videoId", "thumbnailVideoId", "relatedChannelId")
	slices.Sort(want)
	r := ask(t, OpRelated, with(t, at(filters(), 40, 40),
		"by=lexical&title=a&videoId="+aVideo+"&thumbnailVideoId="+aVideo+"&relatedChannelId="+aChannel))
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(r.params))); diff != "" {
		t.Errorf("parameters (-interface +sent):\n%s", diff)
	}
	if r.op != OpRelated || r.path != "/search/outliers/related" || r.price != 2 {
		t.Errorf("request is %+v", r)
	}
}

func TestRelatedNeedsASeed(t *testing.T) {
	for _, seed := range []string{"title=a", "videoId=" + aVideo, "thumbnailVideoId=" + aVideo, "relatedChannelId=" + aChannel} {
		ask(t, OpRelated, values(t, seed))
	}
	_, err := NewRequest(OpRelated, with(t, filters(), "by=semantic"), nil)
	if kindOf(err) != Invalid || !strings.HasPrefix(err.Error(), "related: title, videoId, thumbnailVideoId and relatedChannelId are all missing") {
		t.Errorf("without any seed: %v", err)
	}
}

func TestRelatedRefusesInvalidSeeds(t *testing.T) {
	for name, tt := range map[string]struct {
		params string
		want   []string
	}{
		"video by address":       {"videoId=" + aVideo + "&videoId=vi.test/" + aVideo, []string{"videoId pattern"}},
		"thumbnail of a channel": {"thumbnailVideoId=" + aChannel, []string{"thumbnailVideoId pattern"}},
		"channel by name":        {"relatedChannelId=@name", []string{"relatedChannelId pattern"}},
		"blank title":            {"title=+", []string{"title pattern"}},
		"filter":                 {"title=a&by=near&type=film", []string{"by enum", "type enum"}},
		"parameter of a search":  {"title=a&query=b", []string{"query unknown"}},
	} {
		_, err := NewRequest(OpRelated, values(t, tt.params), nil)
		if diff := cmp.Diff(tt.want, codes(err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, err := NewRequest(OpRelated, url.Values{"title": nil}, nil); codes(err) == nil {
		t.Error("an empty list passes for a seed")
	}
}

func TestStoredParametersMakeTheSameRequest(t *testing.T) {
	for _, first := range []*Request{
		ask(t, OpSearch, at(full(), 80, 40)),
		ask(t, OpRelated, at(url.Values{"title": {"ü", "a"}}, 3, 40)),
		ask(t, OpFindChannels, at(url.Values{"query": {"b", "a"}}, 0, 40)),
		ask(t, OpFindRelatedChannels, at(url.Values{"relatedChannelId": {aChannel}}, 1, 9)),
		ask(t, OpTrendingFormats, url.Values{"x": {"2", "1"}}),
		ask(t, OpStartScan, url.Values{"query": {"b", "a"}}),
	} {
		stored := values(t, first.params.Encode())
		if diff := cmp.Diff(first, ask(t, first.op, stored), cmp.AllowUnexported(Request{})); diff != "" {
			t.Errorf("%s (-first +again):\n%s", first.op, diff)
		}
	}
}

func TestTrendingFormatsRefuseInvalidParameters(t *testing.T) {
	params := url.Values{" ": {"a"}, "b": {"\xff"}, "c": {"", "d"}, "\xff": {"e"}}
	_, err := NewRequest(OpTrendingFormats, params, nil)
	if diff := cmp.Diff([]string{"pattern", "b pattern", "\xff pattern"}, codes(err)); diff != "" {
		t.Errorf("error is %v (-want +got):\n%s", err, diff)
	}
}
