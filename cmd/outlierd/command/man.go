package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
)

func manCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages into a folder",
		Example: `  outlierd man /usr/local/share/man/man1
  man outlierd-run`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("create the folder for manual pages: %w", err)
			}
			wrote, err := writeManPages(c.Root(), args[0])
			if err != nil {
				return fmt.Errorf("write manual pages into %s: %w", args[0], err)
			}
			return g.out.print(filesWritten{wrote}, "wrote %s into %s\n",
				term.Count(len(wrote), "manual page"), args[0])
		},
	}
}

// writeManPages writes the page of a command, and those of all below it that the help lists.
func writeManPages(c *cobra.Command, dir string) (wrote []string, err error) {
	path := filepath.Join(dir, manName(c)+".1")
	if err := os.WriteFile(path, []byte(manPage(c)), 0o644); err != nil {
		return nil, err
	}
	wrote = []string{path}
	for _, below := range c.Commands() {
		if !below.IsAvailableCommand() || below.IsAdditionalHelpTopicCommand() {
			continue
		}
		more, err := writeManPages(below, dir)
		if err != nil {
			return nil, err
		}
		wrote = append(wrote, more...)
	}
	return wrote, nil
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage returns the manual page of a command, in roff: its help as --help prints it. It has no date, so that equal
// builds have equal pages.
func manPage(c *cobra.Command) string {
	help := strings.TrimSpace(c.Long + "\n\n" + c.UsageString())
	return fmt.Sprintf(".TH OUTLIERD 1 \"\" \"outlierd %s\"\n.SH NAME\n%s\n.SH DESCRIPTION\n.EX\n%s\n.EE\n",
		escapeRoff(version()), escapeRoff(manName(c)+" - "+c.Short), escapeRoff(help))
}

// escapeRoff returns a text in which no character has a meaning for roff.
func escapeRoff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
