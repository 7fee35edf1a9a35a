package outlier

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// codes are the paths and codes of what is wrong.
func codes(wrong []FieldError) []string {
	var all []string
	for _, f := range wrong {
		all = append(all, strings.TrimSpace(f.Path+" "+f.Code))
	}
	return all
}

func TestRelatedHasTheFiltersOfASearchAndItsOwnSeeds(t *testing.T) {
	want := strings.Fields(parameters)
	for _, other := range []string{"query", "seed", "sortBy", "sortOrder"} {
		want = slices.DeleteFunc(want, func(name string) bool { return name == other })
	}
	want = append(want, "title", "videoId", "thumbnailVideoId", "relatedChannelId")
	slices.Sort(want)
	r, err := (&Related{
		Title: []string{"a"}, VideoID: []string{aVideo}, ThumbnailVideoID: aVideo, RelatedChannelID: []string{aChannel},
		By: "lexical", Filters: full().Filters,
	}).Request(40, 40)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(r.Params))); diff != "" {
		t.Errorf("parameters (-interface +sent):\n%s", diff)
	}
	if r.Op != OpRelated || r.Path != "/search/outliers/related" || r.Price != 2 {
		t.Errorf("request is %+v", r)
	}
}

func TestRelatedNeedsASeed(t *testing.T) {
	for _, r := range []Related{
		{Title: []string{"a"}}, {VideoID: []string{aVideo}}, {ThumbnailVideoID: aVideo}, {RelatedChannelID: []string{aChannel}},
	} {
		if _, err := r.Request(0, 40); err != nil {
			t.Errorf("%+v is refused: %v", r, err)
		}
	}
	_, err := (&Related{By: "semantic", Filters: full().Filters}).Request(0, 40)
	if kindOf(err) != Invalid || !strings.HasPrefix(err.Error(), "related: title, videoId, thumbnailVideoId and relatedChannelId are all missing") {
		t.Errorf("without any seed: %v", err)
	}
}

func TestRelatedRefusesWhatIsNoSeed(t *testing.T) {
	for name, tt := range map[string]struct {
		r    Related
		want []string
	}{
		"video by address":       {Related{VideoID: []string{aVideo, "vi.test/" + aVideo}}, []string{"videoId pattern"}},
		"thumbnail of a channel": {Related{ThumbnailVideoID: aChannel}, []string{"thumbnailVideoId pattern"}},
		"channel by name":        {Related{RelatedChannelID: []string{"@name"}}, []string{"relatedChannelId pattern"}},
		"blank title":            {Related{Title: []string{" "}}, []string{"title pattern"}},
		"filter":                 {Related{Title: []string{"a"}, By: "near", Filters: Filters{Type: "film"}}, []string{"by enum", "type enum"}},
	} {
		if diff := cmp.Diff(tt.want, codes(tt.r.Check())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParamsAreThoseOfTheRequestLessThePage(t *testing.T) {
	s := full()
	r, err := s.Request(80, 40)
	if err != nil {
		t.Fatal(err)
	}
	want := maps.Clone(r.Params)
	want.Del("from")
	want.Del("size")
	if diff := cmp.Diff(want, Params(s.Fields())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(url.Values{}, Params(new(Related).Fields())); diff != "" {
		t.Errorf("of nothing (-want +got):\n%s", diff)
	}
}

func TestStoredParametersMakeTheSameRequest(t *testing.T) {
	for _, ask := range []func() (*Request, error){
		func() (*Request, error) { return full().Request(80, 40) },
		func() (*Request, error) { return (&Related{Title: []string{"ü", "a"}}).Request(3, 40) },
		func() (*Request, error) { return (&FindChannels{Query: []string{"b", "a"}}).Request(0, 40) },
		func() (*Request, error) {
			return (&FindRelatedChannels{RelatedChannelID: []string{aChannel}}).Request(1, 9)
		},
		func() (*Request, error) { return (&TrendingFormats{Params: url.Values{"x": {"2", "1"}}}).Request() },
	} {
		first, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		stored, err := url.ParseQuery(first.Params.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, PageRequest(first.Op, stored)); diff != "" {
			t.Errorf("%s (-first +again):\n%s", first.Op, diff)
		}
	}
}

func TestTrendingFormatsRefuseWhatCannotBeAParameter(t *testing.T) {
	f := &TrendingFormats{Params: url.Values{" ": {"a"}, "b": {"\xff"}, "c": {"", "d"}, "\xff": {"e"}}}
	_, err := f.Request()
	if diff := cmp.Diff([]string{"pattern", "b pattern", "\xff pattern"}, codes(f.Check())); diff != "" || kindOf(err) != Invalid {
		t.Errorf("error is %v (-want +got):\n%s", err, diff)
	}
}
