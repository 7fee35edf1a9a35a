package command

import (
	"errors"

	"github.com/spf13/cobra"

	"outlierd/outlier"
	"outlierd/sync/job"
)

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
