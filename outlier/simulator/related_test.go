package simulator

import (
	"net/url"
	"slices"
	"testing"
)

// seedHits are hits of two niches that may serve as seeds.
func seedHits(t *testing.T, x *index) (a, b *hit) {
	t.Helper()
	for _, h := range x.hits {
		if a == nil {
			a = h
		}
		if h.channel.field != a.channel.field {
			return a, h
		}
	}
	t.Fatal("the library has one niche")
	return nil, nil
}

func TestRelatedFindsTheTopicOfItsSeedFirst(t *testing.T) {
	l := openLibrary(1)
	x := l.index(Epoch)
	a, _ := seedHits(t, x)
	topic := a.channel.niche.topics[a.topic].names[0]
	for _, p := range []url.Values{{"videoId": {a.id()}}, {"title": {"My honest review of " + topic}}} {
		found := x.related(p, l)
		if len(found) < 100 || len(found) > nearest {
			t.Errorf("%v finds %d", p, len(found))
		}
		for i, h := range found {
			if h.channel.field != a.channel.field || i < 20 && h.topic != a.topic {
				t.Errorf("%v finds, at place %d, %q of niche %s", p, i, h.title, h.channel.niche.name)
				break
			}
		}
	}
}

func TestRelatedChannelsLeadToTheirTopics(t *testing.T) {
	l := openLibrary(1)
	x := l.index(Epoch)
	a, _ := seedHits(t, x)
	found := x.related(url.Values{"relatedChannelId": {a.channel.id}}, l)
	for i, h := range found {
		if h.channel.field != a.channel.field || i < 20 && !slices.Contains(a.channel.topics, h.topic) {
			t.Fatalf("finds, at place %d, %q of niche %s", i, h.title, h.channel.niche.name)
		}
	}
	if len(found) == 0 {
		t.Error("finds nothing")
	}
}

func TestRelatedThumbnailsAreOfAStyleNotOfATopic(t *testing.T) {
	l := openLibrary(1)
	x := l.index(Epoch)
	a, _ := seedHits(t, x)
	fields := map[int]bool{}
	for _, h := range x.related(url.Values{"thumbnailVideoId": {a.id()}}, l) {
		fields[h.channel.field] = true
		if h.channel.look() != a.channel.look() {
			t.Fatalf("%s looks otherwise", h.id())
		}
	}
	if len(fields) < 2 {
		t.Errorf("finds niches %v", fields)
	}
}

func TestRelatedNeverFindsItsSeeds(t *testing.T) {
	l := openLibrary(1)
	x := l.index(Epoch)
	a, b := seedHits(t, x)
	for _, by := range []string{"semantic", "lexical"} {
		p := url.Values{"by": {by}, "videoId": {a.id()}, "thumbnailVideoId": {b.id()}, "relatedChannelId": {x.hits[len(x.hits)-1].channel.id}}
		found := x.related(p, l)
		if len(found) == 0 {
			t.Errorf("%s: finds nothing", by)
		}
		for _, h := range found {
			if h.id() == a.id() || h.id() == b.id() || h.channel.id == p.Get("relatedChannelId") {
				t.Errorf("%s: finds its seed %s of %s", by, h.id(), h.channel.id)
			}
		}
	}
}

func TestSeveralSeedsFindTheUnion(t *testing.T) {
	l := openLibrary(1)
	x := l.index(Epoch)
	a, b := seedHits(t, x)
	found := map[int]bool{}
	for _, h := range x.related(url.Values{"videoId": {a.id(), b.id()}}, l) {
		found[h.channel.field] = true
	}
	if len(found) != 2 || !found[a.channel.field] || !found[b.channel.field] {
		t.Errorf("finds niches %v, want those of both seeds", found)
	}
}

func TestSeedsThatNobodyKnowsResembleNothing(t *testing.T) {
	l := openLibrary(1)
	for name, id := range map[string]string{"videoId": "dQw4w9WgXcQ", "thumbnailVideoId": "dQw4w9WgXcQ", "relatedChannelId": "UCaaaaaaaaaaaaaaaaaaaaaa"} {
		if found := l.index(Epoch).related(url.Values{name: {id}}, l); len(found) != 0 {
			t.Errorf("%s: finds %d", name, len(found))
		}
	}
}

func TestRelatedWithoutSeedsFindsUnrelatedHitsAndCosts(t *testing.T) {
	s := unhurried(Options{Seed: 1})
	all, _ := ask[searchAnswer](t, s.Transport(), "/search/outliers/related?size=40")
	fields := map[string]bool{}
	for _, h := range all.Hits {
		fields[h.Snippet.ChannelID] = true
	}
	if *all.Pagination.Total < 1000 || len(fields) < 30 {
		t.Errorf("finds %d, of %d channels on the first page", *all.Pagination.Total, len(fields))
	}
	misspelt, _ := ask[searchAnswer](t, s.Transport(), "/search/outliers/related?size=40&video=x&zScoreFrom=3")
	if got := s.Books(); len(misspelt.Hits) == 0 || got.Total.Charged != 4 || got.UnknownParams["video"] != 1 {
		t.Errorf("%d hits, books %+v", len(misspelt.Hits), got.Total)
	}
}

func TestRelatedObeysFilters(t *testing.T) {
	l := openLibrary(1)
	x := l.index(Epoch)
	a, _ := seedHits(t, x)
	p := url.Values{"videoId": {a.id()}, "language": {"en"}, "zScoreFrom": {"2"}}
	found := x.related(p, l)
	all := x.related(url.Values{"videoId": {a.id()}}, l)
	want := slices.DeleteFunc(slices.Clone(all), func(h *hit) bool {
		return languages[h.channel.language] != "en" || h.gaps.unscored || h.z < 2
	})
	if len(want) == 0 || !slices.Equal(found, want) {
		t.Errorf("finds %d, want %d of %d", len(found), len(want), len(all))
	}
}
