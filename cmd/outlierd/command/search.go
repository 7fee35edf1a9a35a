package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
)

func searchCommand(g *globals) *cobra.Command {
	return (&oneOff{
		verb: job.VerbSearch, op: outlier.OpSearch, arg: "query", keys: job.Keys{"pages": {"1"}}, again: againUsage,
		flags: []string{"by", "pages", "seed", "sort", "where"}, enrich: ofVideo, show: showHits(g.out, ofOutliers),
	}).addTo(&cobra.Command{
		Use:   "search QUERY…",
		Short: "Search once and print the hits; 2 credits a page",
		Long: `Search once, without an entry in the job file, and print the hits, best first. Budget,
ledger, journal and tables are those of the job file. Several queries are one request. A
page that was bought within the last six hours comes from the journal and costs nothing.`,
		Example: `  outlierd search "moka pot" --where z_score=2.. --sort "z_score desc"
  outlierd search "moka pot" "latte art" --pages 2 --enrich transcript --top 5 -o json`,
	}, g)
}

func relatedCommand(g *globals) *cobra.Command {
	var by []string
	var limit int
	c := (&oneOff{
		verb: job.VerbRelated, op: outlier.OpRelated, arg: "video_id", again: againUsage,
		keys:  job.Keys{"pages": {"1"}},
		flags: []string{"channel", "pages", "thumbnail", "title", "where"}, enrich: ofVideo,
		check: func(o *oneOff) error {
			for _, way := range by {
				if way != "channel" {
					o.set("by", "--by", way)
				}
			}
			switch {
			case limit < 0:
				return fmt.Errorf("--limit must be 0 or more, got %d", limit)
			case !slices.ContainsFunc(relatedSeeds, func(key string) bool { return o.keys[key] != nil }):
				return errors.New("nothing to relate to: name videos, or pass --title, --thumbnail or --channel")
			}
			return nil
		},
		show: func(_ context.Context, s showing) (string, error) {
			if slices.Contains(by, "channel") {
				return similarChannels(s, limit)
			}
			return listRanked(g.out, s, ofOutliers, limit)
		},
	}).addTo(&cobra.Command{
		Use:   "related [VIDEO…]",
		Short: "Find hits similar to videos or channels; 2 credits a page",
		Long: `Find hits similar to videos (by id or address), titles, a thumbnail or channels, and print
them in the service's order, the most similar first, with their rank. At least one of them is
required. --by channel prints a row for each channel of the hits. An id that begins with -
comes after --, as in: outlierd related -- -abcdefghij`,
		Example: `  outlierd related dQw4w9WgXcQ --where published_at="last 90d" --limit 10
  outlierd related --title "the best moka pot" --pages 2 --by channel`,
	}, g)
	c.Flags().StringSliceVar(&by, "by", nil, "semantic (meaning of words) or lexical (exact words); channel: print channels")
	completeFlag(c, "by", "semantic", "lexical", "channel")
	c.Flags().IntVar(&limit, "limit", 0, "print at most this many rows; 0 for all")
	return c
}

// relatedSeeds are the keys of what is related to.
var relatedSeeds = []string{"video_id", "title", "related_channel_id", "thumbnail_video_id"}

// listRanked returns the query for the hits of a run in the service's order, with their ranks.
func listRanked(out *printer, s showing, v view, limit int) (string, error) {
	from, err := rankHits(s, v)
	return fmt.Sprintf("select place as rank, %s from %s order by place%s", out.columns(v.few), from, formatLimit(limit)), err
}

// similarChannels returns the query for the channels of the hits of a run, with the rank of the first hit of each.
func similarChannels(s showing, limit int) (string, error) {
	from, err := rankHits(s, ofOutliers)
	return `select min(place) as rank, any_value(t.channel_title) as channel_title, t.channel_id,
	count(*) as hits, max(t.z_score) as best_z_score, max(t.channel_subscribers) as subscribers
from ` + from + " group by t.channel_id order by 1, t.channel_id" + formatLimit(limit), err
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
	var isRelated bool
	return (&oneOff{
		verb: job.VerbFindChannels, op: outlier.OpFindChannels, arg: "query", again: againUsage,
		keys:  job.Keys{"pages": {"1"}},
		flags: []string{"pages", "related-to", "seed", "sort", "where"}, enrich: ofChannel,
		check: func(o *oneOff) error {
			isRelated = o.keys["related_to"] != nil
			switch isQueried := o.keys["query"] != nil; {
			case isQueried && isRelated:
				return errors.New("give a query or --related-to, not both")
			case !isQueried && !isRelated:
				return errors.New("nothing to search for: give a query, or --related-to a channel")
			}
			return nil
		},
		show: func(ctx context.Context, s showing) (string, error) {
			if isRelated {
				return listRanked(g.out, s, ofFound, 0)
			}
			return showHits(g.out, ofFound)(ctx, s)
		},
	}).addTo(&cobra.Command{
		Use:   "find-channels [QUERY…]",
		Short: "Search channels once and print them; 5 credits a page",
		Long: `Search channels once, or with --related-to find channels similar to others, the most similar
first, and print them. Several queries are one request over all of them.`,
		Example: `  outlierd find-channels "espresso" --sort "recency desc" --where subscribers=..50000
  outlierd find-channels --related-to UC1234567890abcdefghijkl`,
	}, g)
}

func trendingFormatsCommand(g *globals) *cobra.Command {
	return (&oneOff{
		verb: job.VerbTrendingFormats, keys: job.Keys{}, flags: []string{"param"}, again: againUsage,
		show: showFormats(g.out),
	}).addTo(&cobra.Command{
		Use:   "trending-formats",
		Short: "Fetch and print the trending formats; 1 credit",
		Long: `Fetch the trending formats once and print them, one row per element of the answer. The
service documents no parameters: each --param is sent as written. An answer that was bought
within the last six hours comes from the journal and costs nothing.`,
		Example: `  outlierd trending-formats
  outlierd trending-formats --param language=en -o json`,
	}, g)
}

// showFormats returns the query for the answer of a run, bought or from the journal: the newest one to its
// request.
func showFormats(out *printer) shower {
	return func(_ context.Context, s showing) (string, error) {
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

func channelsCommand(g *globals) *cobra.Command {
	return group("channels", "Find the ids of channels for a file of them",
		"The service knows channels only by id.", channelsResolveCommand(g))
}

func channelsResolveCommand(g *globals) *cobra.Command {
	var column string
	c := &cobra.Command{
		Use: "resolve FILE", Short: "Replace handles and videos in a file by channel ids",
		Long: `Replace the handles, videos and addresses in a file of channels by channel ids. Ids come
from your tables first, then from the details of videos, which are free, and at last from a
search for each handle, which costs 5 credits. The price is printed first. What stood in a
line becomes a comment. Channels that are not found stay as they are, and the exit code is 3.`,
		Example: `  outlierd channels resolve rivals.txt --dry-run
  outlierd channels resolve rivals.csv --column channel`,
		RunE: func(c *cobra.Command, args []string) error {
			config, err := g.loadForOnce()
			if err != nil {
				return err
			}
			if published(config) == "" {
				return noFile(config)
			}
			list, err := job.ReadChannels(args[0], column)
			if err != nil {
				return usageError{err}
			}
			which := func(r *runner) ([]jobRun, error) {
				if err := printChannelsPrice(c.Context(), g.world.err, r.p, list); err != nil || !g.spending.dryRun {
					return nil, err
				}
				return nil, idle("")
			}
			return spend(c.Context(), g, config, which, func(r *runner, ctx context.Context, _ []jobRun) error {
				return r.resolveChannels(ctx, list)
			})
		},
	}
	c.Flags().StringVar(&column, "column", "", "the column with the channels, if the file is a table")
	g.spending.addFlags(c)
	return c
}

// printChannelsPrice prints what it costs at most to find the ids of the channels in a list.
func printChannelsPrice(ctx context.Context, w io.Writer, p *program, list *job.ChannelList) error {
	known, err := job.IdentifyChannels(list.Names, p.idsOf(ctx))
	if err != nil {
		return err
	}
	unknown, handles := unidentified(known)
	price := p.Engine.Config.Service.Prices.Of(outlier.OpFindChannels, "") * outlier.Credits(len(unknown))
	fmt.Fprintf(w, "%s: %d known, %d to look up as videos for free, %d to search for; at most %s\n",
		term.Count(len(known), "channel"), len(known)-len(unknown), len(unknown)-handles, handles,
		term.Count(price, "credit"))
	return nil
}

// channelsResolved is the output of channels resolve for programs.
type channelsResolved struct {
	Changed int      `json:"changed"` // lines of the list
	Unknown []string `json:"unknown"` // names without an id
}

// resolveChannels finds the ids of the channels in a list and writes them into its file.
func (r *runner) resolveChannels(ctx context.Context, list *job.ChannelList) error {
	known, err := job.IdentifyChannels(list.Names, r.p.idsOf(ctx))
	if err != nil {
		return err
	}
	var failed error
	if unknown, _ := unidentified(known); len(unknown) > 0 {
		failed = r.findChannels(ctx, unknown)
		if known, err = job.IdentifyChannels(list.Names, r.p.idsOf(ctx)); err != nil {
			return errors.Join(failed, err)
		}
	}
	changed, err := list.Write(known) // also what was found before it failed
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	unknown, _ := unidentified(known)
	err = r.g.out.print(channelsResolved{changed, unknown}, "%s replaced by ids\n",
		term.Count(changed, "line"))
	if err != nil || len(unknown) == 0 {
		return err
	}
	fmt.Fprintf(r.g.world.err, "not found: %s\n", term.Plain(strings.Join(unknown, ", ")))
	return statusError{runs.Partial}
}

// unidentified returns the channels without an id, sorted, and how many of them can only be handles.
func unidentified(known map[string]string) (unknown []string, handles int) {
	unknown = []string{}
	for name, id := range known {
		if id != "" {
			continue
		}
		unknown = append(unknown, name)
		if strings.HasPrefix(name, "@") {
			handles++
		}
	}
	slices.Sort(unknown)
	return unknown, handles
}

// idsOf returns the function that runs the SQL of a list over the published tables.
func (p *program) idsOf(ctx context.Context) func(sql, column string) ([]string, error) {
	return func(sql, column string) ([]string, error) { return p.Engine.IDs(ctx, sql, column) }
}
