package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"outlierd/sync/job"
)

// schemaFile is where editors look for the schema of the job file beside it.
const schemaFile = "jobs.schema.json"

func initCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Write a jobs.yaml to start from",
		Long: `Write a commented jobs.yaml, and beside it the schema that lets an editor complete
and check it. A job file that is there is never touched.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			schema := filepath.Join(filepath.Dir(o.config), schemaFile)
			if err := writeNew(o.config, job.Example()); err != nil {
				return err
			}
			if err := os.WriteFile(schema, job.Schema(), 0o644); err != nil {
				return err
			}
			return o.done(map[string]any{"wrote": []string{o.config, schema}}, `wrote %s and %s
  outlierd lint            check it
  outlierd run             run it now (it names the simulator: no key, no network)
  outlierd up              stay, and run it when it is due
`, o.config, schema)
		},
	}
}

// writeNew writes a file that must not exist yet.
func writeNew(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s was left alone: %w; name another file with --config", path, os.ErrExist)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
