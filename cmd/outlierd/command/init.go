package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"outlierd/sync/job"
)

// schemaFile is the name under which editors look for the schema of the job file.
const schemaFile = "jobs.schema.json"

func initCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Write a commented jobs.yaml",
		Long: `Write a commented jobs.yaml, and beside it the schema with which editors complete and check
it. An existing job file is not changed.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			schema := filepath.Join(filepath.Dir(g.config), schemaFile)
			if err := writeNew(g.config, job.Example()); err != nil {
				return err
			}
			if err := os.WriteFile(schema, job.Schema(), 0o644); err != nil {
				return err
			}
			run := "with the simulator: no key, no network"
			if config, err := g.load(); err != nil { // what it takes from the environment
				run = "once 'outlierd lint' finds no mistake"
			} else if url := config.Service.URL; !config.Service.Simulated() {
				run = "at " + url + ", for credits: --dry-run prints the price"
			}
			return writtenFiles.print(g.out, filesWritten{[]string{g.config, schema}}, `wrote %s and %s
  outlierd lint            check it
  outlierd run             run it now (%s)
  outlierd up              run it on its schedule
`, g.config, schema, run)
		},
	}
}

// filesWritten is the output of init and man for programs.
type filesWritten struct {
	Wrote []string `json:"wrote"`
}

var writtenFiles = documentOf[filesWritten]("init", "man")

// writeNew writes a file that must not exist.
func writeNew(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s was not changed: %w; name another file with --config", path, os.ErrExist)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
