package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/outlier/simulator"
)

// TestFinderFindsWhatTheTablesHave asks for outliers in many ways and holds each answer against a
// question of its own.
func TestFinderFindsWhatTheTablesHave(t *testing.T) {
	t.Parallel() // it runs processes of its own
	w := newWorld(t, simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000})
	w.write(searches(3, 1))
	w.mustRun("run", "--all", "--yes")
	var channel, handle, language string
	w.query(`select channel_id, ltrim(channel_handle, '@'), "language" from outliers where channel_handle is not null order by video_id limit 1`, func(row []any) {
		channel, handle, language = row[0].(string), row[1].(string), row[2].(string)
	})
	o := &options{zone: time.UTC}
	find := o.finder(w.published())
	for name, c := range map[string]struct {
		filter page.Filter
		where  string
	}{
		"all":       {page.Filter{}, "true"},
		"query":     {page.Filter{Query: "moka pot"}, "video_id in (select video_id from outliers_history where list_contains(queries, 'moka pot'))"},
		"job":       {page.Filter{Job: "search-2"}, "video_id in (select video_id from outliers_history where _job = 'search-2')"},
		"channel":   {page.Filter{Channel: channel}, "channel_id = '" + channel + "'"},
		"handle":    {page.Filter{Channel: "@" + handle}, "ltrim(channel_handle, '@') = '" + handle + "'"},
		"type":      {page.Filter{Kind: "short"}, "kind = 'short'"},
		"language":  {page.Filter{Language: language}, "language = '" + language + "'"},
		"ratio":     {page.Filter{Ratio: 3.5}, "average_views_ratio >= 3.5"},
		"days":      {page.Filter{Days: 60}, "published_at >= now() - interval 60 days"},
		"several":   {page.Filter{Kind: "video", Ratio: 2, Query: "minecraft"}, "kind = 'video' and average_views_ratio >= 2 and video_id in (select video_id from outliers_history where list_contains(queries, 'minecraft'))"},
		"quotation": {page.Filter{Query: "' or true --"}, "false"},
	} {
		for order, column := range foundOrders {
			if c.filter.Order = order; name != "all" && order != "found" {
				continue
			}
			var want, got []string
			w.query(fmt.Sprintf("select coalesce(title, video_id) from outliers where %s order by %s desc nulls last, video_id", c.where, column), func(row []any) {
				want = append(want, row[0].(string))
			})
			if len(want) == 0 && name != "quotation" {
				t.Fatalf("%s: there is nothing to be found", name)
			}
			for c.filter.Page = 1; ; c.filter.Page++ {
				found, err := find(context.Background(), c.filter)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if found.Total != int64(len(want)) {
					t.Fatalf("%s, page %d: %d in all, want %d", name, c.filter.Page, found.Total, len(want))
				}
				for _, f := range found.Outliers {
					got = append(got, f.Title)
				}
				if len(found.Outliers) == 0 {
					break
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s by %s: %q, want %q", name, order, got, want)
			}
		}
	}
}
