package command

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"outlierd/outlier"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

func relatedCommand(g *globals) *cobra.Command {
	var by []string
	var limit int
	related := wishes{}
	c := hitsCommand(g, &cobra.Command{
		Use:   "related [VIDEO…]",
		Short: "Find hits similar to videos or channels; 2 credits a page",
		Long: `Find hits similar to videos (by id or address), titles, a thumbnail or channels, and print
them in the service's order, the most similar first, with their rank. At least one of them is
required. --by channel prints a row for each channel of the hits. An id that begins with -
comes after --, as in: outlierd related -- -abcdefghij`,
		Example: `  outlierd related dQw4w9WgXcQ --where published_at="last 90d" --limit 10
  outlierd related --title "the best moka pot" --pages 2 --by channel`,
	}, job.VerbRelated, related, func(videos []string) (shower, error) {
		if limit < 0 {
			return nil, fmt.Errorf("--limit must be 0 or more, got %d", limit)
		}
		if len(videos) > 0 {
			related["video_id"] = videos
		}
		if !slices.ContainsFunc(relatedSeeds, func(key string) bool { return related[key] != nil }) {
			return nil, errors.New("nothing to relate to: name videos, or pass --title, --thumbnail or --channel")
		}
		show := listRanked(g.out, ofOutliers, limit)
		for _, way := range by {
			if way == "channel" {
				show = similarChannels(limit)
			} else {
				related["by"] = way
			}
		}
		return show, nil
	})
	related.addFlags(c, outlier.OpRelated, "title", "channel", "thumbnail")
	c.Flags().StringSliceVar(&by, "by", nil, "semantic (meaning of words) or lexical (exact words); channel: print channels")
	completeFlag(c, "by", "semantic", "lexical", "channel")
	c.Flags().IntVar(&limit, "limit", 0, "print at most this many rows; 0 for all")
	return c
}

// relatedSeeds are the keys of what is related to.
var relatedSeeds = []string{"video_id", "title", "related_channel_id", "thumbnail_video_id"}

// listRanked returns the query for the hits of a run in the service's order, with their ranks.
func listRanked(out *printer, v view, limit int) shower {
	return func(s showing) (string, error) {
		from, err := rankHits(s, v)
		return fmt.Sprintf("select place as rank, %s from %s order by place%s", out.columns(v.few), from, formatLimit(limit)), err
	}
}

// similarChannels returns the query for the channels of the hits of a run, with the rank of the first hit of each.
func similarChannels(limit int) shower {
	return func(s showing) (string, error) {
		from, err := rankHits(s, ofOutliers)
		return `select min(place) as rank, any_value(t.channel_title) as channel_title, t.channel_id,
	count(*) as hits, max(t.z_score) as best_z_score, max(t.channel_subscribers) as subscribers
from ` + from + " group by t.channel_id order by 1, t.channel_id" + formatLimit(limit), err
	}
}

// rankHits returns the rows of the hits of a run with their ranks; see [query.Placed].
func rankHits(s showing, v view) (string, error) {
	var ids []string
	var places []int
	hits, err := s.program.Engine.Store.Hits.Best(s.row.ID, runs.Choice{All: true, Rank: true})
	for _, hit := range hits {
		ids, places = append(ids, hit.VideoID), append(places, int(*hit.Value))
	}
	return query.Placed(v.table, v.key, ids, places), err
}

// formatLimit returns the end of a query for at most so many rows, or all if it is 0.
func formatLimit(rows int) string {
	if rows == 0 {
		return ""
	}
	return fmt.Sprintf(" limit %d", rows)
}
