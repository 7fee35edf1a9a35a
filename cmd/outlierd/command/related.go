package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

func relatedCommand(g *globals) *cobra.Command {
	var pages pageFlags
	var enrich enrichFlags
	var titles, channels, by []string
	var thumbnail string
	var limit int
	c := &cobra.Command{
		Use:   "related [VIDEO…]",
		Short: "Find hits similar to videos or channels; 2 credits a page",
		Long: `Find hits similar to videos (by id or address), titles, a thumbnail or channels, and print
them in the service's order, the most similar first, with their rank. At least one of them is
required. --by channel prints a row for each channel of the hits. An id that begins with -
comes after --, as in: outlierd related -- -abcdefghij`,
		Example: `  outlierd related dQw4w9WgXcQ --where published_at="last 90d" --limit 10
  outlierd related --title "the best moka pot" --pages 2 --by channel`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, videos []string) error {
			if len(videos)+len(titles)+len(channels) == 0 && thumbnail == "" {
				return usageError{errors.New("nothing to relate to: name videos, or pass --title, " +
					"--thumbnail or --channel")}
			}
			if limit < 0 {
				return usageError{fmt.Errorf("--limit must be 0 or more, got %d", limit)}
			}
			related := wishes{}
			related.list("video_id", videos)
			related.list("title", titles)
			related.list("related_channel_id", channels)
			related.set("thumbnail_video_id", thumbnail)
			show := listRanked("outliers", "video_id", g.out.columns(fewOutliers), limit)
			for _, way := range by {
				if way == "channel" {
					show = similarChannels(limit)
				} else {
					related.set("by", way)
				}
			}
			return askOnce(c.Context(), g, job.VerbRelated, related, &pages, &enrich, show)
		},
	}
	g.spending.addFlags(c)
	pages.add(c, "hits", filtersOfVideos, "")
	pages.addAgain(c)
	enrich.add(c, kindsOfVideos)
	flags := c.Flags()
	flags.StringArrayVar(&titles, "title", nil, "a title to relate to; repeatable")
	flags.StringArrayVar(&channels, "channel", nil, "a channel to relate to, by id or address; repeatable")
	flags.StringVar(&thumbnail, "thumbnail", "", "a video with a similar thumbnail, by id or address")
	flags.StringSliceVar(&by, "by", nil, "semantic (meaning of words) or lexical (exact words); channel: print channels")
	flags.IntVar(&limit, "limit", 0, "print at most this many rows; 0 for all")
	return c
}

// listRanked returns the query for the hits of a run in the service's order, with their ranks.
func listRanked(table, key, columns string, limit int) func(showing) (string, error) {
	return func(s showing) (string, error) {
		from, err := rankHits(s, table, key)
		return fmt.Sprintf("select place as rank, %s from %s order by place%s", columns, from, formatLimit(limit)), err
	}
}

// similarChannels returns the query for the channels of the hits of a run, with the rank of the first hit of each.
func similarChannels(limit int) func(showing) (string, error) {
	return func(s showing) (string, error) {
		from, err := rankHits(s, "outliers", "video_id")
		return `select min(place) as rank, any_value(t.channel_title) as channel_title, t.channel_id,
	count(*) as hits, max(t.z_score) as best_z_score, max(t.channel_subscribers) as subscribers
from ` + from + " group by t.channel_id order by 1, t.channel_id" + formatLimit(limit), err
	}
}

// rankHits returns the rows of the hits of a run with their ranks; see [query.Placed].
func rankHits(s showing, table, key string) (string, error) {
	var ids []string
	var places []int
	hits, err := s.program.Engine.Store.Hits.Best(s.row.ID, runs.Choice{All: true, Rank: true})
	for _, hit := range hits {
		ids, places = append(ids, hit.VideoID), append(places, int(*hit.Value))
	}
	return query.Placed(table, key, ids, places), err
}

// formatLimit returns the end of a query for at most so many rows, or all if it is 0.
func formatLimit(rows int) string {
	if rows == 0 {
		return ""
	}
	return fmt.Sprintf(" limit %d", rows)
}
