package simulator

import (
	"testing"
)

func TestRelatedWithoutReferenceFindsAnyHitsAndCosts(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	all, _ := ask[searchAnswer](t, s.Transport(), "/search/outliers/related?size=40")
	channels := map[string]bool{}
	for _, h := range all.Hits {
		channels[h.Snippet.ChannelID] = true
	}
	if *all.Pagination.Total < 1000 || len(channels) < 30 {
		t.Errorf("found %d hits, of %d channels on the first page; want at least 1000 and 30",
			*all.Pagination.Total, len(channels))
	}
	misspelt, _ := ask[searchAnswer](t, s.Transport(), "/search/outliers/related?size=40&video=x&zScoreFrom=3")
	if got := s.Books(); len(misspelt.Hits) == 0 || got.Total.Charged != 4 || got.UnknownParams["video"] != 1 {
		t.Errorf("with a misspelt parameter: %d hits, %d credits, unknown parameters %v; want hits, 4 credits, and it",
			len(misspelt.Hits), got.Total.Charged, got.UnknownParams)
	}
}
