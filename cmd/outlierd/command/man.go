package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"outlierd/cmd/outlierd/term"
)

func manCommand(g *globals) *cobra.Command {
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
			wrote, err := writeManPages(c.Root(), args[0])
			if err != nil {
				return fmt.Errorf("write manual pages into %s: %w", args[0], err)
			}
			return writtenFiles.print(g.out, filesWritten{wrote}, "wrote %s into %s\n",
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

// manPage returns the manual page of a command, in roff. It has no date, so that equal builds have equal pages.
func manPage(c *cobra.Command) string {
	var page strings.Builder
	fmt.Fprintf(&page, ".TH OUTLIERD 1 \"\" \"outlierd %s\"\n.nh\n", escapeRoff(version()))
	section := func(title, text string) {
		if text = strings.Trim(text, "\n"); text != "" {
			fmt.Fprintf(&page, ".SH %s\n%s\n", title, text)
		}
	}
	section("NAME", escapeRoff(manName(c)+" - "+c.Short))
	section("SYNOPSIS", `\fB`+escapeRoff(c.UseLine())+`\fP`)
	section("DESCRIPTION", roffParagraphs(c.Long))
	section("OPTIONS", roffOptions(c.NonInheritedFlags()))
	section("OPTIONS OF ALL COMMANDS", roffOptions(c.InheritedFlags()))
	if c.HasExample() {
		section("EXAMPLES", ".EX\n"+escapeRoff(c.Example)+"\n.EE")
	}
	var also []string
	if c.HasParent() {
		also = append(also, manName(c.Parent()))
	}
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() && !below.IsAdditionalHelpTopicCommand() {
			also = append(also, manName(below))
		}
	}
	for i, name := range also {
		also[i] = `\fB` + escapeRoff(name) + `\fP(1)`
	}
	section("SEE ALSO", strings.Join(also, ",\n"))
	return page.String()
}

// roffOptions returns options, each with its default and meaning.
func roffOptions(flags *pflag.FlagSet) string {
	var text strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := `\fB--` + escapeRoff(f.Name) + `\fP`
		if f.Shorthand != "" {
			name = `\fB-` + escapeRoff(f.Shorthand) + `\fP, ` + name
		}
		if value != "" {
			name += ` \fI` + escapeRoff(value) + `\fP`
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(&text, ".TP\n%s\n%s\n", name, escapeRoff(usage))
	})
	return text.String()
}

// roffParagraphs returns a text whose indented lines stay as they are.
func roffParagraphs(text string) string {
	var page strings.Builder
	for part := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		begin, end := ".PP\n", "\n"
		if strings.HasPrefix(part, " ") {
			begin, end = ".PP\n.EX\n", "\n.EE\n"
		}
		page.WriteString(begin + escapeRoff(part) + end)
	}
	return page.String()
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
