package job

import (
	"fmt"
	"strings"
	"testing"
)

// TestScheduleShorterThanRefreshAfterWarns where both are written: by default a job requests its entities
// each time it is due.
func TestScheduleShorterThanRefreshAfterWarns(t *testing.T) {
	for _, c := range []struct{ due, does, between string }{
		{`every: 8h`, "channels: {id: UC1234567890abcdefghijkl}", ""},
		{`every: 8h`, "channels: {id: UC1234567890abcdefghijkl, refresh_after: 7h}", ""},
		{`every: 8h`, "channels: {id: UC1234567890abcdefghijkl, refresh_after: 8h}", ""},
		{`every: 8h`, "channels: {id: UC1234567890abcdefghijkl, refresh_after: 7d}", "8h"},
		{`schedule: "30 6 * * mon,thu"`, "videos: {id: dQw4w9WgXcQ, refresh_after: 2d}", ""},
		{`schedule: "30 6 * * mon,thu"`, "videos: {id: dQw4w9WgXcQ, refresh_after: 3d}", ""},
		{`schedule: "30 6 * * mon,thu"`, "videos: {id: dQw4w9WgXcQ, refresh_after: 4d}", "3d"},
		{`schedule: "@daily"`, "videos: {id: dQw4w9WgXcQ, refresh_after: 23h}", ""},
		{`after: first`, "channels: {id: UC1234567890abcdefghijkl, refresh_after: 2d}", "1d"},
		{`enabled: true`, "channels: {id: UC1234567890abcdefghijkl, refresh_after: 7d}", ""},
		{`every: 8h`, "search: {query: tea}, enrich: {details: {refresh_after: 7d}}", ""},
		{`every: 8h`, "related: {title: tea, refresh_after: 7d}", ""},
	} {
		file := fmt.Sprintf("version: 1\nservice: {url: \"sim://\"}\ntimezone: Europe/Berlin\njobs:\n"+
			"  first: {schedule: \"@daily\", search: {query: tea}}\n  a: {%s, %s}\n", c.due, c.does)
		var said []string
		for _, w := range parse(t, file).Warnings {
			said = append(said, w.Message)
		}
		switch want := "is longer than the " + c.between + " between two runs"; {
		case c.between == "" && said == nil:
		case c.between != "" && len(said) == 1 && strings.Contains(said[0], want):
		default:
			t.Errorf("{%s, %s}: warnings %q, want one that says %q: %t", c.due, c.does, said, want, c.between != "")
		}
	}
}
