package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/outlier"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
)

func searchCommand(g *globals) *cobra.Command {
	search := wishes{}
	c := hitsCommand(g, &cobra.Command{
		Use:   "search QUERY…",
		Short: "Search once and print the hits; 2 credits a page",
		Long: `Search once, without an entry in the job file, and print the hits, best first. Budget,
ledger, journal and tables are those of the job file. Several queries are one request. A
page that was bought within the last six hours comes from the journal and costs nothing.`,
		Example: `  outlierd search "moka pot" --where z_score=2.. --sort "z_score desc"
  outlierd search "moka pot" "latte art" --pages 2 --enrich transcript --top 5 -o json`,
	}, job.VerbSearch, search, func(queries []string) (shower, error) {
		search["query"] = queries
		return showHits(g.out, ofOutliers), nil
	})
	search.addFlags(c, outlier.OpSearch, "by", "seed", "sort")
	return c
}

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

func findChannelsCommand(g *globals) *cobra.Command {
	find := wishes{}
	c := hitsCommand(g, &cobra.Command{
		Use:   "find-channels [QUERY…]",
		Short: "Search channels once and print them; 5 credits a page",
		Long: `Search channels once, or with --related-to find channels similar to others, the most similar
first, and print them. Several queries are one request over all of them.`,
		Example: `  outlierd find-channels "espresso" --sort "recency desc" --where subscribers=..50000
  outlierd find-channels --related-to UC1234567890abcdefghijkl`,
	}, job.VerbFindChannels, find, func(queries []string) (shower, error) {
		related := find["related_to"] != nil
		switch {
		case len(queries) > 0 && related:
			return nil, errors.New("give a query or --related-to, not both")
		case related:
			return listRanked(g.out, ofFound, 0), nil
		case len(queries) == 0:
			return nil, errors.New("nothing to search for: give a query, or --related-to a channel")
		}
		find["query"] = queries
		return showHits(g.out, ofFound), nil
	})
	find.addFlags(c, outlier.OpFindChannels, "related-to", "seed", "sort")
	return c
}

func trendingFormatsCommand(g *globals) *cobra.Command {
	params := wishes{}
	var again bool
	c := &cobra.Command{
		Use:   "trending-formats",
		Short: "Fetch and print the trending formats; 1 credit",
		Long: `Fetch the trending formats once and print them, one row per element of the answer. The
service documents no parameters: each --param is sent as written. An answer that was bought
within the last six hours comes from the journal and costs nothing.`,
		Example: `  outlierd trending-formats
  outlierd trending-formats --param language=en -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			verb := job.VerbTrendingFormats
			return runOnce(c.Context(), g, request{
				verb: verb, job: wishes{string(verb): params}, again: again, show: showFormats(g.out),
			})
		},
	}
	c.Flags().Func("param", "a parameter to send, as name=value; repeatable", func(pair string) error {
		name, text, ok := strings.Cut(pair, "=")
		switch {
		case !ok || strings.TrimSpace(name) == "":
			return errors.New("must be name=value, as in language=en")
		case strings.HasPrefix(name, "x-"): // the job file ignores such keys
			return errors.New("a name cannot begin with x-")
		}
		return addText(params, name, text)
	})
	addAgain(c, &again)
	g.spending.addFlags(c)
	return c
}

// showFormats returns the query for the answer of a run, bought or from the journal: the newest one to its
// request.
func showFormats(out *printer) shower {
	return func(s showing) (string, error) {
		steps, err := s.program.Engine.Store.Steps.OfRun(s.row.ID)
		if err != nil {
			return "", err
		}
		response := int64(0) // the id of no answer
		for _, step := range steps {
			answer, err := s.program.Engine.Store.Journal.Answered(step.Query.Op(), step.Query.Encode(),
				s.row.Started.Add(-s.spec.ReuseFor), time.Now().Add(ledger.Skew))
			if err != nil {
				return "", err
			}
			if answer != nil {
				response = answer.ID
			}
		}
		return fmt.Sprintf("select %s from trending_formats as t where t._response_id = %d order by t.position",
			out.columns("t.position, t.value"), response), nil
	}
}
