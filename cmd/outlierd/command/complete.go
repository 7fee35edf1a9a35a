package command

import (
	"strings"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/job"
)

// complete adds shell completion to all commands: names of jobs wherever Use has JOB, and the values of
// flags.
func (o *options) complete(c *cobra.Command) {
	if strings.Contains(c.Use, "JOB") {
		c.ValidArgsFunction = o.completeJob
	}
	for _, flag := range []string{
		"output", "log-level", "log-format", "enrich", "each", "by", "mode", "sort", "where",
	} {
		if c.Flags().Lookup(flag) != nil || c.PersistentFlags().Lookup(flag) != nil {
			// It fails only for a flag that does not exist.
			_ = c.RegisterFlagCompletionFunc(flag, completeFlag(flag))
		}
	}
	for _, sub := range c.Commands() {
		o.complete(sub)
	}
}

// completeFlag returns a function that completes the values of a flag.
func completeFlag(flag string) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		switch values := flagValues(flag, c); {
		case len(values) == 0:
			return nil, cobra.ShellCompDirectiveDefault
		case flag == "where":
			return values, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		default:
			return values, cobra.ShellCompDirectiveNoFileComp
		}
	}
}

func flagValues(flag string, c *cobra.Command) []string {
	switch flag {
	case "output":
		return term.Formats
	case "log-level":
		return logLevels
	case "log-format":
		return []string{"auto", "text", "json"}
	case "enrich":
		return []string{"details", "comments", "transcript", "channel_videos", "channel_shorts"}
	case "each":
		return job.Windows
	case "by":
		ways := []string{"semantic", "lexical"}
		if c.Name() == "related" {
			ways = append(ways, "channel")
		}
		return ways
	case "mode":
		return []string{"fast", "standard"}
	case "sort":
		return withOrders(job.Sorts(operationOf(c.Name())))
	case "where":
		return withEquals(job.Filters(operationOf(c.Name())))
	}
	return nil
}

// completeJob completes the jobs of the file that are not yet among the arguments. It completes nothing
// if the file cannot be read.
func (o *options) completeJob(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	config, err := o.loadToRead()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, spec := range config.Jobs {
		if !strings.Contains(" "+strings.Join(args, " ")+" ", " "+spec.Name+" ") {
			names = append(names, cobra.CompletionWithDesc(spec.Name, spec.About))
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
