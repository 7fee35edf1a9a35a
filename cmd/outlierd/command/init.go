package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"outlierd/internal/durable"
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
			return g.out.print(filesWritten{[]string{g.config, schema}}, `wrote %s and %s
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

// writeNew writes a file that must not exist.
func writeNew(path string, content []byte) error {
	err := fs.ErrExist
	if isMissing(path) {
		err = durable.WriteNew(path, 0o644, func(file *os.File) error {
			_, err := file.Write(content)
			return err
		})
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s was not changed: %w; name another file with --config", path, fs.ErrExist)
	}
	return err
}
