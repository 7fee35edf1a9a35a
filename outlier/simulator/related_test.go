package simulator

import (
	"testing"
)

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
