package command

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"outlierd/sync/job"
)

//go:embed demo.yaml
var demoFile []byte

func demoCommand(o *options) *cobra.Command {
	var folder string
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run a sample job against the built-in simulator",
		Long: `Run a sample job against the built-in simulator, in a folder of its own. No key, no network,
no cost. A second run buys only what may have changed.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return err
			}
			o.config = filepath.Join(folder, defaultConfig)
			if err := os.WriteFile(filepath.Join(folder, schemaFile), job.Schema(), 0o644); err != nil {
				return err
			}
			talk := o // the result is the rows of its query
			if o.output != "table" {
				talk = o.aside()
			}
			switch err := writeNew(o.config, demoFile); {
			case err == nil:
				fmt.Fprintf(talk.world.out, "wrote %s (the service is the built-in simulator: "+
					"no key, no network)\n", o.config)
			case !errors.Is(err, os.ErrExist):
				return err
			}
			config, err := o.load()
			if err != nil {
				return err
			}
			err = talk.runJobs(c.Context(), config,
				func(*program) ([]jobRun, error) { return byHand(config.Jobs), nil })
			if err != nil {
				return err
			}
			return o.firstQuery(c, config, talk)
		},
	}
	c.Flags().StringVar(&folder, "dir", "demo", "the folder to work in")
	return c
}

// firstQuery runs the query that the summary names, and prints the commands to try next.
func (o *options) firstQuery(c *cobra.Command, config *job.Config, talk *options) error {
	fmt.Fprintln(talk.world.out)
	if err := o.ask(c.Context(), config, best); err != nil {
		return err
	}
	fmt.Fprintf(talk.world.out, `
Next steps:
  outlierd sql -c %[1]s "select table_name, estimated_size from duckdb_tables() order by 2 desc"
  outlierd run -c %[1]s       run again: only what may have changed is bought
  outlierd up -c %[1]s        run it on its schedule
  outlierd init                        a jobs.yaml of your own
`, o.config)
	return nil
}
