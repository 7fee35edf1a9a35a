package command

import (
	"strings"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
)

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
