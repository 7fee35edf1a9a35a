package command

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"outlierd/sync/job"
	"outlierd/sync/yamltree"
)

// noteStart notes when a command starts: what ends one before that is an invalid command line.
func noteStart(c *cobra.Command, started *bool) {
	if start := c.RunE; start != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			*started = true
			return start(c, args)
		}
	}
	for _, sub := range c.Commands() {
		noteStart(sub, started)
	}
}

// noArguments refuses the arguments of a command that only has subcommands, and suggests those that are meant.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	meant := ""
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		meant = fmt.Sprintf(" (did you mean %s?)", strings.Join(near, " or "))
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], c.CommandPath(), meant)
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
