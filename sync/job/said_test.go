package job

import (
	"net/url"
	"testing"
)

func TestParametersInTheWordsOfTheFile(t *testing.T) {
	for _, test := range []struct{ params, filters, sort string }{
		{"", "", ""},
		{"query=tea&sortBy=zScore&sortOrder=desc&zScoreFrom=2", "z_score 2..", "z_score desc"},
		{"query=tea&viewCountTo=5000&language=en&language=de&publishedAtFrom=2026-11-01T00%3A00%3A00Z", "language en, de · view_count ..5000", ""},
		{"zScoreFrom=1&zScoreTo=3&isFaceless=true", "is_faceless true · z_score 1..3", ""},
	} {
		params, err := url.ParseQuery(test.params)
		if err != nil {
			t.Fatal(err)
		}
		if filters, sort := Said(params); filters != test.filters || sort != test.sort {
			t.Errorf("%s: said %q, sort %q, want %q, %q", test.params, filters, sort, test.filters, test.sort)
		}
	}
}
