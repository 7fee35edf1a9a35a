package command

import (
	"github.com/spf13/cobra"

	"outlierd/outlier"
	"outlierd/sync/job"
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
