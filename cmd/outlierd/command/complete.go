package command

import (
	"strings"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/job"
)

// addCompletion adds shell completion to all commands: names of jobs wherever Use has JOB, and the values of
// flags.
func addCompletion(c *cobra.Command, jobs cobra.CompletionFunc) {
	if strings.Contains(c.Use, "JOB") {
		c.ValidArgsFunction = jobs
	}
	by := []string{"semantic", "lexical"}
	if c.Name() == "related" {
		by = append(by, "channel")
	}
	op := operationOf(c.Name())
	for flag, values := range map[string][]string{
		"output": term.Formats, "log-level": logLevels, "log-format": {"auto", "text", "json"}, "each": job.Windows,
		"enrich": {"details", "comments", "transcript", "channel_videos", "channel_shorts"}, "by": by,
		"mode": {"fast", "standard"}, "sort": withOrders(job.Sorts(op)), "where": withEquals(job.Filters(op)),
	} {
		directive := cobra.ShellCompDirectiveNoFileComp
		if flag == "where" {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		if c.LocalNonPersistentFlags().Lookup(flag) != nil || c.PersistentFlags().Lookup(flag) != nil {
			// It fails only for a flag that does not exist.
			_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, directive))
		}
	}
	for _, sub := range c.Commands() {
		addCompletion(sub, jobs)
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

// operationOf returns the operation of a one-off command; "" for other commands.
func operationOf(command string) outlier.Operation {
	switch command {
	case "search", "start", "read":
		return outlier.OpSearch
	case "related":
		return outlier.OpRelated
	case "find-channels":
		return outlier.OpFindChannels
	}
	return ""
}

func withOrders(sorts []string) (all []string) {
	for _, sort := range sorts {
		all = append(all, sort+" desc", sort+" asc")
	}
	return all
}

func withEquals(keys []string) (all []string) {
	for _, key := range keys {
		all = append(all, key+"=")
	}
	return all
}
