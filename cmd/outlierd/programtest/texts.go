package programtest

import (
	"fmt"
	"strings"
	"testing"
)

// DuckDBAlone lets a job file have no Parquet files, which a test that does not look at them need not wait for.
const DuckDBAlone = "sinks: [{duckdb: outliers.duckdb}]\n"

// Searches returns a job file with [DuckDBAlone] and three searches of so many pages. They enrich the top hits, or with 0
// all. The address and the key of the service come from OUTLIERD_URL and OUTLIERD_KEY.
func Searches(pages, top int) string {
	var b strings.Builder
	b.WriteString("version: 1\n" +
		"service: {url: \"${OUTLIERD_URL}\", key: \"${OUTLIERD_KEY}\", limit: 1000000/min}\n" +
		"budget: {per_month: 1000}\n" +
		DuckDBAlone +
		"jobs:\n")
	limit := ""
	if top > 0 {
		limit = fmt.Sprintf("top: %d", top)
	}
	for i, query := range []string{"home espresso", "moka pot", "minecraft"} {
		fmt.Fprintf(&b, "  search-%d:\n    search: {query: [%s], sort: z_score desc, pages: %d}\n", i, query, pages)
		b.WriteString("    enrich:\n      sort: z_score desc\n")
		for _, op := range []string{"channel_videos", "channel_shorts", "details", "comments", "transcript"} {
			fmt.Fprintf(&b, "      %s: {%s}\n", op, limit)
		}
	}
	return b.String()
}

// Contains fails the test for each part that is not in a text.
func Contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}
