package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"outlierd/sinks/duckdb"
	"outlierd/sync/job"
)

func sqlCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "sql QUERY",
		Short: "Ask the tables; needs no running daemon",
		Long: `Ask the published DuckDB file and print the result. The file is opened read-only
and closed again, so nothing is locked and nothing can be changed. "-" reads the
query from standard input.`,
		Example: `  outlierd sql "select title, z_score from outliers order by z_score desc limit 5"
  outlierd sql -o csv "select * from channels" > channels.csv
  outlierd sql "select table_name, comment from duckdb_tables() order by 1"`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			config, err := o.loadToRead()
			if err != nil {
				return err
			}
			query := args[0]
			if query == "-" {
				text, err := io.ReadAll(o.in)
				if err != nil {
					return fmt.Errorf("read the query from standard input: %w", err)
				}
				query = string(text)
			}
			return o.ask(c.Context(), config, query)
		},
	}
}

// ask prints the result of a query over the published file.
func (o *options) ask(ctx context.Context, config *job.Config, query string) error {
	path := published(config)
	if path == "" {
		return fmt.Errorf("%s has no duckdb sink, so there is nothing to query; add `- duckdb: outliers.duckdb` under `sinks:`", config.Path)
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s does not exist yet; 'outlierd run' makes it", relative(path))
	}
	var p printer
	err := duckdb.Query(ctx, path, query, func(columns []string) (err error) {
		p, err = o.printer(columns)
		return err
	}, func(values []any) error { return p.row(values) })
	if errors.Is(err, duckdb.ErrSeveral) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	return p.close()
}
