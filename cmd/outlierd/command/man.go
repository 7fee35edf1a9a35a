package command

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"outlierd/cmd/outlierd/term"
)

func manCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages into a folder",
		Example: `  outlierd man /usr/local/share/man/man1
  man outlierd-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("create the folder for manual pages: %w", err)
			}
			header := &doc.GenManHeader{Title: "OUTLIERD", Section: "1", Source: "outlierd " + version()}
			if err := doc.GenManTree(c.Root(), header, args[0]); err != nil {
				return fmt.Errorf("write manual pages into %s: %w", args[0], err)
			}
			pages, err := filepath.Glob(filepath.Join(args[0], "outlierd*.1"))
			if err != nil {
				return err
			}
			return o.done(map[string]any{"wrote": pages}, "wrote %s into %s\n",
				term.Count(len(pages), "manual page"), args[0])
		},
	}
}
