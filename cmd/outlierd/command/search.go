package command

import (
	"github.com/spf13/cobra"

	"outlierd/sync/job"
)

func searchCommand(g *globals) *cobra.Command {
	var pages pageFlags
	var enrich enrichFlags
	var by, seed string
	c := &cobra.Command{
		Use:   "search QUERY…",
		Short: "Search once and print the hits; 2 credits a page",
		Long: `Search once, without an entry in the job file, and print the hits, best first. Budget,
ledger, journal and tables are those of the job file. Several queries are one request. A
page that was bought within the last six hours comes from the journal and costs nothing.`,
		Example: `  outlierd search "moka pot" --where z_score=2.. --sort "z_score desc"
  outlierd search "moka pot" "latte art" --pages 2 --enrich transcript --top 5 -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, queries []string) error {
			search := wishes{"query": queries}
			search.set("by", by)
			search.set("seed", seed)
			show := showHits(g.out, "outliers", "video_id", fewOutliers)
			return askOnce(c.Context(), g, job.VerbSearch, search, &pages, &enrich, show)
		},
	}
	g.spending.addFlags(c)
	pages.add(c, "hits", filtersOfVideos, orderOfVideos)
	pages.addAgain(c)
	enrich.add(c, kindsOfVideos)
	c.Flags().StringVar(&by, "by", "", "semantic (meaning of words) or lexical (exact words)")
	c.Flags().StringVar(&seed, "seed", "", "seed of a random order of the hits")
	return c
}
