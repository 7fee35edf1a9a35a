package command

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"outlierd/cmd/outlierd/term"
	"outlierd/internal/durable"
	"outlierd/sync/job"
	"outlierd/sync/yamltree"
)

// prepareCommand checks the arguments of a command and of those below it, and notes when one starts: what ends it
// before that is an invalid command line.
func prepareCommand(c *cobra.Command, started *bool) {
	if c.Args == nil {
		c.Args = checkArguments
	}
	if start := c.RunE; start != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			*started = true
			return start(c, args)
		}
	}
	for _, sub := range c.Commands() {
		prepareCommand(sub, started)
	}
}

// checkArguments returns an error unless there are as many arguments as the command's line of usage names before its
// flags: NAME is one, [NAME] at most one, and … any number more.
func checkArguments(c *cobra.Command, args []string) error {
	least, most := 0, 0
	for _, word := range strings.Fields(c.Use)[1:] {
		if strings.HasPrefix(word, "-") {
			break
		}
		if most++; !strings.HasPrefix(word, "[") {
			least++
		}
		if strings.Contains(word, "…") {
			most = math.MaxInt
		}
	}
	switch {
	case len(args) < least:
		return fmt.Errorf("an argument is missing: write '%s'", c.UseLine())
	case len(args) <= most:
		return nil
	case !c.HasSubCommands():
		return fmt.Errorf("unexpected argument %q: write '%s'", args[most], c.UseLine())
	}
	meant := ""
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		meant = fmt.Sprintf(" (did you mean %s?)", strings.Join(near, " or "))
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], c.CommandPath(), meant)
}

// refuseEmptyValues returns an error if a flag that is a list was given an empty value, which would be ignored.
func refuseEmptyValues(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		list, is := f.Value.(pflag.SliceValue)
		if is && (len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")) {
			err = fmt.Errorf("--%s has an empty value: remove it", f.Name)
		}
	})
	return err
}

// exclude refuses a flag together with each of the others.
func exclude(c *cobra.Command, flag string, others ...string) {
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		for _, other := range others {
			if c.Flags().Changed(flag) && c.Flags().Changed(other) {
				return fmt.Errorf("--%s and --%s exclude each other", flag, other)
			}
		}
		if before == nil {
			return nil
		}
		return before(c, args)
	}
}

// didYouMean returns the end of a message that suggests the most similar known word; "" if there is none.
func didYouMean(typed string, known []string) string {
	if meant := yamltree.Nearest(typed, known); meant != "" {
		return "; did you mean " + meant + "?"
	}
	return ""
}

// expandTags replaces each @tag among names by the jobs that have the tag, except those that refuses returns an error
// for, unless it does for all of them. Each job is named once.
func expandTags(config *job.Config, names []string, refuses func(*job.Spec) error) (all []string, err error) {
	for _, name := range names {
		tag, isTag := strings.CutPrefix(name, "@")
		found, refused := []string{name}, error(nil)
		for i := range config.Jobs {
			spec := &config.Jobs[i]
			if !isTag || !slices.Contains(spec.Tags, tag) {
				continue
			}
			if err := refuses(spec); err != nil {
				refused = err
				continue
			}
			found = append(found, spec.Name)
		}
		known := config.Tags()
		switch {
		case !isTag:
		case len(found) > 1:
			found = found[1:]
		case refused != nil:
			return nil, fmt.Errorf("%s: %w", name, refused)
		case len(known) == 0:
			return nil, usageError{fmt.Errorf("%s has no tag %q: no job has tags", config.Path, tag)}
		default:
			return nil, usageError{fmt.Errorf("%s has no tag %q; the tags are @%s", config.Path, tag, strings.Join(known, ", @"))}
		}
		for _, name := range found {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all, nil
}

// anyJob makes [expandTags] take all jobs with a tag.
func anyJob(*job.Spec) error { return nil }

// noJob returns the error for an unknown job name; why explains it.
func noJob(config *job.Config, name, why string) error {
	var known []string
	renamed := ""
	for i := range config.Jobs {
		spec := &config.Jobs[i]
		known = append(known, spec.Name)
		if name != "" && spec.Was == name {
			renamed = "; it is named " + spec.Name + " now"
		}
	}
	hint := cmp.Or(renamed, didYouMean(name, known))
	return usageError{fmt.Errorf("%s has no job %q%s%s", config.Path, name, why, hint)}
}

// addCompletion adds shell completion to all commands: names of jobs wherever Use has JOB, and the values of flags that
// all commands have.
func addCompletion(root *cobra.Command, jobs cobra.CompletionFunc) {
	completeFlag(root, "output", term.Formats...)
	completeFlag(root, "log-level", logLevels...)
	completeFlag(root, "log-format", logFormats...)
	completeJobs(root, jobs)
}

func completeJobs(c *cobra.Command, jobs cobra.CompletionFunc) {
	if strings.Contains(c.Use, "JOB") {
		c.ValidArgsFunction = jobs
	}
	for _, sub := range c.Commands() {
		completeJobs(sub, jobs)
	}
}

// completeFlag completes the values of a flag. After one that ends in = more is typed.
func completeFlag(c *cobra.Command, flag string, values ...string) {
	directive := cobra.ShellCompDirectiveNoFileComp
	if strings.HasSuffix(values[0], "=") {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, directive)); err != nil {
		panic(err) // there is no such flag
	}
}

// completeJob completes the jobs of the file that are not yet among the arguments, and tags where there may be several
// jobs. It completes nothing if the file cannot be read.
func (g *globals) completeJob(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	config, err := g.loadToRead()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, spec := range config.Jobs {
		if !strings.Contains(" "+strings.Join(args, " ")+" ", " "+spec.Name+" ") {
			names = append(names, cobra.CompletionWithDesc(spec.Name, spec.About))
		}
	}
	if strings.Contains(c.Use, "JOB…") {
		for _, tag := range config.Tags() {
			names = append(names, cobra.CompletionWithDesc("@"+tag, "jobs with this tag"))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

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
	if err := durable.WriteFile(path, []byte(manPage(c)), 0o644); err != nil {
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
