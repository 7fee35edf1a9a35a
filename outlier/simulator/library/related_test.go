package library

import (
	"net/url"
	"slices"
	"testing"
)

// seedHits are hits of two niches that may serve as seeds.
func seedHits(t *testing.T, x *Index) (a, b *Hit) {
	t.Helper()
	for _, h := range x.Hits() {
		if a == nil {
			a = h
		}
		if h.Channel.Niche != a.Channel.Niche {
			return a, h
		}
	}
	t.Fatal("all outliers of the library have the same niche")
	return nil, nil
}

func TestRelatedFindsSeedsTopicFirst(t *testing.T) {
	l := Open(1)
	x := l.Index(epoch)
	a, _ := seedHits(t, x)
	topic := a.Topic().Name()
	for _, p := range []url.Values{{"videoId": {a.ID()}}, {"title": {"My honest review of " + topic}}} {
		found := x.Find(p, l)
		if len(found) < 100 || len(found) > nearest {
			t.Errorf("%v finds %d, want 100 to %d", p, len(found), nearest)
		}
		for i, h := range found {
			if h.Channel.Niche != a.Channel.Niche || i < 20 && h.Topic() != a.Topic() {
				t.Errorf("%v: result %d is %q of niche %s, want niche %s, and the topic %s in the first 20",
					p, i, h.Title, h.Channel.Niche.Name, a.Channel.Niche.Name, topic)
				break
			}
		}
	}
}

func TestRelatedFindsChannelsTopicsFirst(t *testing.T) {
	l := Open(1)
	x := l.Index(epoch)
	a, _ := seedHits(t, x)
	found := x.Find(url.Values{"relatedChannelId": {a.Channel.ID}}, l)
	for i, h := range found {
		if h.Channel.Niche != a.Channel.Niche || i < 20 && !slices.Contains(a.Channel.topics, h.Topic()) {
			t.Fatalf("result %d is %q of niche %s, want niche %s, and a topic of channel %s in the first 20",
				i, h.Title, h.Channel.Niche.Name, a.Channel.Niche.Name, a.Channel.ID)
		}
	}
	if len(found) == 0 {
		t.Errorf("nothing is related to channel %s", a.Channel.ID)
	}
}

func TestRelatedNeverFindsItsSeeds(t *testing.T) {
	l := Open(1)
	x := l.Index(epoch)
	a, b := seedHits(t, x)
	for _, by := range []string{"semantic", "lexical"} {
		p := url.Values{
			"by": {by}, "videoId": {a.ID()}, "thumbnailVideoId": {b.ID()},
			"relatedChannelId": {x.Hits()[len(x.Hits())-1].Channel.ID},
		}
		found := x.Find(p, l)
		if len(found) == 0 {
			t.Errorf("%s: nothing is related", by)
		}
		for _, h := range found {
			if h.ID() == a.ID() || h.ID() == b.ID() || h.Channel.ID == p.Get("relatedChannelId") {
				t.Errorf("%s: %s of channel %s is found, which is a seed", by, h.ID(), h.Channel.ID)
			}
		}
	}
}

func TestSeveralSeedsFindTheUnion(t *testing.T) {
	l := Open(1)
	x := l.Index(epoch)
	a, b := seedHits(t, x)
	found := map[*niche]bool{}
	for _, h := range x.Find(url.Values{"videoId": {a.ID(), b.ID()}}, l) {
		found[h.Channel.Niche] = true
	}
	if len(found) != 2 || !found[a.Channel.Niche] || !found[b.Channel.Niche] {
		t.Errorf("related hits are of the niches %v, want those of both seeds", found)
	}
}

func TestUnknownSeedsFindNothing(t *testing.T) {
	l := Open(1)
	for name, id := range map[string]string{
		"videoId": "dQw4w9WgXcQ", "thumbnailVideoId": "dQw4w9WgXcQ", "relatedChannelId": "UCaaaaaaaaaaaaaaaaaaaaaa",
	} {
		if found := l.Index(epoch).Find(url.Values{name: {id}}, l); len(found) != 0 {
			t.Errorf("%s=%s, which is unknown, finds %d, want 0", name, id, len(found))
		}
	}
}

func TestRelatedAppliesFilters(t *testing.T) {
	l := Open(1)
	x := l.Index(epoch)
	a, _ := seedHits(t, x)
	p := url.Values{"videoId": {a.ID()}, "language": {"en"}, "zScoreFrom": {"2"}}
	found := x.Find(p, l)
	all := x.Find(url.Values{"videoId": {a.ID()}}, l)
	want := slices.DeleteFunc(slices.Clone(all), func(h *Hit) bool {
		return languages[h.Channel.language] != "en" || h.Gaps.unscored || h.z < 2
	})
	if len(want) == 0 || !slices.Equal(found, want) {
		t.Errorf("%v finds %d, want the %d of %d that pass the filters", p, len(found), len(want), len(all))
	}
}
