package command

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"outlierd/schema"
	"outlierd/sync/job"
	"outlierd/sync/journal"
)

func schemaCommand(g *globals) *cobra.Command {
	return group("schema", "Print the tables, the job file's schema, or schema drift", "",
		&cobra.Command{
			Use: "tables", Short: "Print every table and column, as in docs/tables.md",
			RunE: func(*cobra.Command, []string) error {
				var all []tableColumn
				for _, t := range slices.Concat(schema.Tables(), schema.OpsTables()) {
					for _, c := range t.All() {
						all = append(all, tableColumn{t.Name, c.Name, c.SQLType(), c.Path, c.Comment})
					}
				}
				return g.out.print(all, "%s", schema.Markdown())
			},
		},
		&cobra.Command{
			Use: "config", Short: "Print the JSON Schema of the job file, for editors",
			RunE: func(*cobra.Command, []string) error {
				_, err := g.out.w.Write(job.Schema())
				return err
			},
		},
		driftCommand(g))
}

func driftCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "drift", Short: "List fields of answers that the interface does not have",
		Long: `List the fields of answers that the interface does not have, or that have another type
there: path, problem, count, dates and an example. Their values are stored in the column
extra of their rows.`,
		RunE: g.inSession(toRead, func(_ context.Context, p *program, _ []string) error {
			all, err := p.Engine.Store.Learned.Drift()
			if err != nil {
				return err
			}
			columns := []string{"operation", "path", "problem", "count", "first_seen_at", "last_seen_at", "example"}
			return printList(g.out, each(all), columns, func(d journal.Drift) []any {
				return []any{string(d.Op), d.Path, d.Problem, d.Count, when(d.First), when(d.Last), d.Example}
			})
		}),
	}
}

// tableColumn is a column of a table.
type tableColumn struct {
	Table   string `json:"table"`
	Column  string `json:"column"`
	Type    string `json:"type"`
	Path    string `json:"path,omitempty"` // in an answer
	Comment string `json:"comment,omitempty"`
}
