package library

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSponsoredFilter(t *testing.T) {
	x := Open(1).Index(epoch)
	yes := len(x.Find(url.Values{"channelMonetizationSponsored": {"true"}}, Open(1)))
	no := len(x.Find(url.Values{"channelMonetizationSponsored": {"false"}}, Open(1)))
	if yes == 0 || no == 0 || yes+no >= len(x.Hits()) {
		t.Errorf("%d hits are sponsored and %d are not, of %d; want some of both, and some that are unknown",
			yes, no, len(x.Hits()))
	}
}

func TestTitlePatternMatchesTheWholeTitle(t *testing.T) {
	tests := []struct {
		pattern, title string
		want           bool
	}{
		{"i tried * for * days", "i tried moka pot for 30 days", true},
		{"i tried * for * days", "i tried moka pot for 30 days 🔥", false},
		{"*moka*", "the moka pot", true},
		{"moka*", "the moka pot", false},
		{"aa*aa", "aaa", false},
		{"*ab*ab*", "abab", true},
		{"*ab*ab*", "aba", false},
	}
	for _, tt := range tests {
		if got := matchesPattern(tt.pattern, tt.title); got != tt.want {
			t.Errorf("matches(%q, %q) = %v, want %v", tt.pattern, tt.title, got, tt.want)
		}
	}
	for _, h := range Open(1).Index(epoch).Find(url.Values{"titlePattern": {"I TRIED * days"}}, Open(1)) {
		if !strings.HasPrefix(h.lower, "i tried ") || !strings.HasSuffix(h.lower, " days") {
			t.Errorf("titlePattern \"I TRIED * days\" finds %q", h.Title)
		}
	}
}

func TestSemanticQueryFindsItsTopicFirst(t *testing.T) {
	l := Open(1)
	for _, tt := range []struct{ query, niche, topic string }{
		{"moka pot", "coffee", "moka pot"}, {"Mechanical Keyboards", "tech", "mechanical keyboard"},
		{"best sourdough starter", "cooking", "sourdough"}, {"マキネッタ", "coffee", "moka pot"}, {"コーヒーミル", "coffee", "coffee grinder"},
	} {
		for i, h := range l.Index(epoch).Find(url.Values{"query": {tt.query}}, Open(1)) {
			if h.Channel.Niche.Name != tt.niche || i < 20 && h.Topic().Name() != tt.topic {
				t.Errorf("%q: result %d is %q about %s, want niche %s, and the topic %s in the first 20",
					tt.query, i, h.Title, h.Topic().Name(), tt.niche, tt.topic)
				break
			}
		}
	}
}

func TestRepeatedQueryFindsSameHits(t *testing.T) {
	x := Open(1).Index(epoch)
	rapid.Check(t, func(t *rapid.T) {
		p := url.Values{"query": {rapid.String().Draw(t, "query")}}
		found := x.Find(p, Open(1))
		if len(found) < 100 || len(found) > nearest || !slices.Equal(found, x.Find(p, Open(1))) {
			t.Fatalf("finds %d, want 100 to %d, and the same when repeated", len(found), nearest)
		}
	})
}

// A search skips only niches without a match, and finds what a search of all niches finds.
func TestOnlyUnmatchedNichesAreSkipped(t *testing.T) {
	x := Open(1).Index(epoch)
	for _, queries := range [][]string{
		{"moka pot"}, {"coffee"}, {"chess", "yoga"}, {"ラーメン"}, {"zzz unheard of"}, {"zzz unheard of", "chess"}, nil,
	} {
		p := url.Values{"query": queries}
		w := Open(1).readWishes(p, epoch)
		everywhere := search(x.Hits(), p, &hitTerms, w)
		if found := search(x.hitsIn(w.looksIn), p, &hitTerms, w); !slices.Equal(found, everywhere) {
			t.Errorf("%q finds %d, of %d that match", queries, len(found), len(everywhere))
		}
		if wants := len(queries) == 1 && !strings.HasPrefix(queries[0], "zzz"); wants && w.looksIn(0) && w.looksIn(1) {
			t.Errorf("%q looks in two niches, want one", queries)
		}
	}
}

func TestSeveralQueriesFindTheUnion(t *testing.T) {
	x := Open(1).Index(epoch)
	for _, by := range []string{"semantic", "lexical"} {
		a := ids(x.Find(url.Values{"by": {by}, "query": {"sourdough"}}, Open(1)))
		b := ids(x.Find(url.Values{"by": {by}, "query": {"Minecraft"}}, Open(1)))
		both := ids(x.Find(url.Values{"by": {by}, "query": {"sourdough", "Minecraft"}}, Open(1)))
		want := append(slices.Clone(a), b...)
		slices.Sort(want)
		slices.Sort(both)
		if want = slices.Compact(want); !slices.Equal(both, want) {
			t.Errorf("%s: both queries find %d, want the union of %d", by, len(both), len(want))
		}
	}
}

func ids(found []*Hit) []string {
	var ids []string
	for _, h := range found {
		ids = append(ids, h.ID())
	}
	return ids
}

func TestLexicalQueryFindsExactWords(t *testing.T) {
	x := Open(1).Index(epoch)
	for query, want := range map[string]bool{
		"mistakes": true, "mistake": false, "espresso mistakes": true, "ラーメン": true, "zzz unheard of": false,
	} {
		found := x.Find(url.Values{"by": {"lexical"}, "query": {query}}, Open(1))
		if (len(found) > 0) != want {
			t.Errorf("%q finds %d, want some: %v", query, len(found), want)
		}
		for _, h := range found {
			for w := range strings.FieldsSeq(strings.ToLower(query)) {
				if !strings.Contains(strings.ToLower(h.Title+" "+h.Channel.title), w) {
					t.Errorf("%q finds %q of channel %q, which do not contain %q", query, h.Title, h.Channel.title, w)
				}
			}
		}
	}
}

// Hits sort in both orders, with nulls last.
func TestHitsSortWithNullsLast(t *testing.T) {
	x := Open(1).Index(epoch)
	for name, number := range hitTerms.orders {
		value := hitTerms.numbers[number]
		for _, order := range []string{"asc", "desc", ""} {
			p := url.Values{"query": {"coffee"}, "sortBy": {name}}
			if order != "" {
				p.Set("sortOrder", order)
			}
			found := x.Find(p, Open(1))
			for i := 1; i < len(found); i++ {
				a, oka := value(found[i-1])
				b, okb := value(found[i])
				if !oka && okb || oka && okb && (order == "asc" && a > b || order != "asc" && a < b) {
					t.Errorf("sorted by %s %s: %g (known: %v) is before %g (known: %v)", name, order, a, oka, b, okb)
					break
				}
			}
		}
	}
}

func TestSeedShufflesTheSameHits(t *testing.T) {
	x := Open(1).Index(epoch)
	plain := ids(x.Find(url.Values{"query": {"yoga"}}, Open(1)))
	one := ids(x.Find(url.Values{"query": {"yoga"}, "seed": {"1"}}, Open(1)))
	again := ids(x.Find(url.Values{"query": {"yoga"}, "seed": {"1"}}, Open(1)))
	two := ids(x.Find(url.Values{"query": {"yoga"}, "seed": {"2"}}, Open(1)))
	if !slices.Equal(one, again) || slices.Equal(one, two) || slices.Equal(one, plain) {
		t.Error("want one order per seed, which differs from other seeds and from a search without a seed")
	}
	slices.Sort(plain)
	slices.Sort(one)
	if !slices.Equal(plain, one) {
		t.Error("a search with a seed finds other hits than one without")
	}
}

// The library has hits at the time at which a synctest bubble starts.
func TestLibraryHasHitsInBubbles(t *testing.T) {
	bubble := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
	x := Open(1).Index(bubble)
	if len(x.Hits()) < 1000 {
		t.Errorf("%d hits, want at least 1,000", len(x.Hits()))
	}
	for _, h := range x.Hits() {
		if h.Published.After(bubble) || h.Published.Before(Beginning) {
			t.Fatalf("%s was published at %s, want a time from %s to %s", h.ID(), h.Published, Beginning, bubble)
		}
	}
}
