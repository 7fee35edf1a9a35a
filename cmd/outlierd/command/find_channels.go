package command

import (
	"errors"

	"github.com/spf13/cobra"

	"outlierd/sync/job"
)

func findChannelsCommand(g *globals) *cobra.Command {
	var pages pageFlags
	var enrich enrichFlags
	var related []string
	var seed string
	c := &cobra.Command{
		Use:   "find-channels [QUERY…]",
		Short: "Search channels once and print them; 5 credits a page",
		Long: `Search channels once, or with --related-to find channels similar to others, the most similar
first, and print them. Several queries are one request over all of them.`,
		Example: `  outlierd find-channels "espresso" --sort "recency desc" --where subscribers=..50000
  outlierd find-channels --related-to UC1234567890abcdefghijkl`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, queries []string) error {
			if len(queries)+len(related) == 0 {
				return usageError{errors.New("nothing to search for: give a query, or --related-to a channel")}
			}
			if len(queries) > 0 && len(related) > 0 {
				return usageError{errors.New("give a query or --related-to, not both")}
			}
			find := wishes{}
			find.list("query", queries)
			find.list("related_to", related)
			find.set("seed", seed)
			show := showHits(g.out, "found_channels", "channel_id", fewChannels)
			if len(related) > 0 {
				show = listRanked("found_channels", "channel_id", g.out.columns(fewChannels), 0)
			}
			return askOnce(c.Context(), g, job.VerbFindChannels, find, &pages, &enrich, show)
		},
	}
	g.spending.addFlags(c)
	pages.add(c, "channels", filtersOfChannels, orderOfChannels)
	pages.addAgain(c)
	enrich.add(c, "channel_videos, channel_shorts")
	c.Flags().StringArrayVar(&related, "related-to", nil, "a channel to relate to, by id or address; repeatable")
	c.Flags().StringVar(&seed, "seed", "", "seed of a random order of the channels")
	return c
}
