package command

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"outlierd/schema"
	"outlierd/sync/job"
)

func schemaCommand(o *options) *cobra.Command {
	return group("schema", "Print the tables, the job file's schema, or schema drift", "",
		&cobra.Command{
			Use: "tables", Short: "Print every table and column, as in docs/tables.md", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				if o.output == "table" || o.output == "markdown" {
					_, err := fmt.Fprint(o.world.out, schema.Markdown())
					return err
				}
				return o.rows([]string{"table", "column", "type", "path", "comment"}, tableRows())
			},
		},
		&cobra.Command{
			Use: "config", Short: "Print the JSON Schema of the job file, for editors", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				_, err := o.world.out.Write(job.Schema())
				return err
			},
		},
		driftCommand(o))
}

func driftCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "drift", Short: "List fields of answers that the interface does not have",
		Long: `List the fields of answers that the interface does not have, or that have another type
there: path, problem, count, dates and an example. Their values are stored in the column
extra of their rows.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			config, err := o.loadToRead()
			if err != nil {
				return err
			}
			return o.with(c.Context(), config, toRead, func(p *program) error {
				all, err := p.Engine.Store.Journal.Drift()
				if err != nil {
					return err
				}
				var rows [][]any
				for _, d := range all {
					rows = append(rows, []any{string(d.Op), d.Path, d.Problem, d.Count, when(d.First),
						when(d.Last), d.Example})
				}
				return o.rows([]string{"operation", "path", "problem", "count", "first_seen_at", "last_seen_at",
					"example"}, rows)
			})
		},
	}
}

// tableRows returns a row for each column of each table.
func tableRows() (rows [][]any) {
	for _, t := range slices.Concat(schema.Tables(), schema.OpsTables()) {
		for _, c := range t.All() {
			rows = append(rows, []any{t.Name, c.Name, c.SQLType(), filled(c.Path), filled(c.Comment)})
		}
	}
	return rows
}
